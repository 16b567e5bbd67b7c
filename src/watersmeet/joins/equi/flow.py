"""The measurements of a stream in one shard: rows and keys; and the choices that follow from them.

Averages are exponential: the newest micro-batch weighs a tenth. They are kept with the state, so
a micro-batch that is run again makes the same choices.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from watersmeet.cost.averages import moving_average
from watersmeet.rows.columns import Ints

_WEIGHT = 0.1
#: Match rates are sampled only now and then, so a sample weighs more.
_SAMPLE_WEIGHT = 0.5
#: The number of keys is estimated from at most this many rows of a batch.
_SAMPLE = 2048


@dataclass
class Flow:
    """``rows`` are the new rows a micro-batch that are joined, neither late nor shed, and
    ``present`` is the share of micro-batches that brought any; ``keys`` is an estimate of the
    number of distinct keys.

    ``indexed``: do new segments get an index? ``switch_votes``: for how many micro-batches in a row
    has the other choice been clearly cheaper? ``shed_until``: rows up to that time were discarded
    for lack of memory.

    ``match_rates[i]`` is the share of new rows that match a row of stream i, and
    ``probe_order`` the order in which they probe the other streams' windows; ``sampled`` is the
    step in which the rates were last measured.
    """

    rows: float = 0.0
    present: float = 0.0
    keys: float | None = None
    steps: int = 0
    indexed: bool = True
    switch_votes: int = 0
    shed_until: int | None = None
    match_rates: list[float] = field(default_factory=list)
    probe_order: list[int] = field(default_factory=list)
    sampled: int | None = None

    def arrive(self, rows: int) -> None:
        """Learn from a micro-batch with data: how many rows of this stream were joined. (By what
        is left after shedding the algorithm is chosen: window paper, section 4.2.)"""
        weight = max(_WEIGHT, 1 / (self.steps + 1))
        self.steps += 1
        self.rows = moving_average(self.rows, rows, weight=weight)
        self.present = moving_average(self.present, rows > 0, weight=weight)

    def sample_match_rates(self, shares: list[float]) -> None:
        """Learn which share of new rows matches a row of each stream."""
        self.sampled = self.steps
        before = self.match_rates or shares
        self.match_rates = [
            moving_average(old, new, weight=_SAMPLE_WEIGHT)
            for old, new in zip(before, shares, strict=True)
        ]

    def sample_keys(self, codes: Ints) -> None:
        """Learn from the codes of new rows how many keys there are."""
        self.keys = moving_average(self.keys, distinct(codes), weight=_WEIGHT)


def distinct(codes: Ints) -> float:
    """An estimate of the number of distinct values, from how often a sample repeats one.

    >>> distinct(np.arange(1000) % 10)
    10.0
    >>> distinct(np.random.default_rng(0).integers(0, 100_000, 5000)) > 50_000
    True
    >>> distinct(np.array([0, 1, 2, 3, 3])), distinct(np.arange(10))
    (10.0, 100.0)
    """
    codes = codes[:: max(1, len(codes) // _SAMPLE)][:_SAMPLE]
    seen, count = len(np.unique(codes)), len(codes)
    if seen < count / 2:
        return float(seen)
    return count * (count - 1) / (2 * (count - seen)) if seen < count else float(count**2)
