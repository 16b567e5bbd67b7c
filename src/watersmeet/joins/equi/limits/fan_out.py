"""Fan-out: how many results one new row makes.

A key with thousands of rows in every stream makes their product. The largest fan-out is reported,
with its key. A budget can cap it, or make the query fail.
"""

from __future__ import annotations

import numpy as np

from watersmeet.errors import OverBudgetError
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.operator import Largest
from watersmeet.rows.columns import Bools, Ints, Positions
from watersmeet.rows.groups import equal_before
from watersmeet.rows.sides import Sides, where
from watersmeet.rows.stored_keys import key_at
from watersmeet.segments.segment import Segment


class FanOut:
    """Counts the results that each new row of one stream makes."""

    def __init__(self, context: StepContext, stream: int, fresh: Segment) -> None:
        budget = context.layout.policy.budget
        self._context = context
        self._stream = stream
        self._fresh = fresh
        self._limit = None if budget is None else budget.fanout
        self._fails = budget is not None and budget.overflow == "fail"
        self._results: Ints = np.zeros(len(fresh), dtype=np.int64)
        self._capped: Bools = np.zeros(len(fresh) if self._limit else 0, dtype=np.bool_)

    def below_cap(self, rows: Positions) -> Bools | slice:
        """Which new rows may make more results."""
        if self._limit is None or self._fails:
            return slice(None)
        below: Bools = self._results[rows] < self._limit
        self._capped[rows[~below]] = True
        return below

    def admit(self, sides: Sides) -> Sides:
        """The results that the budget allows, of those that new rows make; they are counted."""
        rows = sides[self._stream][1]
        if self._limit is not None and len(rows):
            allowed = self._results[rows] + equal_before(rows) < self._limit
            if not allowed.all():
                self._exceed(rows[~allowed])
                sides, rows = where(sides, allowed), rows[allowed]
        if len(rows):
            self._count(rows)
        return sides

    def finish(self) -> None:
        """Count the new rows whose results were capped."""
        self._context.counters.capped += int(self._capped.sum())

    def _count(self, rows: Positions) -> None:
        least, greatest = int(rows.min()), int(rows.max())
        results = self._results[least : greatest + 1]
        results += np.bincount(rows - least, minlength=len(results))
        most = int(results.argmax())
        counters = self._context.counters
        if results[most] > counters.largest.fanout:
            key = self._key(least + most)
            counters.largest = Largest(int(results[most]), self._name, str(key))

    def _exceed(self, rows: Positions) -> None:
        if not self._fails:
            self._capped[rows] = True
            return
        raise OverBudgetError(
            f"a row of {self._name} with the key {self._key(int(rows[0]))!r} makes more "
            f"than {self._limit:,} results, and the budget's fanout allows no more. Look into "
            "what that key is; give a larger fanout, or overflow='shed' to leave the rest out."
        )

    @property
    def _name(self) -> str:
        return self._context.layout.inputs[self._stream].name

    def _key(self, position: int) -> object:
        layout = self._context.layout
        return key_at(layout, layout.inputs[self._stream], self._fresh.rows, position)
