"""Ways to run a join over batches. What a way promises is small: the result of each
batch, the late rows it counted, and that it can be disturbed between two batches."""

from __future__ import annotations

import enum
import os
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from experiments.metadata.schedules import ScheduledJoin
from tests.conformance.join import Batch, Join
from watersmeet.joins.operator import AnyOperator, Chunk
from watersmeet.rows.columns import concat
from watersmeet.state.cache.file import forget
from watersmeet.state.store import MemoryStore
from watersmeet.testing import LocalJoin


class Disturbance(enum.Enum):
    """What may happen before a batch, and must not be seen in any result."""

    RESTART = "the query is stopped and started again"
    CRASH = "the batch runs, but its state is lost, and it runs again"
    TWICE = "the batch is executed twice: one's results count, and the other's state"
    CACHE_LOST = "the local cache is deleted"
    CACHE_TRUNCATED = "every cached file is cut in half"
    CACHE_GARBAGE = "every cached file holds something else"
    CACHE_DAMAGED = "a part of every cached file is zeroed"
    CACHE_MIXED = "every cached file holds what belongs to another one"


@dataclass(frozen=True)
class Outcome:
    """What came out: a table for each batch, and the late rows by batch and stream; of a
    local run, all that was counted."""

    results: list[pa.Table]
    late: list[dict[str, int]]
    counters: list[Any] = field(default_factory=list)

    @property
    def result(self) -> pa.Table:
        return pa.concat_tables(self.results)


class Way(Protocol):
    """Runs a join over batches."""

    def run(
        self,
        join: Join,
        batches: Sequence[Batch],
        *,
        shards: int = 1,
        before: Mapping[int, Disturbance] | None = None,
        cut: int | None = None,
    ) -> Outcome:
        """Run all batches; ``before[n]`` happens before batch n. With ``cut``, a seed, each batch
        comes in several chunks."""


