"""The semi-stream join: a stream is enriched from a table that may be larger than memory.

The table is staged as files sorted by key: that is :mod:`watersmeet.table`. What is here reads it.

What is asked for, and how it runs:

    spec            what was asked for
    policy          how it runs: what its memory is divided into
    layout          what the operator knows of the join: how rows are stored
    counters        what a step counts

The operator, from the bottom up:

    cache/misses    how often keys came that are not in the cache
    queue           rows that wait: for their partition, or for a newer version of the table
    state           what one shard keeps between steps
    answers         results for stream rows, given where their master rows are
    reader          how a partition is read: scanned, sought, or from a copy on the host
    disk_phase      rows are answered from the partitions of the table
    cache/hot_keys  the cache: the master rows of frequent keys, as a small table of its own
    cache/migration which keys enter and leave the cache, and when
    cursor          whose turn it is: which of the rows that wait are answered
    step            one step: cache phase, disk phase, migration
    operator        the operator, and which version of the table a step uses

From a call to a join that runs:

    chain           the operator with its input
    explain         what the join does, for people to read
    plan            arguments are checked, and a join is planned
    family          the semi-stream join as a family of joins
"""
