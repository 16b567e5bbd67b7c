"""Rows that are answered where they are read: by any task, in any worker, without a JVM here."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import replace
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given as drawn

from tests.conformance.strategies import examples, until_shown
from tests.conformance.ways import spoil_cache
from tests.operators.enrich.enrichment import Run, in_layers, runs
from tests.oracle import assert_same_rows
from watersmeet.operators.enrich.step import Enrich
from watersmeet.rows import output
from watersmeet.rows.columns import concat
from watersmeet.rows.encode import encoded
from watersmeet.spark import in_place
from watersmeet.spark.counters import REPORT
from watersmeet.spark.in_place import InPlace
from watersmeet.spec.enrich import ENRICH_TYPES
from watersmeet.state.cache import SegmentCache


@pytest.fixture(autouse=True)
def unsettled(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is no worker: its garbage is to be collected."""
    monkeypatch.setattr(in_place, "settle", lambda: None)


def without_waiting(case: Run) -> Run:
    further = {**case.enrichment.further, "max_wait": None}
    return replace(case, enrichment=replace(case.enrichment, further=further))


def tasks(dice: random.Random, batch: pa.Table) -> list[pa.Table]:
    """The rows of a micro-batch, as they are dealt to tasks; some of these have none."""
    dealt = [dice.randrange(3) for _ in range(batch.num_rows)]
    return [batch.filter(pa.array([task == n for task in dealt], pa.bool_())) for n in range(3)]


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
        in_place._LEARNED.clear()
        for number, batch in enumerate(case.batches):
            spoil_cache(f"{folder}/cache", case.before.get(number))
            if in_place._LEARNED and dice.random() < 0.1:
                in_place._LEARNED.popitem()
            for task in tasks(dice, batch):
                rows = encoded(
                    concat(task.combine_chunks().to_batches() or [_empty(task.schema)]),
                    local.layout.inputs[0].rows,
                )
                made = list(dice.choice(workers)(iter(rows.slice(n, 5) for n in range(0, 30, 5))))
                *found, report = made
                assert report.column(REPORT).null_count == 0
                assert all(part.column(REPORT).null_count == len(part) for part in found)
                results += [part.drop_columns([REPORT]) for part in found]
        for learned in in_place._LEARNED.values():
            shown["cached"] += any(name.startswith("hot/") for name in learned.store.values)
        return pa.Table.from_batches(results, operator.output)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


@pytest.mark.parametrize("how", ENRICH_TYPES)
def test_any_tasks_give_what_the_oracle_gives(how: str) -> None:
    shown: Counter[str] = Counter()

    @examples(20)
    @drawn(case=runs(how).map(without_waiting))
    def check(case: Run) -> None:
        dice = random.Random(len(case.batches))
        with mock.patch.object(output, "PIECE", case.piece):
            found = answered(case, dice, shown)
        assert_same_rows(found, case.enrichment.expected(case.batches))
        shown["results"] += found.num_rows
        shown["several shards"] += (case.staged_for or case.shards) > 1

    wanted = ("results", "several shards")
    until_shown(check, lambda: all(shown[name] for name in wanted), f"all of {wanted}")


def test_a_worker_keeps_what_it_knows_of_a_few_queries_only() -> None:
    in_place._LEARNED.clear()
    first = in_place._learned("0")
    assert in_place._learned("0") is first
    for number in range(1, in_place._KEPT):
        in_place._learned(str(number))
    assert in_place._learned("0") is first
    in_place._learned("another")
    assert "1" not in in_place._LEARNED
    assert len(in_place._LEARNED) == in_place._KEPT
