"""Ways to run a join over batches. What a way promises is small: the result of each
batch, the late rows it counted, and that it can be disturbed between two batches."""

from __future__ import annotations

import enum
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from tests.conformance.join import Batch, Join
from watersmeet.operators.base import Counters
from watersmeet.state.store import MemoryStore
from watersmeet.testing import LocalJoin


class Disturbance(enum.Enum):
    """What may happen before a batch, and must not be seen in any result."""

    RESTART = "the query is stopped and started again"
    CRASH = "the batch runs, but its state is lost, and it runs again"
    CACHE_LOST = "the local cache is deleted"
    CACHE_TRUNCATED = "every cached file is cut in half"
    CACHE_GARBAGE = "every cached file holds something else"


@dataclass(frozen=True)
class Outcome:
    """What came out: a table for each batch, and the late rows by batch and stream; of a
    local run, all that was counted."""

    results: list[pa.Table]
    late: list[dict[str, int]]
    counters: list[Counters] = field(default_factory=list)

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
    ) -> Outcome:
        """Run all batches; ``before[n]`` happens before batch n."""


class LocalWay:
    """By :class:`LocalJoin`: the operator alone, in this process."""

    def run(
        self,
        join: Join,
        batches: Sequence[Batch],
        *,
        shards: int = 1,
        before: Mapping[int, Disturbance] | None = None,
    ) -> Outcome:
        results, late, counters = [], [], []
        with tempfile.TemporaryDirectory() as folder:
            local = LocalJoin(join.streams, shards=shards, folder=folder, **join.options)
            for number, batch in enumerate(batches):
                local = disturbed(local, join, batch, (before or {}).get(number))
                results.append(local.batch(**batch))
                counters.append(local.counters)
                late.append(
                    {
                        name: count.late
                        for name, count in zip(join.streams, local.counters.streams, strict=True)
                    }
                )
        return Outcome(results, late, counters)


def restarted(local: LocalJoin, join: Join, folder: str | None = None) -> LocalJoin:
    """A new operator that goes on with the state of another."""
    return LocalJoin(
        join.streams,
        shards=len(local.run.stores),
        restart=local,
        folder=folder,
        chunk_rows=local.run.chunk_rows,
        **join.options,
    )


def disturbed(
    local: LocalJoin, join: Join, batch: Batch, disturbance: Disturbance | None
) -> LocalJoin:
    """The join after a disturbance before a batch."""
    files = list(Path(local.folder).glob("*.arrow"))
    if disturbance is Disturbance.RESTART:
        return restarted(local, join)
    if disturbance is Disturbance.CRASH:
        lost = restarted(local, join)
        for run, kept in zip(lost.runs, local.runs, strict=True):
            run.stores = [_copy(store) for store in kept.stores]
        lost.batch(**batch)
    elif disturbance is Disturbance.CACHE_LOST:
        shutil.rmtree(local.folder, ignore_errors=True)
    elif disturbance is Disturbance.CACHE_TRUNCATED:
        for file in files:
            os.truncate(file, file.stat().st_size // 2)
    elif disturbance is Disturbance.CACHE_GARBAGE:
        for file in files:
            file.write_bytes(b"\x5a" * file.stat().st_size)
    return local


def _copy(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    copy.values = dict(store.values)
    return copy
