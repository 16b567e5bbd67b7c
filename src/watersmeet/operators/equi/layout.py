"""How a join's rows are laid out, as the operator and the runtime agree on it.

A stored row of a stream is

    #code   int64, what rows are hashed, sorted and probed by; null: matches nothing
    #time   timestamp, if the stream has a time
    #key0.. the key columns, unless the code is the key itself (``exact``)
    #0..    every other column of the user's, by its position

A single key of an integral, date or timestamp type is *exact*: the code is its
value, and equal codes are equal keys. Any other key is hashed to its code, and
equal codes are compared again by the key columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet import durations
from watersmeet.cost.engine import Direction
from watersmeet.operators.equi.limits.index_choice import expected
from watersmeet.operators.equi.limits.shedding import ShardBudget
from watersmeet.operators.equi.order.probe_order import most_selective_first
from watersmeet.operators.equi.order.runs import Schedule
from watersmeet.rows.columns import CODE, TIME, key_name
from watersmeet.rows.predicate import Predicate
from watersmeet.spec import IS_PUNCTUATION, Budget, JoinSpec
from watersmeet.state.memory import piece_of

#: For throughput, rows are purged after so many punctuations (metadata paper, section 6.2).
PURGE_AFTER = 100

#: Which stream's new rows are taken first, for a goal (multiway paper, section 3.2). In the
#: paper's experiments and in ours, initial-output-size has given most results at half time.
DRIVER_FOR = {
    "throughput": "initial-output-size",
    "memory": "consumption-rate",
    "early": "initial-output-size",
}

#: Spark types of a single key whose value serves as the code.
EXACT_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "date", "timestamp"})


@dataclass(frozen=True)
class InputLayout:
    """One stream as the operator sees it.

    ``stored`` tells, for each column of the user's that something reads, under
    which name it is stored; for an exact key that name is ``#code``.
    ``types`` are the columns' own types. ``window`` is how long a row waits for a later one,
    ``kept`` how long it is stored. ``own_watermark``: the stream brought a
    watermark of its own. ``unique`` and ``arrival`` are what it promises about its keys,
    ``closes`` whether it ever closes any, ``punctuated`` whether punctuations may do so.
    """

    name: str
    window: int | None
    kept: int | None
    own_watermark: bool
    stored: dict[str, str]
    types: dict[str, pa.DataType]
    unique: bool = False
    arrival: str | None = None
    closes: bool = False
    punctuated: bool = False

    def read(self, rows: pa.RecordBatch, column: str) -> pa.Array:
        """A column of the user's, from stored rows."""
        values = rows.column(self.stored[column])
        return from_code(values, self.types[column]) if self.stored[column] == CODE else values

    def read_at(self, rows: pa.RecordBatch, positions: np.ndarray, column: str) -> pa.Array:
        """A column of the user's, from the stored rows at some positions."""
        return self.read(rows.select([self.stored[column]]).take(pa.array(positions)), column)


@dataclass(frozen=True)
class Source:
    """Where a column of the result comes from: a key (from whichever side has
    the row), a stored column of one stream, whether it is a punctuation, or, with none of
    these, the event time."""

    key: int | None = None
    stream: int | None = None
    stored: str | None = None
    punctuation: bool = False


