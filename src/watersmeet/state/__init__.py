"""State: what a join keeps between two micro-batches, and how.

Nothing here knows Spark, or a family of joins. Rows are kept as segments
(:mod:`watersmeet.segments`). The files, from the bottom up:

    store          a small durable map from names to bytes
    part_names     names for the parts of segments: the same whenever a step is run again
    manifest       which segments there are
    fingerprint    the facts about a query that must not change while its checkpoint is in use
    cache/         segments as files on the host: checked, private, bounded
    memory         the segments that are open, within a limit of memory
    write_buffer   values that wait to be written until the end of the step
    bitmaps        which rows of a segment are marked, and which are gone
    compaction     which segments to merge
    window         one stream's rows: its segments, and what happens to them
    shard          the state of one shard: its windows, and the operator's own section
    key_segments   a set of keys that grows, as segments
"""
