"""State: what a join keeps between two micro-batches, and how.

Nothing here knows Spark. The files, from the bottom up:

    store         a small durable map from names to bytes
    index         where rows are, sorted by (code, time)
    segment       immutable rows of one stream, with their index
    probe         which rows of a segment do new rows match?
    lines         stored rows in the order of one number, or in a grid by two
    overlaps      which stored rows overlap new ones, by intervals of any number of dimensions?
    cache/        segments as files on the host: checked, private, bounded
    memory        the segments that are open, within a limit of memory
    manifest      which segments there are
    compaction    which segments to merge
    bitmaps       which rows of a segment are marked, and which are gone
    write_buffer  what waits to be written until the end of the step
    window        one stream's rows: the segments of a window, and what happens to them
    keyset        a set of keys, as ranges
    shard         the state of one shard: its windows, and the operator's own section
"""
