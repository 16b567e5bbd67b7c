"""What joins of every family have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from watersmeet import durations
from watersmeet.spec.budget import Budget
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.stream import StreamSpec

#: The join types of two streams, in the order in which the documentation lists them.
JOIN_TYPES = ("inner", "left", "right", "full", "semi", "anti")
#: The join types, and Spark's other spellings of them.
How = Literal[
    "inner",
    "left",
    "right",
    "full",
    "semi",
    "anti",
    "leftouter",
    "left_outer",
    "rightouter",
    "right_outer",
    "outer",
    "fullouter",
    "full_outer",
    "leftsemi",
    "left_semi",
    "leftanti",
    "left_anti",
]
#: The join types of more than two streams.
MULTIWAY_JOIN_TYPES = ("inner", "left")
#: No more streams than this are joined at once.
MOST_STREAMS = 10
#: Said of a result's event time: it is the greatest of the times of its rows.
GREATEST = "greatest"
#: What a join may be optimised for.
Goal = Literal["throughput", "memory", "early"]
GOALS: tuple[str, ...] = get_args(Goal)


@dataclass(frozen=True)
class JoinSpec:
    """A planned join of any family: validated, complete, and immutable.

    ``name`` is how metrics and the Spark UI call it. ``windows[i]`` is how long a row of stream i
    waits for a later one (None: for ever). ``unbounded`` tells whether nothing bounds the state.
    ``event_time`` says whose time is the result's: a stream's, by name, or the greatest; None: an
    inner join's is the greatest, other joins have none. ``further`` is how much further than this
    join needs Spark's watermark is held back, for a join that follows, in microseconds.
    """

    name: str
    streams: tuple[StreamSpec, ...]
    windows: tuple[int | None, ...]
    how: str
    where: str | None
    unbounded: bool
    output: tuple[OutputColumn, ...]
    budget: Budget | None
    goal: str
    event_time: str | None = field(default=None, kw_only=True)
    further: int = field(default=0, kw_only=True)

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
        return preserved_by(self.how, len(self.streams))

    @property
    def carries_event_time(self) -> bool:
        """Can Spark go on with event time after this join? If nothing else is said, only an inner
        join's results are always newer than the watermark."""
        inner = self.how == "inner" and all(stream.time for stream in self.streams)
        return self.event_time is not None or inner

    @property
    def kept(self) -> tuple[int | None, ...]:
        """How long a row of each stream is stored: as long as it waits for a later one."""
        return self.windows

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
        """How far Spark's watermark is held back behind the join's own, in microseconds: as far
        as results may be behind that, and ``further``. It is in whole milliseconds, as watermarks
        are, so that what is added to a stream's delay is what the join takes off again."""
        longest = max((window or 0 for window in self.held_windows), default=0)
        return (durations.milliseconds(longest) + durations.milliseconds(self.further)) * 1000


def preserved_by(how: str, streams: int) -> tuple[bool, ...]:
    """For each stream: does a row that matches nothing appear in the result?"""
    return how in ("left", "full", "anti"), *(how in ("right", "full"),) * (streams - 1)
