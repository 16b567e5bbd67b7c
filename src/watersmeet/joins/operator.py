"""The contract of every operator, and what all of them count.

An operator maps new rows, a watermark and stored state to results, one *shard* at a time: a part
of the state that is stepped on its own. It does not know where it runs. A backend (Spark, or
:mod:`watersmeet.testing`) deals rows out to the shards, and owns the watermark and the commits. For
each shard and micro-batch it calls::

    state = operator.open(store, shard, cache)
    counters = operator.counters()
    operator.expect(inflows, state)        # before the first chunk, if it asks for that
    for results in operator.step(chunks, watermark, state, counters): ...
    for results in operator.finish(state, counters): ...   # only after the last input
    state.commit()
    operator.report(state, counters)

Results are to be taken before the state is committed: a step changes it as they are taken. What
a step does follows from its arguments and the state alone, so a step that is run again gives the
same result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import pyarrow as pa

from watersmeet.rows.inflow import Inflow
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import total_bytes
from watersmeet.state.shard import ShardState
from watersmeet.state.store import Store

#: No time is later: the watermark at the end of a batch run.
END_OF_TIME = 2**63 - 1

#: New rows, as they are stored: one batch for each input, or None.
Chunk = Sequence[pa.RecordBatch | None]


@dataclass
class StreamCounters:
    """What one step did with one stream's rows, and what is stored of it now."""

    rows: int = 0
    late: int = 0
    unmatchable: int = 0
    expired: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    segments: int = 0


@dataclass
class JoinStreamCounters(StreamCounters):
    """The same, in a join of streams. ``unproven`` counts the stored rows of preserved streams that
    have no known match and are not proven unmatched: if no more input comes, they stay. (In joins
    of three and more streams nobody knows which rows have matched, so all stored rows count.)"""

    unproven: int = 0


@dataclass(frozen=True)
class Largest:
    """The most results that one new row has made: of which stream, with which key."""

    fanout: int = 0
    stream: str = ""
    key: str = ""


@dataclass
class Counters:
    """What one step did, in all and for each stream. A family may count more.

    ``capped`` counts new rows whose results were cut short; ``notes`` say what was decided, and
    why."""

    #: The name of the family that counts so; metrics are read back by it.
    family: ClassVar[str]
    #: The numbers of which the greatest over several steps counts; the others are added up.
    maxima: ClassVar[frozenset[str]] = frozenset()

    streams: list[Any]
    notes: list[str] = field(default_factory=list)
    largest: Largest = Largest()
    results: int = 0
    probes: int = 0
    capped: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    cache_damaged: int = 0
    cache_unsaved: int = 0
    step_ms: int = 0
    steps: int = field(default=1)

    def without_kept(self) -> None:
        """Leave out the numbers that are kept from step to step: another report has them."""


class State(Protocol):
    """What a backend needs to know of a shard's state."""

    #: The event-time timer that is set, in milliseconds: the backend's own.
    timer: int | None

    @property
    def waits(self) -> bool:
        """Is there anything that a later watermark may change?"""

    def commit(self) -> None:
        """Write what changed, so that it commits with the micro-batch."""


S = TypeVar("S", bound=State)
C = TypeVar("C", bound=Counters)
#: Rows that an operator hands on to another one, with the number of an input there.
HandedOn = tuple[int, pa.RecordBatch]
#: What an operator emits: batches of its ``output``, or rows that it hands on.
Emitted = pa.RecordBatch | HandedOn
E = TypeVar("E")


class Operator(ABC, Generic[S, C, E]):
    """One kind of join (or anything else that keeps state), as backends see it."""

    #: The names of its inputs, in order.
    inputs: Sequence[str]
    #: The columns of its results.
    output: pa.Schema

    @property
    def counted(self) -> Sequence[str]:
        """The names of the streams whose rows it counts, in order."""
        return self.inputs

    @property
    def chunk_bytes(self) -> int | None:
        """How many bytes of new rows it takes at a time; None: as the backend likes."""
        return None

    @property
    def frame_bytes(self) -> int | None:
        """How many bytes of results may be gathered; None: as the backend likes."""
        return None

    @abstractmethod
    def counters(self) -> C:
        """Counters of a step that has done nothing yet."""

    @abstractmethod
    def open(self, store: Store, shard: Shard, cache: SegmentCache) -> S:
        """A shard's state, from its store."""

    @property
    def expects(self) -> bool:
        """Must each shard know what the micro-batch brings to all of them? Only the first operator
        of a chain may ask for it."""
        return False

    def expect(self, inflows: Sequence[Inflow], state: S) -> None:
        """Learn what the micro-batch brings of each input, over all shards. It comes before the
        first chunk of a step, where the micro-batch has rows."""

    @abstractmethod
    def step(
        self, chunks: Iterable[Chunk], watermark: int | None, state: S, counters: C
    ) -> Iterator[E]:
        """The results of one micro-batch. ``watermark`` is in microseconds, None before there is
        one."""

    def finish(self, state: S, counters: C) -> Iterator[E]:
        """The last results, when no more input will ever come."""
        return iter(())

    @abstractmethod
    def report(self, state: S, counters: C) -> None:
        """Count the rows that are stored now."""


#: An operator of which nothing else is known.
AnyOperator = Operator[Any, Any, Any]


def merged(counted: Sequence[Counters]) -> Any:
    """The counters of several steps together."""
    total, *others = counted
    for other in others:
        _add(total, other, total.maxima)
        for stream, more in zip(total.streams, other.streams, strict=True):
            _add(stream, more)
        total.notes += other.notes
        total.largest = max(total.largest, other.largest, key=lambda largest: largest.fanout)
    return total


def _add(total: Any, more: Any, maxima: frozenset[str] = frozenset()) -> None:
    for number in fields(total):
        if number.type in (int, "int"):
            both = getattr(total, number.name), getattr(more, number.name)
            setattr(total, number.name, max(both) if number.name in maxima else sum(both))


def count_windows(
    state: ShardState, counters: Counters, streams: Sequence[int] | None = None
) -> None:
    """Count the rows in the windows of a shard. There is one window for each stream, or for each of
    some ``streams``."""
    held = counters.streams if streams is None else [counters.streams[i] for i in streams]
    for stream, window in zip(held, state.windows, strict=True):
        stream.expired = window.expired
        stream.state_rows = window.rows
        stream.state_bytes = total_bytes(window.entries)
        stream.segments = len(window.entries)
    count_cache(state, counters)


def count_cache(state: ShardState, counters: Counters) -> None:
    """Count the hits and misses of a step in the local cache."""
    cache = state.cache.counts
    counters.cache_hits, counters.cache_misses = cache.hits, cache.misses
    counters.cache_damaged, counters.cache_unsaved = cache.damaged, cache.unsaved
    counters.notes += cache.notes
