"""What joins of streams have in common: rows wait for later rows, for as long as a window says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from watersmeet import durations
from watersmeet.spec.budget import Budget
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.join_type import INNER
from watersmeet.spec.tuning import Tuning

#: No more streams than this are joined at once.
MOST_STREAMS = 10
#: The value of ``event_time`` that means the greatest of the times of a result's rows.
GREATEST = "greatest"
#: What a join may be optimised for.
Goal = Literal["throughput", "memory", "early"]
GOALS: tuple[str, ...] = get_args(Goal)


@dataclass(frozen=True, kw_only=True)
class WindowedSpec(JoinSpec):
    """A planned join of streams.

    ``windows[i]`` is how long a row of stream i waits for a later one (None: for ever).
    ``unbounded``: does nothing bound the state? ``event_time`` says whose time is the result's: a
    stream's, by name, or the greatest. If it is None, an inner join has the greatest, and other
    joins have no event time. Spark's watermark is held back ``further`` than this join needs, for
    a join that follows, by so many microseconds.
    """

    windows: tuple[int | None, ...]
    unbounded: bool
    budget: Budget | None
    goal: str
    tuning: Tuning = field(default_factory=Tuning)
    event_time: str | None = None
    further: int = 0

    @property
    def time_of_result(self) -> str | None:
        return None if self.event_time == GREATEST else self.event_time

    @property
    def ahead(self) -> int:
        return self.further

    @property
    def carries_event_time(self) -> bool:
        """Can Spark use event time after this join? Without ``event_time``, only results of inner
        joins are always newer than the watermark."""
        inner = self.how == INNER and all(stream.time for stream in self.streams)
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
        as results may be behind the join's watermark, and ``further``. Watermarks are in whole
        milliseconds, and so is this: the join takes off exactly what is added to a delay."""
        longest = max((window or 0 for window in self.held_windows), default=0)
        return (durations.milliseconds(longest) + durations.milliseconds(self.further)) * 1000
