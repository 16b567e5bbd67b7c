"""Rows: how they are encoded, dealt to shards, sent, measured, and made into results.

Rows are Arrow record batches throughout, in every family and in both backends. Nothing here keeps
state. The files, in the order in which to read them:

What a stored row consists of

    columns        its columns besides the user's own
    types          Spark's types and Arrow's, in one canonical form
    layout         which columns a stream's rows have, and what each is computed from
    input_layout   the layouts of all inputs of a join; how the user's columns are read back
    codes          codes of keys and of contents, over Arrow arrays
    stable_hash    a hash of keys that never changes, because it is kept in the state
    encode         the user's rows as stored rows
    stored_keys    are keys with equal codes equal? How does a key read in a message?

Where rows go

    shard          which shard a code belongs to
    groups         groups of equal values, by position
    dealing        rows of equal content get codes of their own
    route          to which shards a stream's rows go

How many at a time

    widths         the bytes that each row takes, and cutting rows by them
    gathering      small batches into larger ones
    ipc            rows as bytes
    spill          rows and values that wait in a temporary file

Results

    output         from matched positions to rows of the result
"""
