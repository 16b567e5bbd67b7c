"""The paper's six datasets: three streams with one common key (section 4.1, tables 2 and 3).

The selectivities of table 2 follow from how often a key that all streams share comes in
each: 1, 5 and 1000 times in datasets I to IV, 1, 10 and 100 times in V and VI. Every other
row has a key of its own. (Table 3 has S2 of V and VI too large: by table 2 it makes ten
results a row, so it has 10^5 rows.) A smaller dataset has fewer rows and fewer shared keys,
each as often as before, in as many time units.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
#: When so many rows come, in order: parts of the run, from 0 to 1.
Arrivals = Callable[[int, np.random.Generator], Floats]

STREAMS = ("S1", "S2", "S3")
#: How long a run is, in time units.
UNITS = 10_000_000
#: A b-model divides the run into 2 to the power of so many intervals.
LEVELS = 10


def uniform(rows: int, random: np.random.Generator) -> Floats:
    """At the same rate all the time."""
    return np.sort(random.random(rows))


def alternating(*units: float) -> Arrivals:
    """Each part of the rows with so many time units from one row to the next."""

    def arrivals(rows: int, random: np.random.Generator) -> Floats:
        part = np.arange(rows) * len(units) // rows
        ends = np.cumsum(np.array(units)[part])
        return (ends - random.random(rows)) / ends[-1]

    return arrivals


def sinusoidal(rows: int, random: np.random.Generator) -> Floats:
    """At a rate that swings twice, between half and one and a half of its mean."""
    at = np.linspace(0, 1, 1001)
    so_far = at + (1 - np.cos(4 * np.pi * at)) / (8 * np.pi)
    return np.interp(np.sort(random.random(rows)), so_far, at)


def bursty(b: float) -> Arrivals:
    """By a b-model."""

    def arrivals(rows: int, random: np.random.Generator) -> Floats:
        volumes = b_model(rows, LEVELS, b, random)
        counts: np.ndarray = np.diff(np.round(np.cumsum(volumes)).astype(np.int64), prepend=0)
        start = np.repeat(np.arange(len(counts)), counts)
        return np.sort(start + random.random(len(start))) / len(counts)

    return arrivals


def b_model(volume: float, levels: int, b: float, random: np.random.Generator) -> Floats:
    """A volume over 2**levels intervals: share ``b`` goes to one half of the time, the rest to
    the other, and so on in each half. The first time ``b`` is the share of the earlier half,
    so that 20%-80% is sparse at first, and 80%-20% at last; then chance decides."""
    volumes = np.array([float(volume)])
    for level in range(levels):
        swapped = random.random(len(volumes)) < (0.5 if level else 0.0)
        earlier = volumes * np.where(swapped, 1 - b, b)
        volumes = np.stack([earlier, volumes - earlier], axis=1).ravel()
    return volumes


@dataclass(frozen=True)
class Dataset:
    """``rows`` of each stream, and when they come; ``shared`` keys, ``each`` so often in a
    stream."""

    name: str
    rows: tuple[int, ...]
    each: tuple[int, ...]
    arrivals: tuple[Arrivals, ...]
    shared: int = 1000

    @property
    def results(self) -> int:
        """The size of the whole join."""
        return self.joined(*range(len(self.rows)))

    def joined(self, *streams: int) -> int:
        """The size of a join of some of the streams."""
        return self.shared * math.prod(self.each[stream] for stream in streams)

    def divided(self, by: int) -> Dataset:
        """The same with so many times fewer rows."""
        rows = tuple(count // by for count in self.rows)
        return replace(self, rows=rows, shared=self.shared // by)

    def stream(self, position: int) -> tuple[Ints, Ints]:
        """The keys of a stream's rows, and the time unit in which each of them comes."""
        random = np.random.default_rng((17, position, *self.name.encode()))
        count, streams = self.rows[position], len(self.rows)
        common = np.repeat(np.arange(self.shared), self.each[position])
        own = self.shared + position + streams * np.arange(count - len(common))
        keys = random.permutation(np.concatenate([common, own]))
        times = self.arrivals[position](count, random) * UNITS
        return keys, times.astype(np.int64)


ALIKE: dict[str, Any] = {"rows": (10**6, 10**6, 10**6), "each": (1, 5, 1000)}
UNLIKE: dict[str, Any] = {"rows": (10**4, 10**5, 10**6), "each": (1, 10, 100)}
FASTER_FIRST, SLOWER_FIRST = alternating(5, 15, 5, 15), alternating(15, 5, 15, 5)
DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("I", **ALIKE, arrivals=(uniform, uniform, FASTER_FIRST)),
        Dataset("II", **ALIKE, arrivals=(uniform, SLOWER_FIRST, FASTER_FIRST)),
        Dataset("III", **ALIKE, arrivals=(uniform, SLOWER_FIRST, sinusoidal)),
        Dataset("IV", **ALIKE, arrivals=(uniform, uniform, bursty(0.2))),
        Dataset("V", **UNLIKE, arrivals=(uniform, uniform, bursty(0.8))),
        Dataset("VI", **UNLIKE, arrivals=(uniform, uniform, bursty(0.2))),
    )
}
