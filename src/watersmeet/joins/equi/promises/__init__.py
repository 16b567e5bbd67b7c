"""What streams promise about their keys, and what follows from it.

- :mod:`.checks`: which promises a join can keep account of; :mod:`.explain`: what they do for it
- :mod:`.phase`: what a step does about them; :mod:`.violations`: rows that break them
- :mod:`.promised_keys`: what a step knows of all streams' keys; :mod:`.closed_keys`: those that a
  stream will not bring any more, and :mod:`.coverage`: sets of keys
- :mod:`.purge`: rows that are useless then; :mod:`.propagation`: punctuations are handed on, and
  :mod:`.pending`: those that wait for that
"""
