"""The ring join: rows of two to nine streams that satisfy any predicates, close in time.

To be read in this order:

- :mod:`.spec`, :mod:`.plan`, :mod:`.policy`: what is asked for, and how it is to run;
  :mod:`.explain` says it in words
- :mod:`.layout`: what the operators know of the join, and how rows are stored
- :mod:`.hops`: the hops of a join, and what goes from one to the next. :mod:`.chain` is what
  backends run, with :mod:`.operator` in each hop; :mod:`.family` is its entry in the list of
  families
- :mod:`.step`: one step of one hop; :mod:`.state` is what is kept from step to step,
  :mod:`.counters` what a step counts
- :mod:`.search`: which stored rows match the rows that probe
- :mod:`.marks`: which rows have matched, of left, right, semi and anti joins
- :mod:`.advice`: would another order of the hops, or another number of slices, be better?
- :mod:`.relocation`: stored rows get new homes while the join is stopped
"""
