"""What an equality join counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from watersmeet.joins.metrics import JoinMetrics
from watersmeet.joins.operator import Counters, JoinStreamCounters


@dataclass
class EquiStreamCounters(JoinStreamCounters):
    """What one step did with one stream's rows, and what is stored of it now.

    ``shed`` rows were dropped for a budget; ``violations`` are rows that the stream had promised
    not to bring; ``punctuations`` came in, ``propagated`` ones left; ``dropped`` new rows were
    not stored, because nothing can match them any more, and ``purged`` stored ones left for the
    same reason. ``indexed`` counts the segments with an index."""

    shed: int = 0
    violations: int = 0
    punctuations: int = 0
    propagated: int = 0
    dropped: int = 0
    purged: int = 0
    indexed: int = 0


@dataclass
class EquiCounters(Counters):
    """What one step did. ``full_results`` estimates how many results there would have been without
    shedding; ``deferred`` counts the probes of stored segments that were put off, ``owed`` those
    that are still to be done."""

    family: ClassVar[str] = "equality join"

    full_results: int = 0
    deferred: int = 0
    owed: int = 0

    @classmethod
    def zero(cls, streams: int) -> EquiCounters:
        return cls([EquiStreamCounters() for _ in range(streams)])


@dataclass(frozen=True)
class EquiMetrics(JoinMetrics):
    """One micro-batch of one equality join.

    ``streams`` also tell how many rows were ``shed`` (for a budget), and the other numbers of
    :class:`EquiStreamCounters`. ``full_results`` estimates what the results would have been
    without shedding. ``deferred`` counts the probes of stored segments that were put off,
    ``owed`` those that are still to be done.
    """

    full_results: int
    deferred: int
    owed: int
    streams: Mapping[str, EquiStreamCounters]

    @property
    def shed(self) -> int:
        """Rows dropped to stay within a budget."""
        return self._sum("shed")

    @property
    def expected_share(self) -> float:
        """About which part of the full result this is: 1 unless something was shed."""
        return self.results / self.full_results if self.full_results else 1.0
