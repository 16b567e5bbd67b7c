"""Fan-out: how many results one new row makes.

A key with thousands of rows in every stream makes their product; so does a predicate that holds
for nearly all pairs. The largest fan-out is reported, with the row's key or time. A budget can cap
it, or make the query fail.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from watersmeet.errors import OverBudgetError
from watersmeet.joins.operator import Counters, Largest
from watersmeet.rows.columns import Bools, Ints, Positions
from watersmeet.rows.groups import equal_before
from watersmeet.spec.budget import ShardBudget


class FanOut(ABC):
    """Counts the results of each of some new rows; lives as long as these rows probe.

    With a cap of 3, if row 7 has made two results before::

        admit([7, 5, 7, 7])  ->  [True, True, False, False]
    """

    def __init__(self, budget: ShardBudget | None, rows: int, counters: Counters) -> None:
        self._limit = None if budget is None else budget.fanout
        self._fails = budget is not None and budget.overflow == "fail"
        self._counters = counters
        self._made: Ints = np.zeros(rows, dtype=np.int64)
        self._capped: Bools = np.zeros(rows if self._limit else 0, dtype=np.bool_)

    @property
    def cap(self) -> int | None:
        """No row makes more than that: the rest is left out."""
        return None if self._fails else self._limit

    def below_cap(self, rows: Positions) -> Bools | slice:
        """Which new rows may make more."""
        if self.cap is None:
            return slice(None)
        below: Bools = self._made[rows] < self.cap
        self._capped[rows[~below]] = True
        return below

    def admit(self, rows: Positions) -> Bools | slice:
        """Which of some results the budget allows; each is given by the new row that makes it. The
        allowed ones are counted."""
        allowed: Bools | slice = slice(None)
        if not len(rows):
            return allowed
        if self._limit is not None:
            allowed = self._made[rows] + equal_before(rows) < self._limit
            if not allowed.all():
                self._exceed(rows[~allowed])
                rows = rows[allowed]
        if len(rows):
            self._count(rows)
        return allowed

    def finish(self) -> None:
        """Count the new rows whose results were capped."""
        self._counters.capped += int(self._capped.sum())

    @property
    @abstractmethod
    def of(self) -> str:
        """Whose rows these are, by name."""

    @abstractmethod
    def known_by(self, position: int) -> str:
        """How to name a new row for a person: by its key, or by its time."""

    @abstractmethod
    def excess(self, position: int, limit: int) -> str:
        """The message about a new row that makes more than the limit."""

    def _count(self, rows: Positions) -> None:
        least, greatest = int(rows.min()), int(rows.max())
        made = self._made[least : greatest + 1]
        made += np.bincount(rows - least, minlength=len(made))
        most = int(made.argmax())
        if made[most] > self._counters.largest.fanout:
            self._counters.largest = Largest(int(made[most]), self.of, self.known_by(least + most))

    def _exceed(self, rows: Positions) -> None:
        if not self._fails:
            self._capped[rows] = True
            return
        assert self._limit is not None, "only a limit can be exceeded"
        raise OverBudgetError(self.excess(int(rows[0]), self._limit))
