"""What a ring join counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from watersmeet.joins.metrics import JoinMetrics
from watersmeet.joins.operator import Counters, JoinStreamCounters


@dataclass
class RingCounters(Counters):
    """What one step of a hop did. ``pairs`` were compared by a predicate, in so many ``blocks``,
    which took ``predicate_ms``; ``partial`` results were handed on to the next hop. Of the streams,
    the first hop counts the new rows of all, and each hop what it stores."""

    family: ClassVar[str] = "ring join"

    pairs: int = 0
    blocks: int = 0
    partial: int = 0
    predicate_ms: int = 0

    @classmethod
    def zero(cls, streams: int) -> RingCounters:
        return cls([JoinStreamCounters() for _ in range(streams)])


@dataclass(frozen=True)
class RingMetrics(JoinMetrics):
    """One micro-batch of one hop of a ring join: a join without a key.

    ``pairs`` were compared by a predicate, in so many ``blocks``, which took ``predicate_ms``, over
    all shards; ``partial`` results went on to the next hop. The first hop counts the new rows of
    all streams, each hop what it stores. ``largest`` and ``capped`` are about matches in one slice;
    what stands for the key is the time of the row.
    """

    pairs: int
    blocks: int
    partial: int
    predicate_ms: int
