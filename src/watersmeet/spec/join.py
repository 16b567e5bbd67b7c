"""What joins of every family have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from watersmeet.spec.join_type import JoinType
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.stream import StreamSpec

#: Spark types of a single key whose value serves as its code.
_EXACT_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "date", "timestamp"})


@dataclass(frozen=True)
class JoinSpec:
    """A planned join of any family: validated, complete, and immutable.

    Metrics and the Spark UI call it by its ``name``. ``keys[i]`` are input i's key columns, in the
    same order for all inputs, and ``key_types`` the types in which they are compared; both are
    empty in a join without a key. ``where`` is the further condition, for people to read.
    """

    name: str
    streams: tuple[StreamSpec, ...]
    how: JoinType
    where: str | None
    output: tuple[OutputColumn, ...]
    keys: tuple[tuple[str, ...], ...] = field(default=(), kw_only=True)
    key_types: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def streaming(self) -> bool:
        return self.streams[0].streaming

    @property
    def delay(self) -> int:
        """How far the watermark stays behind the fastest stream, at most."""
        return max(stream.delay or 0 for stream in self.streams)

    @property
    def timers(self) -> bool:
        """Is there a watermark to wait for?"""
        return self.streaming and any(stream.time for stream in self.streams)

    @property
    def preserved(self) -> tuple[bool, ...]:
        """For each stream: does a row that matches nothing appear in the result?"""
        return self.how.preserved(len(self.streams))

    @property
    def exact(self) -> bool:
        """Is the key its own code?"""
        return exact_key(self.key_types)

    @property
    def leaves_keys(self) -> bool:
        """Are the keys of a result columns of the first stream, as they came? Otherwise they are of
        whichever stream has the row, in the type in which they are compared."""
        return False

    @property
    def emits_punctuations(self) -> bool:
        """Does the result have punctuations among its rows?"""
        return False

    @property
    def time_of_result(self) -> str | None:
        """The stream whose time is the result's event time, by name; None: no single one."""
        return None

    @property
    def carries_event_time(self) -> bool:
        """Does the result have a column with an event time that Spark can use?"""
        return False

    @property
    def ahead(self) -> int:
        """How far results are ahead of late rows, in microseconds: their times are above Spark's
        watermark of the micro-batch before by more than this."""
        return 0

    @property
    def hold(self) -> int:
        """How far Spark's watermark is held back behind the join's own, in microseconds."""
        return 0


def exact_key(types: Sequence[str]) -> bool:
    """Is a key of such types its own code, and so in the order of its codes?"""
    return len(types) == 1 and types[0] in _EXACT_TYPES
