"""The ring join: rows of two to nine streams that satisfy any predicates, close in time.

- :mod:`.chain`: the hops of a join, and what goes from one to the next
- :mod:`.step`: one step of one hop; :mod:`.state` is what is kept from step to step, and
  :mod:`.waiting` what waits for the end of a step
- :mod:`.layout`: how rows are stored; :mod:`.probing`: rows and partial results that probe
- :mod:`.probe`: what they match: :mod:`.candidates` by time, then predicates, in the order of
  :mod:`.cascade`; :mod:`.fan_out` limits it
- :mod:`.marks`: which rows have matched, of left, right, semi and anti joins
- :mod:`.advice`: would another order of the hops be better?
- :mod:`.counters`: what a step counts
"""
