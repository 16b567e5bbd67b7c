"""The fan-out of a ring join: how many rows one probing row matches in a slice.

A row without a key is known by its time. It probes all slices, and none knows what the others have
found: so the cap is that of one slice. Pairs are counted that make results: a semi or anti join
makes none of them, so there nothing is counted, and nothing capped.
"""

from __future__ import annotations

import datetime as dt

from watersmeet.joins.fan_out import FanOut
from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.probing import Probing
from watersmeet.rows.columns import Bools, Positions

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class RingFanOut(FanOut):
    """Counts what each of some probing rows matches."""

    def __init__(self, layout: RingLayout, probing: Probing, counters: RingCounters) -> None:
        self._counts = layout.how.combines
        budget = layout.policy.budget if self._counts else None
        super().__init__(budget, len(probing), counters)
        self._probing = probing
        self._names = [layout.streams[stream].name for stream in probing.sides]

    @property
    def of(self) -> str:
        return " and ".join(self._names)

    def admit(self, rows: Positions) -> Bools | slice:
        return super().admit(rows) if self._counts else slice(None)

    def known_by(self, position: int) -> str:
        micros = int(self._probing.newest[position])
        try:
            return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat()
        except OverflowError:
            return f"{micros} us"

    def excess(self, position: int, limit: int) -> str:
        return (
            f"a row of {self.of}, at {self.known_by(position)}, matches more than {limit:,} rows "
            "in one slice, and the budget's fanout allows no more. Look into what it matches; give "
            "a larger fanout, or overflow='shed' to leave the rest out."
        )
