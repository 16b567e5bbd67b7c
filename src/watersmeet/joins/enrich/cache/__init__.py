"""The cache of the semi-stream join: master rows of frequent keys, so that few rows ask the table.

misses      how often keys came that are not in the cache
hot_keys    the cache: all master rows of some keys, as files
migration   which keys enter and leave it, and when
"""
