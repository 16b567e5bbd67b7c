"""Dealing rows by count: rows of equal content get codes of their own.

A row without a key goes by its code, which is a hash of its content. Rows of equal content would
all go to one shard, however many they are. So they are dealt, one shard after the other:

    the n-th row of a content in a task, from 0 on, gets the code whose shard is n further on

For example, a task has the rows x, x, x and y, and there are four shards. The code of x belongs to
shard 2, that of y to shard 1::

    first batch    x ─► 2   x ─► 3   x ─► 0   y ─► 1
    second batch   x ─► 1   x ─► 2   x ─► 3   y ─► 2

**Invariant.** Which rows of a task go where depends on the rows that the task has, and not on their
order: of k rows of equal content, some row gets each of the numbers 0 to k - 1, and it does not
matter which. So a task that is run again deals alike, even behind a shuffle, which may bring its
rows in another order. A row whose content is unique goes by its content alone.

A hash decides here whether contents are equal. If two contents have one hash, nothing is lost: rows
are where their codes say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.codes import content_hash
from watersmeet.rows.columns import CODE, Ints, codes_of
from watersmeet.rows.groups import groups
from watersmeet.rows.shard import further


class Dealer:
    """Deals the rows of one task, which come in any number of batches.

    >>> rows = pa.RecordBatch.from_pydict({CODE: [7, 7, 7, 9], "n": [1, 1, 1, 3]})
    >>> dealing = Dealer()
    >>> codes = [code for _ in range(2) for code in dealing.dealt(rows).column(CODE).to_pylist()]
    >>> codes[0], codes[3], len(set(codes))
    (7, 9, 8)
    """

    def __init__(self) -> None:
        self._counts: list[ContentCounts] = []

    def dealt(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, with codes by which they are dealt."""
        if not len(rows):
            return rows
        contents: Ints = content_hash(rows).to_numpy()
        order, first, counts = groups(contents)
        new = ContentCounts(contents[order[first]], counts)
        # In order, contents are found faster: neighbours are in the same places.
        before = np.zeros_like(counts)
        for counted in self._counts:
            before += counted.of(new.contents)
        numbers = np.empty(len(rows), dtype=np.int64)
        numbers[order] = np.arange(len(rows)) + np.repeat(before - first, counts)
        codes = further(codes_of(rows), numbers)
        self._remember(new)
        return rows.set_column(rows.schema.get_field_index(CODE), CODE, pa.array(codes))

    def _remember(self, new: ContentCounts) -> None:
        """Add counts. Counts that are not twice as long as the next become one with them. So there
        are few of them, and each content is merged a few times, however many batches come."""
        while self._counts and len(self._counts[-1]) < 2 * len(new):
            new = self._counts.pop().merged(new)
        self._counts.append(new)


@dataclass(frozen=True)
class ContentCounts:
    """How many rows of each content there are. The contents are in order."""

    contents: Ints
    counts: Ints

    def of(self, contents: Ints) -> Ints:
        """The counts of some contents."""
        places = np.searchsorted(self.contents, contents).clip(max=len(self) - 1)
        found: Ints = np.where(self.contents[places] == contents, self.counts[places], 0)
        return found

    def merged(self, other: ContentCounts) -> ContentCounts:
        """Both together."""
        together = np.concatenate([self.contents, other.contents])
        order = np.argsort(together, kind="stable")  # which merges what is in order
        ordered = together[order]
        first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        counts = np.concatenate([self.counts, other.counts])[order]
        return ContentCounts(ordered[first], np.add.reduceat(counts, first))

    def __len__(self) -> int:
        return len(self.contents)
