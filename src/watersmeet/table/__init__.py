"""A staged table: a table that streams are enriched from, as files sorted by key.

The files, from the bottom up:

    files           how files are written, checked, and mapped into memory
    partitions      the rows of one shard, cut into partitions, with filters and fences: written
    layer           ... and read: which of the partitions may hold a key
    shard           the layers of one shard: of further rows, or of other shards
    lookup          codes are looked up: where their rows are, and these rows
    origin          the files that a layer's rows are from, and what a newer version keeps of it
    lease           for how long the files of a folder are kept
    staged_table    one version of a table, in a folder
    versions        which version of a table is current
"""
