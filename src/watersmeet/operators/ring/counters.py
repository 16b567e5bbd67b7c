"""What a ring join counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from watersmeet.operators.base import Counters, JoinStreamCounters


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
