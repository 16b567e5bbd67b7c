"""The ring join: rows match if predicates of any kind hold; no key is needed."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.spec.join_type import ANTI, INNER, LEFT, RIGHT, SEMI
from watersmeet.spec.windowed import WindowedSpec

#: No more streams than this are joined without a key: each is a hop of the query.
MOST_RING_STREAMS = 9
#: The join types of two streams without a key.
RING_JOIN_TYPES = (INNER, LEFT, RIGHT, SEMI, ANTI)
RING_NAMES = tuple(each.name for each in RING_JOIN_TYPES)


@dataclass(frozen=True, kw_only=True)
class RingSpec(WindowedSpec):
    """A planned join without a key. ``conditions`` are its predicates, for people to read."""

    conditions: tuple[str, ...] = ()

    @property
    def marked(self) -> int | None:
        """The stream whose matched rows the join must know, if any."""
        return next((i for i in range(len(self.streams)) if self.how.marks(i)), None)
