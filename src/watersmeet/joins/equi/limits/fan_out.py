"""The fan-out of an equality join: a new row is known by its key."""

from __future__ import annotations

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.fan_out import FanOut
from watersmeet.rows.stored_keys import key_at
from watersmeet.segments.segment import Segment


class EquiFanOut(FanOut):
    """Counts the results that each new row of one stream makes."""

    def __init__(self, context: StepContext, stream: int, fresh: Segment) -> None:
        super().__init__(context.layout.policy.budget, len(fresh), context.counters)
        self._layout = context.layout
        self._stream = stream
        self._fresh = fresh

    @property
    def of(self) -> str:
        return self._layout.inputs[self._stream].name

    def known_by(self, position: int) -> str:
        return str(self._key(position))

    def excess(self, position: int, limit: int) -> str:
        return (
            f"a row of {self.of} with the key {self._key(position)!r} makes more than {limit:,} "
            "results, and the budget's fanout allows no more. Look into what that key is; give a "
            "larger fanout, or overflow='shed' to leave the rest out."
        )

    def _key(self, position: int) -> object:
        given = self._layout.inputs[self._stream]
        return key_at(self._layout, given, self._fresh.rows, position)
