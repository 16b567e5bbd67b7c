"""What a planned join does, as a tree to read.

Each family has an ``explain`` that puts its own tree together. Here is what they share:

    tree     a tree of lines, and how it is drawn
    shared   what is said of joins of every family: streams, windows, keys, the watermark
"""
