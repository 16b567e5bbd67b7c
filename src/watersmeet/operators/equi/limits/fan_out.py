"""How many results one new row makes: a key with thousands of rows in every stream makes
their product. The largest is reported, with its key; a budget can cap it, or fail."""

from __future__ import annotations

import numpy as np

from watersmeet.errors import OverBudgetError
from watersmeet.operators.base import Largest
from watersmeet.operators.equi.counters import EquiCounters
from watersmeet.operators.equi.keys import key_at
from watersmeet.operators.equi.layout import EquiLayout
from watersmeet.rows.columns import Bools, Ints
from watersmeet.rows.output import Positions, Side
from watersmeet.state.segment import Segment


class FanOut:
    """The results that new rows of one stream have made so far."""

    def __init__(
        self, layout: EquiLayout, stream: int, fresh: Segment, counters: EquiCounters
    ) -> None:
        self._layout = layout
        self._stream = stream
        self._fresh = fresh
        self._counters = counters
        self._limit = None if layout.policy.budget is None else layout.policy.budget.fanout
        self._fails = layout.policy.budget is not None and layout.policy.budget.overflow == "fail"
        self._made: Ints = np.zeros(len(fresh), dtype=np.int64)
        self._cut: Bools = np.zeros(len(fresh) if self._limit else 0, dtype=np.bool_)

    def wants(self, rows: Positions) -> Bools | slice:
        """Which new rows may make more results."""
        if self._limit is None or self._fails:
            return slice(None)
        wanted: Bools = self._made[rows] < self._limit
        self._cut[rows[~wanted]] = True
        return wanted

    def admitted(self, sides: dict[int, Side], driver: int) -> dict[int, Side]:
        """Results that were made of new rows, as far as the budget lets them through."""
        admitted = self.admit(sides[driver][1])
        if admitted is None:
            return sides
        return {stream: (rows, at[admitted]) for stream, (rows, at) in sides.items()}

    def admit(self, rows: Positions) -> Bools | None:
        """Which results, each of a new row, the budget lets through; None: all."""
        if not len(rows):
            return None
        admitted = None
        if self._limit is not None:
            admitted = self._made[rows] + _rank(rows) < self._limit
            if admitted.all():
                admitted = None
        kept = rows if admitted is None else rows[admitted]
        if admitted is not None:
            self._over(rows[~admitted])
        if len(kept):
            self._count(kept)
        return admitted

    def finish(self) -> None:
        """Count the new rows whose results were cut short."""
        self._counters.capped += int(self._cut.sum())

    def _count(self, rows: Positions) -> None:
        least, greatest = int(rows.min()), int(rows.max())
        made = self._made[least : greatest + 1]
        made += np.bincount(rows - least, minlength=len(made))
        most = int(made.argmax())
        if made[most] > self._counters.largest.fanout:
            key = key_at(self._layout, self._stream, self._fresh.rows, least + most)
            name = self._layout.inputs[self._stream].name
            self._counters.largest = Largest(int(made[most]), name, str(key))

    def _over(self, rows: Positions) -> None:
        if not self._fails:
            self._cut[rows] = True
            return
        key = key_at(self._layout, self._stream, self._fresh.rows, int(rows[0]))
        raise OverBudgetError(
            f"a row of {self._layout.inputs[self._stream].name} with the key {key!r} makes more "
            f"than {self._limit:,} results, and the budget's fanout allows no more. Look into "
            "what that key is; give a larger fanout, or overflow='shed' to leave the rest out."
        )


def _rank(rows: Positions) -> Ints:
    """How many equal ones come before each.

    >>> _rank(np.array([7, 5, 7, 7])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    starts = np.repeat(first, np.diff(np.append(first, len(rows))))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows)) - starts
    return rank
