"""The equality join: rows match if their keys are equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from watersmeet.spec.join import JoinSpec
from watersmeet.spec.tuning import Tuning

#: What may happen to a row that the stream had promised not to bring.
Violations = Literal["fail", "drop", "keep"]
VIOLATIONS: tuple[str, ...] = get_args(Violations)

#: Said of a result's event time: it is the greatest of the times of its rows.
GREATEST = "greatest"

#: Spark types of a single key whose value serves as its code.
_EXACT_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "date", "timestamp"})


@dataclass(frozen=True)
class EquiSpec(JoinSpec):
    """A planned equality join.

    ``keys[i]`` are stream i's key columns, aligned over the streams; ``key_types`` are the
    types they are compared in. ``event_time`` says whose time is the result's: a stream's, by name,
    or the greatest; None: an inner join's is the greatest, other joins have none.
    """

    keys: tuple[tuple[str, ...], ...]
    key_types: tuple[str, ...]
    violations: str = "fail"
    emit_punctuations: bool = False
    tuning: Tuning = Tuning()  # noqa: RUF009
    event_time: str | None = None

    @property
    def carries_event_time(self) -> bool:
        return self.event_time is not None or super().carries_event_time

    @property
    def held_windows(self) -> tuple[int | None, ...]:
        """The windows by which results may be behind the watermark: see
        :mod:`watersmeet.plan.event_time`."""
        return tuple(
            kept
            for stream, kept, preserved in zip(self.streams, self.kept, self.preserved, strict=True)
            if self.event_time == stream.name or (self.event_time == GREATEST and preserved)
        )

    @property
    def hold(self) -> int:
        """How far Spark's watermark is held back behind the join's own, in microseconds."""
        return max((window or 0 for window in self.held_windows), default=0)

    @property
    def exact(self) -> bool:
        """Is the key its own code?"""
        return exact_key(self.key_types)

    @property
    def kept(self) -> tuple[int | None, ...]:
        """How long a row of each stream is stored: as long as it waits for a later one. In a
        left join of many streams, a row that has matched one of the first is kept until that
        one expires, which may lack a match in a third."""
        first = self.windows[0]
        if self.how != "left" or len(self.streams) == 2 or first is None:
            return self.windows
        return first, *(None if window is None else window + first for window in self.windows[1:])

    @property
    def remembered(self) -> int | None:
        """How long a closed key is remembered: as long as rows are kept, by the windows and the
        delay of the watermark. None: for ever, without windows, and if punctuations are handed
        on. Then a punctuation of the other stream may ask for the key at any time."""
        if self.emit_punctuations or None in self.windows:
            return None
        return max(window for window in self.windows if window is not None) + self.delay


def exact_key(types: Sequence[str]) -> bool:
    """Is a key of such types its own code, and so in the order of its codes?"""
    return len(types) == 1 and types[0] in _EXACT_TYPES
