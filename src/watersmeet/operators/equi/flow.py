"""What has been measured of a stream, in one shard: how much comes, how fast, of how
many keys; and what was decided because of it.

Averages forget: a micro-batch weighs a tenth, those before it the rest. They are
kept with the state, so a micro-batch that is run again decides as it did before.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from watersmeet.rows.columns import Ints

_WEIGHT = 0.1
#: What is measured now and then weighs more.
_SAMPLE_WEIGHT = 0.5
#: The number of keys is estimated from so many rows of a batch.
_SAMPLE = 2048


@dataclass
class Flow:
    """``rows`` new rows a micro-batch and ``present``, the share of micro-batches that
    brought any; ``rate``, rows a second of event time; ``newest``, the greatest time
    seen; ``keys``, about how many distinct ones.

    ``indexed``: is the window held with an index? ``leaning`` counts the micro-batches in
    a row that spoke for the other way. ``shed_until``: rows up to that time were let go
    for want of memory.

    ``meeting[i]`` is the share of new rows that meet something of stream i, and
    ``sequence`` the order in which they look into the other streams' windows; ``sampled``
    is the step in which that was measured last.
    """

    rows: float = 0.0
    present: float = 0.0
    rate: float | None = None
    newest: int | None = None
    keys: float | None = None
    steps: int = 0
    indexed: bool = True
    leaning: int = 0
    shed_until: int | None = None
    meeting: list[float] = field(default_factory=list)
    sequence: list[int] = field(default_factory=list)
    sampled: int | None = None

    def arrive(self, rows: int, oldest: int | None, newest: int | None) -> None:
        """Learn from a micro-batch with data: how many rows of this stream it brought,
        with times from ``oldest`` to ``newest`` (None: without times)."""
        weight = max(_WEIGHT, 1 / (self.steps + 1))
        self.steps += 1
        self.rows += weight * (rows - self.rows)
        self.present += weight * ((rows > 0) - self.present)
        if newest is None or oldest is None:
            return
        since = oldest if self.newest is None else self.newest
        if newest > since:
            rate = rows * 1e6 / (newest - since)
            self.rate = rate if self.rate is None else self.rate + _WEIGHT * (rate - self.rate)
        self.newest = newest if self.newest is None else max(newest, self.newest)

    def sample_meeting(self, shares: list[float]) -> None:
        """Learn which share of new rows meets something of each stream."""
        self.sampled = self.steps
        before = self.meeting or shares
        self.meeting = [
            old + _SAMPLE_WEIGHT * (new - old) for old, new in zip(before, shares, strict=True)
        ]

    def sample_keys(self, codes: Ints) -> None:
        """Learn from the codes of new rows how many keys there are."""
        estimate = distinct(codes)
        self.keys = estimate if self.keys is None else self.keys + _WEIGHT * (estimate - self.keys)


def distinct(codes: Ints) -> float:
    """About how many values such codes have, from how often a few of them meet.

    >>> distinct(np.arange(1000) % 10)
    10.0
    >>> distinct(np.random.default_rng(0).integers(0, 100_000, 5000)) > 50_000
    True
    """
    codes = codes[:: max(1, len(codes) // _SAMPLE)][:_SAMPLE]
    seen, count = len(np.unique(codes)), len(codes)
    if seen < count / 2:
        return float(seen)
    return count * (count - 1) / (2 * (count - seen)) if seen < count else float(count**2)
