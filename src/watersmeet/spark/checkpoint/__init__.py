"""Checkpoints: the folders that stopped queries have left.

- :mod:`.checkpoint`: the checkpoint of a stopped query, and whether a join fits it
- :mod:`.start_check`: the checks when a query starts
- :mod:`.note`: the note in a checkpoint, with which a start is compared first
- :mod:`.relocation`: a new checkpoint, in which the rows of joins without a key have new homes
- :mod:`.copy`: the copy of a checkpoint without its state, for a relocation
- :mod:`.unsafe_rows`: rows of Spark's unsafe format, in which state is stored
"""
