"""Rows that are answered where they are read: by any task, in any worker, without a JVM here."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given as drawn

from tests.conformance.strategies import examples, until_shown
from tests.conformance.ways import spoil_cache
from tests.joins.enrich.enrichment import Run, in_layers, runs
from tests.oracle import assert_same_rows
from watersmeet.errors import StagedTableError
from watersmeet.joins.enrich.operator import Enrich
from watersmeet.joins.enrich.spec import ENRICH_NAMES
from watersmeet.rows.columns import concat
from watersmeet.rows.encode import encoded
from watersmeet.spark.query import in_place
from watersmeet.spark.query.counters import REPORT
from watersmeet.spark.query.in_place import InPlace
from watersmeet.state.cache import SegmentCache
from watersmeet.testing import LocalEnrich, LocalStream


@pytest.fixture(autouse=True)
def unprepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is no worker: its garbage is to be collected."""
    monkeypatch.setattr(in_place, "prepare", lambda: None)


def without_waiting(case: Run) -> Run:
    further = {**case.enrichment.further, "max_wait": None}
    return replace(case, enrichment=replace(case.enrichment, further=further))


def tasks(dice: random.Random, batch: pa.Table) -> list[pa.Table]:
    """The rows of a micro-batch, as they are dealt to tasks; some of these may have none."""
    count = dice.choice([1, 1, 3])
    dealt = [dice.randrange(count) for _ in range(batch.num_rows)]
    return [batch.filter(pa.array([task == n for task in dealt], pa.bool_())) for n in range(count)]


def answered(case: Run, dice: random.Random, shown: Counter[str]) -> pa.Table:
    """What all tasks of all micro-batches give, run by two workers, of which each forgets what it
    knows now and then."""
    enrichment, results = case.enrichment, []
    with tempfile.TemporaryDirectory() as folder:
        local = enrichment.start(folder, shards=case.staged_for or case.shards)
        staged = in_layers(local, enrichment, case.cuts) if case.cuts else local.staged
        operator = Enrich(local.layout, staged)
        workers = [
            InPlace(operator, SegmentCache(f"{folder}/cache", 1 << 30), f"worker {n}", "answer")
            for n in range(2)
        ]
        in_place._MEMORIES.clear()
        for number, batch in enumerate(case.batches):
            spoil_cache(f"{folder}/cache", case.before.get(number))
            if in_place._MEMORIES and dice.random() < 0.05:
                in_place._MEMORIES.popitem()
            for task in tasks(dice, batch):
                rows = encoded(
                    concat(task.combine_chunks().to_batches() or [_empty(task.schema)]),
                    local.layout.inputs[0].rows,
                )
                worker = workers[dice.random() < 0.2]
                found = concat([*worker(iter(rows.slice(n, 5) for n in range(0, 30, 5)))])
                *others, report = found.column(REPORT).to_pylist()
                assert others == [None] * len(others)
                results.append(found.slice(0, len(others)).drop_columns([REPORT]))
                counted = json.loads(report)["counters"]
                assert counted["a.rows"] == len(rows)
                shown["hits"] += counted["hits"]
                if (case.staged_for or case.shards) > 1:
                    shown["hits with several shards"] += counted["hits"]
        return pa.Table.from_batches(results, operator.output)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_any_tasks_give_what_the_oracle_gives(how: str) -> None:
    shown: Counter[str] = Counter()

    @examples(20)
    @drawn(case=runs(how).map(without_waiting))
    def check(case: Run) -> None:
        dice = random.Random(len(case.batches))
        found = answered(case, dice, shown)
        assert_same_rows(found, case.enrichment.expected(case.batches))
        shown["results"] += found.num_rows

    wanted = ("results", "hits", "hits with several shards")
    until_shown(check, lambda: all(shown[name] for name in wanted), f"all of {wanted}")


ORDERS = LocalStream(pa.schema([("key", pa.int64()), ("note", pa.string())]))
RATES = pa.table({"key": pa.array(range(100)), "rate": pa.array(range(100))})


def orders(local: LocalEnrich, notes: list[str]) -> pa.RecordBatch:
    rows = pa.RecordBatch.from_pydict({"key": range(len(notes)), "note": notes})
    return encoded(rows, local.layout.inputs[0].rows)


@pytest.mark.parametrize("gone", ["folder", "table.json"])
def test_a_table_that_is_gone_is_noticed_in_a_worker_that_knows_it(
    tmp_path: Path, gone: str
) -> None:
    # Given a table in several shards, and a worker that has used it,
    local = LocalEnrich("a", ORDERS, RATES, on="key", how="left", shards=4, folder=str(tmp_path))
    cache = SegmentCache(str(tmp_path / "cache"), 1 << 30)
    worker = InPlace(Enrich(local.layout, local.staged), cache, "gone", "answer")
    rows = orders(local, ["x"] * 100)
    found = concat([*worker(iter([rows]))])
    assert found.column("rate").null_count == 1  # that of the report
    # when it is gone, as a whole or in part,
    if gone == "folder":
        shutil.rmtree(local.staged.folder)
    else:
        (Path(local.staged.folder) / gone).unlink()
    # then no row is taken for one without a match.
    with pytest.raises(StagedTableError, match="Call wm.enrich again, and start the query"):
        list(worker(iter([rows])))


def test_wide_rows_are_taken_a_piece_at_a_time(tmp_path: Path) -> None:
    piece = 1 << 20
    local = LocalEnrich(
        "a", ORDERS, RATES, on="key", how="left", folder=str(tmp_path), policy={"piece": piece}
    )
    cache = SegmentCache(str(tmp_path / "cache"), 1 << 30)
    worker = InPlace(Enrich(local.layout, local.staged), cache, "wide", "answer")
    rows = orders(local, ["x" * 100_000] * 100)
    chunks = [rows.nbytes for [rows] in worker._chunks(iter([rows])) if rows is not None]
    assert len(chunks) >= 5
    assert max(chunks) <= piece


def test_a_worker_keeps_what_it_knows_of_a_few_queries_only() -> None:
    in_place._MEMORIES.clear()
    first = in_place._memory_of("0")
    assert in_place._memory_of("0") is first
    for number in range(1, in_place._QUERIES):
        in_place._memory_of(str(number))
    assert in_place._memory_of("0") is first
    in_place._memory_of("another")
    assert "1" not in in_place._MEMORIES
    assert len(in_place._MEMORIES) == in_place._QUERIES


def test_results_leave_in_sparks_own_types(tmp_path: Path) -> None:
    # Given a table with a struct whose field Spark takes for NOT NULL,
    strict = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    table = pa.table({"key": [1], "strict": pa.array([{"a": 1}], strict)})
    local = LocalEnrich("a", ORDERS, table, on="key", how="left", folder=str(tmp_path))
    types = pa.schema([*ORDERS.schema, pa.field("strict", strict), pa.field(REPORT, pa.string())])
    cache = SegmentCache(str(tmp_path / "cache"), 1 << 30)
    worker = InPlace(Enrich(local.layout, local.staged), cache, "types", "answer", types)
    # when a row of the stream has no match, then the struct is null, as is that of the report.
    found = concat([*worker(iter([orders(local, ["x", "y"])]))])
    found.validate(full=True)
    assert found.schema == types
    assert found.column("strict").to_pylist() == [{"a": 1}, None, None]
