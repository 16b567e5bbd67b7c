"""The semi-stream join: each row of a stream is joined with the rows of a table of its key.

Streams and tables are both described by a :class:`~watersmeet.spec.stream.StreamSpec`: the stream
comes first, the table second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from watersmeet.spec.equi import EquiSpec

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
#: What ``on`` and ``where`` call a table that has no name of its own.
TABLE_NAME = "table"
ENRICH_TYPES = ("inner", "left", "semi", "anti")
#: How a partition of the table is read: as the cost model says, or always one way.
Access = Literal["auto", "scan", "seek"]
ACCESSES: tuple[str, ...] = get_args(Access)


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


@dataclass(frozen=True)
class Wait:
    """How long a row may wait for its answer: a number of micro-batches, or microseconds."""

    batches: int | None = None
    microseconds: int | None = None


@dataclass(frozen=True)
class EnrichSpec(EquiSpec):
    """A planned semi-stream join: ``streams`` are the stream and the table.

    ``memory`` is for the whole query, in bytes. ``max_wait`` is how long a row may wait; None: it
    is answered in its micro-batch. ``refresh`` is how often the table is staged anew, and
    ``retry`` for how long a row without a match waits for a newer version, both in
    microseconds. ``version`` is the column of the result that says from which version of the
    table a row was answered, if there is one."""

    memory: int = 0
    max_wait: Wait | None = None
    refresh: int | None = None
    retry: int | None = None
    version: str | None = None
    tuned: EnrichTuning = EnrichTuning()

    @property
    def as_of(self) -> str | None:
        """The column of the table with the time from which on a version of a key is valid."""
        return self.streams[1].time

    @property
    def needs_state(self) -> bool:
        """Is there anything to remember from one micro-batch to the next: rows that wait, or
        which version of the table was used?"""
        return not (self.max_wait is None and self.refresh is None and self.retry is None)

    @property
    def carries_event_time(self) -> bool:
        """No column is added for it: the stream's own time column carries it on."""
        return False

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


@dataclass(frozen=True)
class EnrichPolicy:
    """How a semi-stream join runs: on so many ``shards``, ``cores`` of them side by side.
    ``in_place``: rows are answered by the tasks that read them, without a shuffle and without
    state. Then what is said of a shard is true of a process that runs such tasks, ``cores`` of
    them side by side; the ``shards`` are the table's alone, and every process reads all of them.

    ``cache`` and ``queue`` are the bytes that a shard's cache may take, and its waiting rows. A
    shard of the table that takes no more than ``resident`` bytes stays in memory as a whole. Its
    filters and fences stay there if they take no more than ``filters`` bytes. ``piece`` is the
    bytes that are handled at a time. ``wakes``: does a shard with waiting rows take another step
    when the watermark has moved, even if no rows come? ``partition`` is about the bytes of a
    partition of the table. ``copies``: does a host keep copies of the partitions that it reads?
    ``switching`` is the paper's switching factor, by which the cache inequality is made stricter; 1
    is best. Reading that takes a shard no longer than ``at_once`` nanoseconds is never put off:
    with that of the shards that a core steps one after the other, it takes no longer than a
    micro-batch takes anyway."""

    shards: int
    cache: int
    queue: int
    resident: int
    filters: int
    piece: int
    wakes: bool
    partition: int
    copies: bool = False
    switching: float = 1.0
    at_once: float = 100e6
    cores: int | None = None
    in_place: bool = False

    @property
    def frame(self) -> int:
        """The bytes of results that are gathered at a time. Together with one that is added, they
        take no more than a piece."""
        return self.piece // 2

    @property
    def packed(self) -> int:
        """The bytes of new rows that a task packs at a time. Such tasks run on all cores, also if
        fewer shards are stepped side by side. Nothing else takes memory then, so that they are two
        pieces."""
        cores = self.cores or self.shards
        return 2 * self.piece * min(cores, self.shards) // cores

    def on(self, shards: int) -> EnrichPolicy:
        """The same, on another number of shards: they share the query's memory.

        >>> planned = EnrichPolicy(4, 100, 100, 200, 50, 64, True, 1 << 20, cores=2)
        >>> fewer = planned.on(1)
        >>> fewer.cache, fewer.resident, fewer.piece
        (400, 800, 128)
        >>> planned.on(6).at_once / planned.at_once == 2 / 3
        True
        """
        before, now = (min(self.cores or count, count) for count in (self.shards, shards))
        turns = -(-self.shards // before), -(-shards // now)
        return replace(
            self,
            shards=shards,
            cache=self.cache * self.shards // shards,
            queue=self.queue * self.shards // shards,
            resident=self.resident * self.shards // shards,
            filters=self.filters * self.shards // shards,
            piece=self.piece * before // now,
            at_once=self.at_once * turns[0] / turns[1],
        )


@dataclass(frozen=True)
class TableSize:
    """What a staged table has, over all of its shards; ``bytes`` is what its rows take in
    memory."""

    shards: int
    rows: int
    bytes: int
    partitions: int
