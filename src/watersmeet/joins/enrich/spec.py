"""The semi-stream join: each row of a stream is joined with the rows of a table of its key.

Streams and tables are both described by a :class:`~watersmeet.spec.stream.StreamSpec`: the stream
comes first, the table second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from watersmeet.spec.join import JoinSpec
from watersmeet.spec.join_type import ANTI, INNER, LEFT, SEMI

#: The join types of a stream with a table, and Spark's other spellings of them.
EnrichHow = Literal[
    "inner",
    "left",
    "semi",
    "anti",
    "leftouter",
    "left_outer",
    "leftsemi",
    "left_semi",
    "leftanti",
    "left_anti",
]
ENRICH_TYPES = (INNER, LEFT, SEMI, ANTI)
ENRICH_NAMES = tuple(each.name for each in ENRICH_TYPES)
#: How a partition of the table is read: as the cost model says, or always one way.
Access = Literal["auto", "scan", "seek"]
ACCESSES: tuple[Access, ...] = get_args(Access)


@dataclass(frozen=True)
class EnrichTuning:
    """How ``wm.enrich`` works. Nothing here changes a result: only time and memory.

    Parameters
    ----------
    cache
        Keep the rows of frequent keys in a cache (the paper's SSBJ). Without it, it is
        MESHJOIN.
    access
        How partitions are read: ``"auto"`` (as measured costs say), ``"scan"`` (as a whole) or
        ``"seek"`` (only where the wanted keys are).
    """

    cache: bool = True
    access: Access = "auto"


@dataclass(frozen=True, kw_only=True)
class EnrichCall:
    """The arguments of a call, as they were given: nothing has been checked yet. What each of them
    means is said by ``wm.enrich``."""

    on: object = None
    how: object = "inner"
    where: object = None
    memory: object = None
    max_wait: object = None
    refresh: object = None
    retry: object = None
    as_of: object = None
    version: object = None
    name: object = None
    tuning: object = None


@dataclass(frozen=True)
class Wait:
    """How long a row may wait for its answer: a number of micro-batches, or microseconds."""

    batches: int | None = None
    microseconds: int | None = None


@dataclass(frozen=True, kw_only=True)
class EnrichSpec(JoinSpec):
    """A planned semi-stream join: ``streams`` are the stream and the table.

    ``memory`` is for the whole query, in bytes. ``max_wait`` is how long a row may wait; None: it
    is answered in its micro-batch. ``refresh`` is how often the table is staged anew, and
    ``retry`` for how long a row without a match waits for a newer version, both in
    microseconds. ``version`` is the column of the result that says from which version of the
    table a row was answered, if there is one."""

    memory: int
    max_wait: Wait | None = None
    refresh: int | None = None
    retry: int | None = None
    version: str | None = None
    tuning: EnrichTuning = EnrichTuning()

    @property
    def as_of(self) -> str | None:
        """The column of the table with the time from which on a version of a key is valid."""
        return self.streams[1].time

    @property
    def leaves_keys(self) -> bool:
        """An enrichment alters no column of its stream."""
        return True

    @property
    def needs_state(self) -> bool:
        """Is there anything to remember from one micro-batch to the next: rows that wait, or
        which version of the table was used?"""
        return not (self.max_wait is None and self.refresh is None and self.retry is None)

    @property
    def delay(self) -> int:
        """How far the watermark stays behind the stream. Rows that are retried must not be late
        when they leave, so it stays behind for as long as they are."""
        stream = self.streams[0]
        held_back = 0 if stream.watermarked else self.retry or 0
        return (stream.delay or 0) + held_back

    @property
    def time_goes_on(self) -> bool:
        """Does the stream's time column stay the event time, for Spark?"""
        return self.timers and not (self.retry is not None and self.streams[0].watermarked)
