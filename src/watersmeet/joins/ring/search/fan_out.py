"""Fan-out: how many rows one probing row matches in a slice.

The largest is reported. A budget can cap it, or make the query fail. A row probes all slices, and
none knows what the others have found: so the cap is that of one slice. Pairs are counted that make
results: a semi or anti join makes none of them, so there nothing is counted, and nothing capped.
"""

from __future__ import annotations

import datetime as dt

import numpy as np

from watersmeet.errors import OverBudgetError
from watersmeet.joins.operator import Largest
from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.probing import Probing
from watersmeet.rows.columns import Bools, Ints, Positions
from watersmeet.rows.groups import equal_before

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class FanOut:
    """Counts what each of some probing rows matches."""

    def __init__(self, layout: RingLayout, probing: Probing, counters: RingCounters) -> None:
        budget = layout.policy.budget
        self._counts = layout.how.combines
        self._limit = budget.fanout if budget is not None and self._counts else None
        self._fails = budget is not None and budget.overflow == "fail"
        self._probing = probing
        self._names = " and ".join(layout.streams[stream].name for stream in probing.sides)
        self._counters = counters
        self._matches: Ints = np.zeros(len(probing), dtype=np.int64)
        self._capped: Bools = np.zeros(len(probing), dtype=np.bool_)

    @property
    def cap(self) -> int | None:
        """No row matches more than that: the rest is left out."""
        return None if self._fails else self._limit

    def below_cap(self, rows: Positions) -> Bools | slice:
        """Which probing rows may match more."""
        if self.cap is None:
            return slice(None)
        below: Bools = self._matches[rows] < self.cap
        self._capped[rows[~below]] = True
        return below

    def admit(self, rows: Positions) -> Bools | slice:
        """Which of these matches the budget allows; they are counted."""
        if not len(rows) or not self._counts:
            return slice(None)
        allowed: Bools | slice = slice(None)
        if self._limit is not None:
            allowed = self._matches[rows] + equal_before(rows) < self._limit
            if not allowed.all():
                self._exceed(rows[~allowed])
                rows = rows[allowed]
        self._count(rows)
        return allowed

    def finish(self) -> None:
        """Count the rows whose matches were capped."""
        self._counters.capped += int(self._capped.sum())

    def _count(self, rows: Positions) -> None:
        if not len(rows):
            return
        least, greatest = int(rows.min()), int(rows.max())
        matches = self._matches[least : greatest + 1]
        matches += np.bincount(rows - least, minlength=len(matches))
        most = int(matches.argmax())
        if matches[most] > self._counters.largest.fanout:
            time = self._time(least + most)
            self._counters.largest = Largest(int(matches[most]), self._names, time)

    def _exceed(self, rows: Positions) -> None:
        if not self._fails:
            self._capped[rows] = True
            return
        raise OverBudgetError(
            f"a row of {self._names}, at {self._time(int(rows[0]))}, matches more than "
            f"{self._limit:,} rows in one slice, and the budget's fanout allows no more. Look into "
            "what it matches; give a larger fanout, or overflow='shed' to leave the rest out."
        )

    def _time(self, position: int) -> str:
        """What a row without a key is known by."""
        try:
            micros = int(self._probing.newest[position])
            return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat()
        except OverflowError:
            return f"{self._probing.newest[position]} us"