@dataclass(frozen=True)
class JoinLayout:
    """All that the operator needs to know about the join. ``output`` is the
    schema of the result; ``sources[i]`` tells where its column i comes from;
    ``preserved[i]``: does an unmatched row of stream i appear in it?

    ``index[i]`` and ``invalidation`` say how windows are held and when expired rows leave;
    ``purge_after`` is the number of punctuations after which rows are purged, and
    ``violations`` what happens to rows that they exclude; ``expected[i]`` is what to expect
    of a shard's window at first; ``budget`` is a shard's part of what the query may
    use; ``schedule`` is the order in which new rows are taken, and ``sequences[i]`` that in
    which those of stream i look into the other windows until something is measured.
    ``in_stages``: what is in memory is probed first, what is on disk later; ``timers``:
    a shard that holds anything is stepped again when the watermark moves."""

    inputs: tuple[InputLayout, ...]
    how: str
    preserved: tuple[bool, ...]
    exact: bool
    keys: int
    output: pa.Schema
    sources: tuple[Source, ...]
    predicate: Predicate | None
    delay: int
    fingerprint: str
    index: tuple[str, ...]
    invalidation: str
    expected: tuple[Direction | None, ...]
    budget: ShardBudget | None
    purge_after: int
    violations: str
    emit_punctuations: bool
    schedule: Schedule
    sequences: tuple[tuple[int, ...], ...]
    in_stages: bool = False
    timers: bool = False

    @property
    def piece(self) -> int | None:
        """The bytes that are handled at a time, if a budget limits them."""
        return piece_of(self.memory)

    @property
    def memory(self) -> int | None:
        """The bytes that a shard may take, if a budget says so."""
        return None if self.budget is None else self.budget.memory

    def holds(self, sides: Mapping[int, tuple[pa.RecordBatch, np.ndarray]]) -> np.ndarray | None:
        """For which combinations of rows, given as positions in each stream's rows, the
        predicate holds; None if there is none."""
        if self.predicate is None:
            return None
        return self.predicate.mask(
            [
                self.inputs[stream].read_at(*sides[stream], name)
                for stream, name in self.predicate.columns
            ]
        )

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The stored columns that hold a hashed key."""
        return tuple(key_name(i) for i in range(self.keys))


def from_code(codes: pa.Array, target: pa.DataType) -> pa.Array:
    """The values of an exact key, from its codes."""
    if pa.types.is_timestamp(target):
        return codes.view(target)
    if pa.types.is_date32(target):
        return pc.cast(codes, pa.int32()).view(target)
    return pc.cast(codes, target)


def lay_out(
    spec: JoinSpec,
    schemas: Sequence[pa.Schema],
    output: pa.Schema,
    predicate: Predicate | None,
    *,
    shards: int,
    cores: int = 1,
) -> JoinLayout:
    """How rows are stored and results are made of them.

    ``schemas`` are the streams' own columns, ``output`` the result's, in Arrow types.
    The keys are spread over ``shards``, which ``cores`` step side by side."""
    exact = is_exact(spec)
    inputs = []
    for position, (stream, schema) in enumerate(zip(spec.streams, schemas, strict=True)):
        stored = stored_names(spec, position, predicate)
        types = {field.name: field.type for field in schema}
        window, own = spec.windows[position], stream.watermarked
        punctuated = stream.punctuation is not None
        promises = stream.unique, stream.arrival, stream.closes, punctuated
        kept = spec.kept[position]
        inputs.append(InputLayout(stream.name, window, kept, own, stored, types, *promises))
    sources = []
    for column in spec.output:
        if column.key is not None:
            sources.append(Source(key=column.key))
        elif column.stream is None or column.column is None:
            sources.append(Source(punctuation=column.name == IS_PUNCTUATION))
        else:
            name = inputs[column.stream].stored[column.column]
            sources.append(Source(stream=column.stream, stored=name))
    return JoinLayout(
        inputs=tuple(inputs),
        how=spec.how,
        preserved=spec.preserved,
        exact=exact,
        keys=len(spec.key_types),
        output=output,
        sources=tuple(sources),
        predicate=predicate,
        delay=max(stream.delay or 0 for stream in spec.streams),
        fingerprint=fingerprint(spec, shards),
        index=spec.index,
        invalidation=spec.invalidation,
        expected=tuple(expected_of(spec, shards)),
        budget=None if spec.budget is None else _shard_budget(spec.budget, shards, cores),
        purge_after=purge_after(spec),
        violations=spec.violations,
        emit_punctuations=spec.emit_punctuations,
        schedule=Schedule(
            streams=driver_of(spec), rows="value" if spec.goal == "early" else "sequential"
        ),
        sequences=tuple(tuple(sequence) for sequence in first_sequences(spec)),
        in_stages=spec.in_stages,
        timers=spec.timers,
    )


def expected_of(spec: JoinSpec, shards: int) -> list[Direction | None]:
    """What was declared of the streams, for one shard."""
    delay = max(stream.delay or 0 for stream in spec.streams)
    return expected(
        [None if stream.rate is None else stream.rate / shards for stream in spec.streams],
        [None if stream.keys is None else stream.keys / shards for stream in spec.streams],
        [None if kept is None else (kept + delay) / 1e6 for kept in spec.kept],
    )


def purge_after(spec: JoinSpec) -> int:
    """After how many punctuations rows are purged: as asked for, or as the goal says."""
    return spec.purge_after or (PURGE_AFTER if spec.goal == "throughput" else 1)


def driver_of(spec: JoinSpec) -> str:
    """In which order the streams' new rows are taken."""
    if spec.driver != "auto":
        return spec.driver
    if len(spec.streams) == 2:
        return "priority"
    return DRIVER_FOR[spec.goal]


