"""The semi-stream join: a stream is enriched from a table that may be larger than memory.

The files, from the bottom up:

    checked       files that end with their checksum
    partitions    the rows of a table, sorted by key code, in files: written
    mapped        numbers in a file that is mapped into memory
    table         ... and read: which partitions may hold a key, and their rows
    layout        what the operator knows of the join
    candidates    pairs of stream rows and master rows, all of a key's or the valid ones
    answers       results for stream rows, given where their master rows are
    lookup        codes are looked up in a table
    source        the files that its rows are from, and what of it a newer version can keep
    staged        a version of a table, in a folder
    copies        copies of partitions on the host
    access        the disk phase: partitions are sought or scanned for the rows' keys
    hot_keys      the cache: the master rows of frequent keys, as a small table of its own
    tally         how often keys came that are not in the cache
    migration     which keys enter and leave the cache, and when
    waiting       rows that wait for their partition
    turn          whose turn it is: which of them are answered
    state         what one shard keeps between steps
    step          the operator
"""
