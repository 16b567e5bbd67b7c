"""Joins: what every family keeps to, and a room for each family.

- :mod:`.operator`: the contract of an operator, which steps shards; :mod:`.chain`: what both
  backends run
- :mod:`.family`: the contract of a family, and :mod:`.families`, the list of them
- :mod:`.policy`, :mod:`.layout`, :mod:`.metrics`: what the families' own modules
  are made of
- :mod:`.watermark`: who is late, what is useless, what is proven unmatched; :mod:`.fan_out`: how
  many results a row makes
- :mod:`.equi`, :mod:`.ring`, :mod:`.enrich`: the families

Nothing here knows Spark. A backend calls an operator once a shard and micro-batch: the Spark
runtime, or a process with no JVM (:mod:`watersmeet.testing`).
"""
