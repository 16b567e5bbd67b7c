"""Dealing rows by count: rows of equal content get codes of their own.

A row without a key goes by its code, which is a hash of its content. Rows of equal content would
all go to one shard, however many they are. So they are dealt, one shard after the other:

    the n-th row of a content in a task, from 0 on, gets the code whose shard is n further on

**Invariant.** Which rows of a task go where depends on the rows that the task has, and not on their
order: of k rows of equal content, some row gets each of the numbers 0 to k - 1, and it does not
matter which. So a task that is run again deals alike, also behind a shuffle, which may bring its
rows in another order. A row that has no like goes by its content alone.

A hash decides here whether contents are equal. Where it errs, nothing is lost: rows are where their
codes say.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.rows.codes import content_hash
from watersmeet.rows.columns import CODE, Ints, Positions, codes_of
from watersmeet.rows.shard import further


class Dealing:
    """Deals the rows of one task, which come in any number of batches.

    >>> rows = pa.RecordBatch.from_pydict({CODE: [7, 7, 7, 9], "n": [1, 1, 1, 3]})
    >>> dealing = Dealing()
    >>> codes = [code for _ in range(2) for code in dealing.dealt(rows).column(CODE).to_pylist()]
    >>> codes[0], codes[3], len(set(codes))
    (7, 9, 8)
    """

    def __init__(self) -> None:
        self._contents: Ints = np.empty(0, dtype=np.int64)
        self._counts: Ints = np.empty(0, dtype=np.int64)

    def dealt(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, with codes by which they are dealt."""
        contents: Ints = content_hash(rows).to_numpy()
        codes = further(codes_of(rows), self._before(contents) + ranks(contents))
        self._remember(contents)
        return rows.set_column(rows.schema.get_field_index(CODE), CODE, pa.array(codes))

    def _before(self, contents: Ints) -> Ints:
        """How many rows of each content there were in the batches before."""
        if not len(self._contents):
            return np.zeros(len(contents), dtype=np.int64)
        place = np.searchsorted(self._contents, contents).clip(max=len(self._contents) - 1)
        found: Ints = np.where(self._contents[place] == contents, self._counts[place], 0)
        return found

    def _remember(self, contents: Ints) -> None:
        new, counts = np.unique(contents, return_counts=True)
        together = np.concatenate([self._contents, new])
        self._contents, places = np.unique(together, return_inverse=True)
        weights = np.concatenate([self._counts, counts])
        self._counts = np.bincount(places, weights, len(self._contents)).astype(np.int64)


def ranks(values: Ints | Positions) -> Ints:
    """For each value, how many equal ones come before it.

    >>> ranks(np.array([7, 5, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.append(len(values) > 0, ordered[1:] != ordered[:-1]))
    found = np.empty(len(values), dtype=np.int64)
    found[order] = np.arange(len(values)) - np.repeat(first, np.diff(np.append(first, len(values))))
    return found
