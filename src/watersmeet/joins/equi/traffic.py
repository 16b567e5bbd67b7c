"""What the streams bring to all shards together, and which part of that this one gets.

A shard sees only its own rows. But each task that packs rows tells all shards how many it has
packed, in the micro-batch itself (:class:`watersmeet.rows.inflow.Inflow`). So every shard knows
the same rates, and what it does follows from its state and its arguments alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.cost.averages import moving_average
from watersmeet.rows.inflow import Inflow

_WEIGHT = 0.1
_SECOND = 1e6
#: A stream that brings nothing counts in full for so many of its usual steps in time.
_PATIENCE = 2


@dataclass
class Traffic:
    """What one stream brings. All but ``own`` is the same in every shard.

    ``rate`` is in rows a second of event time, on average; ``newest`` is the greatest time; by
    ``gap`` microseconds it grows in a micro-batch with rows, on average: so far in so many
    ``steps``. ``seen`` is the greatest time of any stream when this one last brought rows. ``size``
    are the bytes that it has brought in about as long as its window is, and ``own`` the part of
    that for this shard.
    """

    rate: float | None = None
    newest: int | None = None
    gap: float | None = None
    steps: int = 0
    seen: int | None = None
    size: float = 0.0
    own: float = 0.0

    def learn(self, arrived: Inflow, kept: int | None) -> None:
        """Learn what a micro-batch brings of a stream whose rows are kept so long."""
        self.size += arrived.size
        if arrived.newest is None or arrived.oldest is None:
            return
        since = arrived.oldest if self.newest is None else self.newest
        moved = arrived.newest - since
        if moved > 0:
            # Of the first rows, one only marks where time begins.
            rows, weight = arrived.rows - (self.newest is None), max(_WEIGHT, 1 / (self.steps + 1))
            self.rate = moving_average(self.rate, rows * _SECOND / moved, weight=weight)
            self.gap = moving_average(self.gap, moved, weight=weight)
            self.steps += 1
            if kept is not None and self.newest is not None:
                left = math.exp(-moved / max(kept, 1))
                self.size = (self.size - arrived.size) * left + arrived.size
                self.own *= left
        self.newest = arrived.newest if self.newest is None else max(arrived.newest, self.newest)

    def rate_at(self, time: int | None) -> float:
        """Rows a second now. While the others go on without it, a stream soon counts as slower: its
        rate is halved for each of its usual steps in time. It counts in full when it is back."""
        if self.rate is None or self.gap is None:
            return 0.0
        idle = 0 if time is None or self.seen is None else time - self.seen
        return self.rate * math.pow(0.5, max(0.0, idle / self.gap - _PATIENCE))


def learn(
    traffic: Sequence[Traffic], inflows: Sequence[Inflow], kept: Sequence[int | None]
) -> None:
    """Learn what a micro-batch brings of all streams."""
    for stream, arrived, length in zip(traffic, inflows, kept, strict=True):
        stream.learn(arrived, length)
    for stream, arrived in zip(traffic, inflows, strict=True):
        if arrived.rows:
            stream.seen = newest(traffic)


def newest(traffic: Sequence[Traffic]) -> int | None:
    """The greatest time of any stream."""
    return max((each.newest for each in traffic if each.newest is not None), default=None)


def rates(traffic: Sequence[Traffic]) -> list[float]:
    """Rows a second of each stream, now."""
    return [each.rate_at(newest(traffic)) for each in traffic]


def own_share(traffic: Sequence[Traffic], shards: int) -> float:
    """Which part of all bytes this shard gets; as much as any, as long as nothing is known."""
    total = sum(each.size for each in traffic)
    return min(1.0, sum(each.own for each in traffic) / total) if total else 1 / shards
