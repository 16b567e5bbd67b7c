"""Joins of streams that are stepped by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.errors import StateError, StreamNameError, did_you_mean
from watersmeet.joins.families import plan_join
from watersmeet.joins.operator import merged
from watersmeet.plan.call import JoinCall
from watersmeet.rows.types import canonical_schema
from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.store import MemoryStore
from watersmeet.testing.backend import LocalBackend, own_folder
from watersmeet.testing.run import LocalRun, runs_of
from watersmeet.testing.streams import (
    LocalStream,
    check_condition,
    result_schema,
    stored,
    stream_spec,
)
from watersmeet.testing.tables import Table


class LocalJoin:
    """A join that is stepped by hand. ``options`` are what ``wm.join`` takes; a condition is given
    by ``wm.predicate``, as SQL needs Spark.

    With ``restart``, it goes on from where another join stands. ``limits`` are the sizes of the
    pieces in which it works: with small ones, a few rows behave as millions do. By default they
    are those of the join before, or of the class."""

    limits: Limits = LIMITS

    def __init__(
        self,
        streams: Mapping[str, LocalStream],
        *,
        shards: int = 1,
        folder: str | None = None,
        restart: LocalJoin | None = None,
        limits: Limits | None = None,
        **options: Any,
    ) -> None:
        folder = folder or (restart and restart.folder) or own_folder()
        specs = [stream_spec(name, stream) for name, stream in streams.items()]
        asked = JoinCall(**options)
        planned: Any = plan_join(specs, LocalBackend(shards, folder), asked)
        usual = self.limits if restart is None else restart.limits
        self.limits = usual if limits is None else limits
        policy = replace(planned.policy, limits=self.limits)
        self.plan: Any = replace(planned, policy=policy)
        for name, stream in streams.items():
            check_condition(name, stream)
        schemas = [canonical_schema(stream.schema) for stream in streams.values()]
        self.spec: Any = self.plan.spec
        chain = self.plan.chain(schemas, result_schema(self.spec.output, schemas))
        if restart is not None and len(restart.runs) != len(chain.hops):
            raise StateError(
                f"restart: the join before had {len(restart.runs)} of the operators that store "
                f"rows, this one has {len(chain.hops)}. So it has other streams, or another type."
            )
        self._layouts = [given.rows for given in chain.inputs]
        self._schemas = [stream.schema for stream in streams.values()]
        before = restart.runs if restart else ()
        self.runs: list[LocalRun] = runs_of(chain, shards=shards, folder=folder, restart=before)

    def batch(self, **tables: Table) -> pa.Table:
        """One micro-batch: new rows for any of the streams, as Arrow tables or DataFrames of pandas
        or Polars. The watermark moves after it, as in Spark, and takes effect in the next one."""
        names = [stream.name for stream in self.spec.streams]
        for name in tables:
            if name not in names:
                raise StreamNameError(
                    f"batch: {name!r} is not one of the streams {', '.join(names)}."
                    f"{did_you_mean(name, names)}"
                )
        rows = [self.encoded(i, tables.get(name)) for i, name in enumerate(names)]
        return self._table(self.run.step(rows))

    def pause(self) -> pa.Table:
        """A micro-batch without data, as Spark runs one when the watermark has moved. (One in
        which no stream has rows, ``batch()``, is another thing: Spark runs that if a source says
        that it has data.)"""
        return self._table(self.run.pause())

    def finish(self) -> pa.Table:
        """Let time pass until nothing is stored any more."""
        return self._table(self.run.finish())

    @property
    def run(self) -> LocalRun:
        """The run of the first operator; most joins have one only."""
        return self.runs[0]

    @property
    def join(self) -> Any:
        """The first operator."""
        return self.run.operator

    @property
    def counters(self) -> Any:
        """What the last micro-batch did, in all hops."""
        return merged([deepcopy(run.counters) for run in self.runs])

    @property
    def stores(self) -> list[MemoryStore]:
        """The durable state, one store for each shard of each hop."""
        return [store for run in self.runs for store in run.stores]

    @property
    def folder(self) -> str:
        """The folder of the local cache."""
        return self.run.folder

    @property
    def watermark(self) -> int | None:
        """The watermark that the next micro-batch runs under, in microseconds."""
        return self.run.watermark

    def state_rows(self) -> list[int]:
        """Rows stored now, for each stream."""
        return self._stored("state_rows")

    def unproven(self) -> list[int]:
        """Rows stored now that may still come out unmatched, for each stream."""
        return self._stored("unproven")

    def _stored(self, counter: str) -> list[int]:
        stored = []
        for run in self.runs:
            for number in range(len(run.stores)):
                counters = run.operator.counters()
                run.operator.report(run.state(number), counters)
                stored.append([getattr(stream, counter) for stream in counters.streams])
        return [sum(rows) for rows in zip(*stored, strict=True)]

    def encoded(self, position: int, table: Table | None) -> pa.RecordBatch | None:
        """Rows of a stream, by its position, as they are stored."""
        name = self.spec.streams[position].name
        return stored(table, name, self._schemas[position], self._layouts[position])

    def _table(self, results: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(results, self.join.output)
