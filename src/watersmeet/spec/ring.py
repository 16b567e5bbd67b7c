"""The ring join: rows match if predicates of any kind hold; no key is needed."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.spec.join import JoinSpec
from watersmeet.spec.tuning import Tuning

#: No more streams than this are joined without a key: each is a hop of the query.
MOST_RING_STREAMS = 9
#: The join types of two streams without a key.
RING_JOIN_TYPES = ("inner", "left", "right", "semi", "anti")


@dataclass(frozen=True)
class RingSpec(JoinSpec):
    """A planned join without a key. ``conditions`` are its predicates, for people to read."""

    conditions: tuple[str, ...] = ()
    tuning: Tuning = Tuning()  # noqa: RUF009

    #: As a result is named: there is no key, and no punctuation is about one.
    key_types = ()
    emit_punctuations = False

    @property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        return ((),) * len(self.streams)

    @property
    def marked(self) -> int | None:
        """The stream of whose rows the join must know whether they have matched, if any."""
        if self.how == "inner":
            return None
        return 1 if self.how == "right" else 0
