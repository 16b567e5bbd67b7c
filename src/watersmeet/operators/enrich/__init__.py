"""The semi-stream join: a stream is enriched from a table that may be larger than memory.

The files, from the bottom up:

    partitions    the rows of a table, sorted by key code, in files: written
    table         ... and read: which partitions may hold a key, and their rows
    layout        what the operator knows of the join
    answers       results for stream rows, given master rows of their keys
    access        the disk phase: partitions are sought or scanned for the rows' keys
    hot_keys      the cache: the master rows of frequent keys, as a small table of its own
    tally         how often keys came that are not in the cache
    migration     which keys enter and leave the cache, and when
    waiting       rows that wait for their partition
    state         what one shard keeps between steps
    step          the operator
"""
