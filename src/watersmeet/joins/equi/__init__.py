"""The equality join: rows of two and more streams with equal keys, close in time.

- :mod:`.step`: one step, from new rows and a watermark to results; :mod:`.context` is what its
  parts share, :mod:`.state` what is kept from step to step
- :mod:`.matcher`: how new rows are matched: :mod:`.pairs` of two streams, :mod:`.combinations` of
  more; each with its own way to probe windows (:mod:`.pair_probe`, :mod:`.combination_probe`)
- :mod:`.layout`, :mod:`.keys`, :mod:`.sides`: how the join's rows are stored and read, and
  positions that match; :mod:`.discard`: stored rows that cannot match any more
- :mod:`.flow`, :mod:`.counters`: what is measured of the streams, and what a step counts
- :mod:`.promises`: which keys are closed, and what follows from it
- :mod:`.order`: in which order new rows are processed, and windows probed
- :mod:`.limits`: what a join may use: memory, rates, results a row
"""
