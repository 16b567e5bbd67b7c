"""Punctuations that wait to be handed on.

Invariant: each waits in one place: among the new ones of this step, in the window of punctuations
of one key, which has an index, or in the window of all others.

**Which are looked at.** A step looks at its new punctuations, and at those older ones whose keys
were closed, or have come, in this step. Punctuations of one key are found by the index. The others
are few, and all of them are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.promises.coverage import About, CoveredKeys
from watersmeet.rows.columns import Bools, Positions, codes_or_zero, concat, has_code
from watersmeet.segments.segment import Segment
from watersmeet.state.window import Window


class PendingPunctuations:
    """The waiting punctuations of one stream, in one shard."""

    def __init__(self, of_one_key: Window, of_many: Window) -> None:
        self._of_one_key = of_one_key
        self._of_many = of_many
        self._new: pa.RecordBatch | None = None

    def add(self, punctuations: pa.RecordBatch) -> None:
        """New punctuations have come."""
        self._new = punctuations if self._new is None else concat([self._new, punctuations])

    def keep(self, hopeful: Callable[[pa.RecordBatch], Bools]) -> None:
        """Keep those new punctuations that may be handed on at some time."""
        if self._new is not None:
            self._new = _some(self._new, hopeful(self._new))

    def take(
        self, complete: Callable[[pa.RecordBatch], Bools], news: CoveredKeys
    ) -> pa.RecordBatch | None:
        """Remove the punctuations that are complete, and return them. Older ones can only have
        become complete by ``news``: the keys that were closed, or have come, in this step."""
        taken = []
        if self._new is not None:
            done = complete(self._new)
            taken.append(self._new.filter(pa.array(done)))
            self._new = _some(self._new, ~done)
        if news:
            taken += self._taken(self._of_one_key, news.rows_in, complete)
            taken += self._taken(self._of_many, _everywhere, complete)
        taken = [rows for rows in taken if len(rows)]
        return concat(taken) if taken else None

    def are_about(self, rows: pa.RecordBatch, key_columns: Sequence[str]) -> Bools:
        """Which rows have a key that a waiting punctuation of an earlier step is about."""
        covered = CoveredKeys(key_columns)
        for punctuations in self._present_of_many():
            covered.add(About.of(punctuations, key_columns))
        found, codes = covered.covers(rows), codes_or_zero(rows)
        for entry in self._of_one_key.entries:
            index = self._of_one_key.open(entry).index
            at = np.minimum(np.searchsorted(index.codes, codes), len(index.codes) - 1)
            found |= index.codes[at] == codes
        return found & has_code(rows)

    def save(self) -> None:
        """Keep what waits with the state."""
        if self._new is not None:
            one = has_code(self._new)
            for window, chosen in ((self._of_one_key, one), (self._of_many, ~one)):
                window.add(Segment.of(self._new.filter(pa.array(chosen))))
            self._new = None
        for window in (self._of_one_key, self._of_many):
            window.compact()

    def _present_of_many(self) -> Iterator[pa.RecordBatch]:
        for entry in self._of_many.entries:
            present = pa.array(~self._of_many.gone(entry))
            yield self._of_many.open(entry).rows.filter(present)

    def _taken(
        self,
        window: Window,
        search: Callable[[Segment], Positions],
        complete: Callable[[pa.RecordBatch], Bools],
    ) -> Iterator[pa.RecordBatch]:
        """Of the punctuations that the search finds in a window, remove the complete ones."""
        for entry in list(window.entries):
            segment = window.open(entry)
            at = search(segment)
            at = at[~window.gone(entry)[at]]
            rows = segment.rows.take(pa.array(at))
            done = complete(rows)
            window.discard(entry, at[done])
            yield rows.filter(pa.array(done))


def _everywhere(segment: Segment) -> Positions:
    return np.arange(len(segment))


def _some(rows: pa.RecordBatch, chosen: Bools) -> pa.RecordBatch | None:
    return rows.filter(pa.array(chosen)) if chosen.any() else None
