"""What an equality join counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from watersmeet.operators.base import Counters, JoinStreamCounters


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
    """What one step did. ``full_results`` is an estimate of what the results would have been had
    nothing been shed; ``deferred`` counts the probes of stored segments that were put off,
    ``owed`` those that are still to be done."""

    family: ClassVar[str] = "equality join"

    full_results: int = 0
    deferred: int = 0
    owed: int = 0

    @classmethod
    def zero(cls, streams: int) -> EquiCounters:
        return cls([EquiStreamCounters() for _ in range(streams)])