def first_sequences(spec: JoinSpec) -> list[list[int]]:
    """The order in which each stream's new rows look into the other windows at first: by
    what was declared of rates and keys."""
    stored = [
        math.inf
        if stream.rate is None or kept is None
        else stream.rate * kept / 1e6 / (stream.keys or 1.0)
        for stream, kept in zip(spec.streams, spec.kept, strict=True)
    ]
    meeting = [1.0 - math.exp(-rows) for rows in stored]
    return [
        most_selective_first(driver, meeting, through=0 if spec.how == "left" else None)
        for driver in range(len(spec.streams))
    ]


def _shard_budget(budget: Budget, shards: int, cores: int) -> ShardBudget:
    """What one shard may use of what the query may: shards are alike, and may all be
    at work at once."""
    measured = budget.rate == "measured"
    return ShardBudget(
        overflow=budget.overflow,
        memory=None if budget.memory is None else int(budget.memory) // shards,
        rate=None if budget.rate is None or measured else float(budget.rate) / shards,
        speed=min(1.0, cores / shards) if measured else None,
        fanout=budget.fanout,
    )


def is_exact(spec: JoinSpec) -> bool:
    """Is the key its own code?"""
    return exact_key(spec.key_types)


def exact_key(types: Sequence[str]) -> bool:
    """Is a key of such types its own code, and so in the order of its codes?"""
    return len(types) == 1 and types[0] in EXACT_TYPES


def fingerprint(spec: JoinSpec, shards: int) -> str:
    """What of a query must not change while its checkpoint lives. Delays and the
    predicate may: they decide about rows to come. Windows may too, unless a row that
    was given out as unmatched could match after all."""
    streams = ", ".join(
        f"{stream.name} [{', '.join(keys)}]"
        for stream, keys in zip(spec.streams, spec.keys, strict=True)
    )
    columns = [[(c.name, c.type) for c in s.columns] + [s.time] for s in spec.streams]
    digest = hashlib.sha256(repr((columns, spec.key_types)).encode()).hexdigest()[:12]
    windows = [None if window is None else durations.format(window) for window in spec.windows]
    within = f"; within {' and '.join(map(str, windows))}" if any(spec.preserved) else ""
    return (
        f"{spec.how} join of {streams}{within}; spark.sql.shuffle.partitions {shards}; "
        f"column names and types {digest}"
    )


def stored_names(spec: JoinSpec, position: int, predicate: Predicate | None) -> dict[str, str]:
    """Under which name each column of a stream is stored that the join needs. The
    user's names never appear: they may be anything."""
    stream, keys = spec.streams[position], spec.keys[position]
    needed = {column.column for column in spec.output if column.stream == position}
    if predicate is not None:
        needed |= {name for index, name in predicate.columns if index == position}
    names = {name: CODE if is_exact(spec) else key_name(i) for i, name in enumerate(keys)}
    for number, column in enumerate(stream.columns):
        if column.name == stream.time:
            names.setdefault(column.name, TIME)
        elif column.name in needed:
            names.setdefault(column.name, f"#{number}")
    return names
