"""The equality join: rows of two and more streams with equal keys, close in time.

To be read in this order:

- :mod:`.spec`, :mod:`.policy`: what was asked for, and how it runs. :mod:`.plan` makes both from a
  call, and :mod:`.explain` describes them
- :mod:`.family`: its entry in the list of families; :mod:`.chain` is what backends run, with
  :mod:`.operator` in it
- :mod:`.layout`: how rows are stored; :mod:`.state`: what is kept from step to step
- :mod:`.step`: one step, from new rows and a watermark to results. Its parts share
  :mod:`.context`; :mod:`.counters` has what it counts
- :mod:`.match`: how new rows are matched, in pairs or in combinations
- :mod:`.drivers`: in which order the streams' new rows are processed
- :mod:`.flow`: what is measured of the streams
- :mod:`.promises`: which keys are closed, and what follows from it
- :mod:`.limits`: what a join may use, and what it does with more than that
"""