class InChunks:
    """An operator whose steps get their rows in several chunks: cut anywhere, in any order."""

    def __init__(self, operator: AnyOperator, dice: random.Random) -> None:
        self._operator = operator
        self._dice = dice

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def step(self, chunks: Iterable[Chunk], *args: Any) -> Iterator[Any]:
        return self._operator.step((part for chunk in chunks for part in self._cut(chunk)), *args)

    def _cut(self, chunk: Chunk) -> Iterator[Chunk]:
        parts = [
            (stream, part)
            for stream, rows in enumerate(chunk)
            if rows is not None
            for part in self._slices(rows)
        ]
        self._dice.shuffle(parts)
        while parts:
            few = self._dice.randint(1, len(parts))
            taken, parts = parts[:few], parts[few:]
            streams = [[rows for of, rows in taken if of == stream] for stream in range(len(chunk))]
            yield [concat(batches) if batches else None for batches in streams]

    def _slices(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        ends = sorted({len(rows), *(self._dice.randint(0, len(rows)) for _ in range(3))})
        for start, end in zip([0, *ends], ends, strict=False):
            yield rows.slice(start, end - start)


class LocalWay:
    """By :class:`LocalJoin`: the operator alone, in this process."""

    def run(
        self,
        join: Join,
        batches: Sequence[Batch],
        *,
        shards: int = 1,
        before: Mapping[int, Disturbance] | None = None,
        cut: int | None = None,
    ) -> Outcome:
        results, late, counters = [], [], []
        dice = random.Random(cut)
        with tempfile.TemporaryDirectory() as folder:
            local: LocalJoin = ScheduledJoin(
                join.streams, shards=shards, folder=folder, **join.options
            )
            for number, batch in enumerate(batches):
                disturbance = (before or {}).get(number)
                local = disturbed(local, join, batch, disturbance)
                results.append(
                    executed(local, join, batch, disturbance, dice if cut is not None else None)
                )
                counters.append(local.counters)
                late.append(
                    {
                        name: count.late
                        for name, count in zip(join.streams, local.counters.streams, strict=True)
                    }
                )
        return Outcome(results, late, counters)


def executed(
    local: LocalJoin,
    join: Join,
    batch: Batch,
    disturbance: Disturbance | None,
    dice: random.Random | None,
) -> pa.Table:
    """The result of a batch, after a disturbance. With ``dice``, it comes in several chunks."""
    twice = disturbance is Disturbance.TWICE
    others = [_copied(local, join) for _ in range(2 * twice)]
    if dice is not None:
        for other in others:
            in_chunks(other, copy(dice))  # chunks are the same in both executions
        in_chunks(local, dice)
    result = _run(local, join, batch)
    if not twice:
        return result
    equal, reordered = others
    again = _run(equal, join, batch)
    assert str(again.to_pylist()) == str(result.to_pylist()), "NaN counts too"
    assert _stored(equal) == _stored(local)
    return _run(reordered, join, _reordered(join, batch))


def in_chunks(local: LocalJoin, dice: random.Random) -> LocalJoin:
    """The same join, from now on with micro-batches of several chunks."""
    for run in local.runs:
        if not isinstance(run.operator, InChunks):
            run.operator = InChunks(run.operator, dice)  # type: ignore[assignment]
    return local


def restarted(local: LocalJoin, join: Join, folder: str | None = None) -> LocalJoin:
    """A new operator that goes on with the state of another."""
    shards = len(local.run.stores)
    return ScheduledJoin(join.streams, shards=shards, restart=local, folder=folder, **join.options)


def disturbed(
    local: LocalJoin, join: Join, batch: Batch, disturbance: Disturbance | None
) -> LocalJoin:
    """The join after a disturbance before a batch."""
    if disturbance is Disturbance.RESTART:
        return restarted(local, join)
    if disturbance is Disturbance.CRASH:
        _run(_copied(local, join), join, batch)
    spoil_cache(local.folder, disturbance)
    return local


def spoil_cache(folder: str, disturbance: Disturbance | None) -> None:
    """What may happen to the files of the local cache in a folder."""
    files = [path for path in Path(folder).glob("*/*") if path.is_file()]
    if disturbance is Disturbance.CACHE_LOST:
        shutil.rmtree(folder, ignore_errors=True)
    elif disturbance is Disturbance.CACHE_TRUNCATED:
        for file in files:
            os.truncate(file, file.stat().st_size // 2)
    elif disturbance is Disturbance.CACHE_GARBAGE:
        for file in files:
            file.write_bytes(b"\x5a" * file.stat().st_size)
    elif disturbance is Disturbance.CACHE_DAMAGED:
        for file in files:
            content = file.read_bytes()
            start, end = len(content) // 4, len(content) // 2
            file.write_bytes(content[:start] + bytes(end - start) + content[end:])
    elif disturbance is Disturbance.CACHE_MIXED:
        contents = [file.read_bytes() for file in files]
        for file, content in zip(files, contents[1:] + contents[:1], strict=True):
            file.write_bytes(content)
    forget()  # as another process finds the files


def _run(local: LocalJoin, join: Join, batch: Batch) -> pa.Table:
    """The result of a batch. One without rows is a pause, if there is a time that may pass."""
    pauses = any(stream.time for stream in join.streams.values())
    if pauses and not any(rows.num_rows for rows in batch.values()):
        return local.pause()
    return local.batch(**batch)


def _reordered(join: Join, batch: Batch) -> Batch:
    """The same rows in another order, if that may not matter. It may where probes are deferred or a
    promise is broken; there the order is always the same (:mod:`watersmeet.spark.query.chunks`)."""
    closes = any(s.unique or s.arrival or s.punctuation for s in join.streams.values())
    if join.budget is not None or closes:
        return batch
    return {name: rows[::-1] for name, rows in batch.items()}


def _copied(local: LocalJoin, join: Join) -> LocalJoin:
    """A join that stands where another one stands, with a state of its own."""
    copied = restarted(local, join)
    for run, kept in zip(copied.runs, local.runs, strict=True):
        run.stores = [_copy(store) for store in kept.stores]
    return copied


def _stored(local: LocalJoin) -> list[dict[str, bytes]]:
    """What is in the stores besides the manifests, in which measured times are."""
    return [
        {name: value for name, value in store.values.items() if name != "manifest"}
        for run in local.runs
        for store in run.stores
    ]


def _copy(store: MemoryStore) -> MemoryStore:
    copied = MemoryStore()
    copied.values = dict(store.values)
    return copied
