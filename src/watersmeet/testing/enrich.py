"""Enrichments that are stepped by hand."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.joins.enrich.layout import EnrichLayout
from watersmeet.joins.enrich.plan import EnrichPlan, plan_enrich
from watersmeet.joins.enrich.spec import EnrichCall
from watersmeet.rows.encode import encoded
from watersmeet.rows.types import canonical_schema
from watersmeet.table.staged_table import StagedTable, combine, stage
from watersmeet.table.versions import Versions
from watersmeet.testing.backend import LocalBackend, own_folder
from watersmeet.testing.run import LocalRun, runs_of
from watersmeet.testing.streams import LocalStream, result_schema, stored, stream_spec
from watersmeet.testing.tables import Table


class LocalEnrich:
    """A stream that is enriched by hand, from a table that is staged in a folder. Tables are
    Arrow's, or DataFrames of pandas or Polars. ``options`` are what ``wm.enrich`` takes; a
    condition is given by ``wm.predicate``.

    With ``restart``, it goes on from where another one stands, and from the table that was staged
    for that, unless one is given as ``staged``, or other columns of it are needed. ``policy`` has
    fields of the policy that are to be others than planned, for tests and experiments.

    >>> rates = pa.table({"currency": ["EUR", "USD"], "rate": [1.0, 1.1]})
    >>> orders = pa.table({"currency": ["USD", "USD", "GBP"], "amount": [10, 20, 30]})
    >>> enrich = LocalEnrich("orders", LocalStream(orders.schema), rates, on="currency", how="left")
    >>> enrich.batch(orders).sort_by("amount").to_pydict()
    {'currency': ['USD', 'USD', 'GBP'], 'amount': [10, 20, 30], 'rate': [1.1, 1.1, None]}
    """

    def __init__(
        self,
        name: str,
        stream: LocalStream,
        table: Table,
        *,
        table_name: str = "table",
        shards: int = 1,
        folder: str | None = None,
        restart: LocalEnrich | None = None,
        staged: StagedTable | None = None,
        policy: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.folder: str = folder or (restart and restart.folder) or own_folder()
        os.makedirs(self.folder, exist_ok=True)
        inputs = {name: stream, table_name: LocalStream(table)}
        specs = [stream_spec(given, inputs[given]) for given in inputs]
        specs[1] = replace(specs[1], streaming=False)
        backend = LocalBackend(shards, self.folder)
        planned = plan_enrich(specs[0], specs[1], backend, EnrichCall(**options))
        planned = replace(planned, policy=replace(planned.policy, **(policy or {})))
        schemas = [canonical_schema(given.schema) for given in inputs.values()]
        output = result_schema(planned.spec.output, schemas)
        self._schemas = schemas
        self.plan: EnrichPlan = planned
        self.layout: EnrichLayout = planned.layout(schemas, output)
        goes_on = restart and restart._versions() == self._versions()
        known = staged or (restart.staged if restart and goes_on else None)
        self.staged: StagedTable = known or self.stage(table)
        versions = self._versions() if planned.spec.refresh else None
        chain = replace(planned, staged=self.staged, versions=versions).chain(schemas, output)
        cache, before = os.path.join(self.folder, "cache"), [restart.run] if restart else []
        self.run: LocalRun = runs_of(chain, shards=shards, folder=cache, restart=before)[0]

    def stage(self, table: Table) -> StagedTable:
        """The table as it is staged, in a folder of its own."""
        folder = tempfile.mkdtemp(dir=self.folder)
        empty = pa.RecordBatch.from_pylist([], self._schemas[1])
        rows = self._encoded(1, table) or encoded(empty, self.layout.inputs[1].rows)
        policy = self.plan.policy
        return stage(rows, folder, shards=policy.shards, partition=policy.partition)

    def refresh(self, table: Table) -> None:
        """Another version of the table, for the steps after the next one."""
        self._versions().set(self.stage(table).version)

    def append(self, rows: Table) -> None:
        """Another version of the table, for the steps after the next one: it has these rows
        besides those of the current version, which are not staged again."""
        current = self._versions().current() or self.staged
        newer = combine(tempfile.mkdtemp(dir=self.folder), [current, self.stage(rows)])
        self._versions().set(newer.version)

    def _versions(self) -> Versions:
        columns = hashlib.sha256(repr(self.layout.inputs[1].rows).encode()).hexdigest()[:32]
        return Versions(self.folder, columns, columns)

    def batch(self, rows: Table | None = None) -> pa.Table:
        """One micro-batch of new rows, or without any."""
        return self._table(self.run.step([self._encoded(0, rows)]))

    def finish(self) -> pa.Table:
        """The answers to all rows that wait."""
        return self._table(self.run.finish())

    @property
    def counters(self) -> Any:
        """What the last micro-batch did."""
        return self.run.counters

    def waiting(self) -> int:
        """Rows that wait now."""
        states = [self.run.state(number) for number in range(len(self.run.stores))]
        return sum(state.waiting.rows for state in states)

    def _encoded(self, position: int, table: Table | None) -> pa.RecordBatch | None:
        given = self.layout.inputs[position]
        return stored(table, given.name, self._schemas[position], given.rows)

    def _table(self, results: Sequence[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(results, self.run.operator.output)
