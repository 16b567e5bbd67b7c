"""Segments: immutable rows of one stream, and how they are searched.

Nothing here knows where segments are stored. The files, in the order in which to read them:

    segment       rows that arrived together, and the bounds of their times
    index         the positions of the rows, sorted by (code, time)
    keyset        a set of keys, as ranges; it is stored as a segment, too

Searching by key and time

    probe         which stored rows do new rows match?
    code_search   which codes are among sorted ones, and where?

Searching by intervals, without a key

    intervals     which stored rows overlap new ones, in one dimension or several?
    lines         stored rows in the order of one number, and in a grid by two
    runs          pairs of rows where each new row meets many neighbours
"""
