"""The equality join: rows match if their keys are equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from watersmeet.spec.join_type import INNER, LEFT
from watersmeet.spec.windowed import WindowedSpec

#: The join types of more than two streams.
MULTIWAY_JOIN_TYPES = (INNER, LEFT)
MULTIWAY_NAMES = tuple(each.name for each in MULTIWAY_JOIN_TYPES)
#: What may happen to a row that the stream had promised not to bring.
Violations = Literal["fail", "drop", "keep"]
VIOLATIONS: tuple[str, ...] = get_args(Violations)


@dataclass(frozen=True, kw_only=True)
class EquiSpec(WindowedSpec):
    """A planned equality join. ``violations`` says what becomes of rows that a stream had promised
    not to bring, ``emit_punctuations`` whether punctuations are handed on."""

    violations: str = "fail"
    emit_punctuations: bool = False

    @property
    def emits_punctuations(self) -> bool:
        return self.emit_punctuations

    @property
    def kept(self) -> tuple[int | None, ...]:
        """How long a row of each stream is stored: as long as it waits for a later one. In a left
        join of many streams, a row that matches a row of the first stream is kept until that one
        expires: it may lack a match in a third stream, and is then emitted with this one."""
        first = self.windows[0]
        if not self.how.star or len(self.streams) == 2 or first is None:
            return self.windows
        return first, *(None if window is None else window + first for window in self.windows[1:])

    @property
    def lasting(self) -> tuple[int, ...]:
        """The streams of which rows may stay for ever: there is no window, and another stream does
        not say of every key that it will not come."""
        return tuple(
            i
            for i, window in enumerate(self.windows)
            if window is None
            and not all(other.ends for j, other in enumerate(self.streams) if j != i)
        )

    @property
    def remembered(self) -> int | None:
        """How long a closed key is remembered: as long as rows are kept, by the windows and the
        delay of the watermark. None: for ever, without windows, and if punctuations are handed
        on. Then a punctuation of the other stream may ask for the key at any time."""
        if self.emit_punctuations or None in self.windows:
            return None
        return max(window for window in self.windows if window is not None) + self.delay
