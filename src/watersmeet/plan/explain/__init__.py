"""What a planned join does, as a tree to read.

Each family has an ``explain`` that puts its own tree together. They share:

    tree     a tree of lines, and how it is drawn
    shared   lines about joins of every family: streams, windows, keys, the watermark
"""
