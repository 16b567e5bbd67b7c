"""The result is the oracle's, whatever the batches, the shards and the mishaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given as random

import watersmeet as wm
from tests.conformance.join import Condition
from tests.conformance.strategies import examples, until_shown
from tests.joins.enrich.enrichment import LESS, Enrichment, Run, run, runs
from tests.oracle import assert_same_rows
from watersmeet.joins.enrich.spec import ENRICH_NAMES
from watersmeet.rows import encode
from watersmeet.rows.codes import hashed_code
from watersmeet.rows.encode import encoded
from watersmeet.rows.output import Output, Sides
from watersmeet.rows.shard import Shard
from watersmeet.spec.limits import Limits
from watersmeet.testing import LocalStream


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_any_run_gives_what_the_oracle_gives(how: str) -> None:
    shown: Counter[str] = Counter()

    @examples(30)
    @random(case=runs(how))
    def check(case: Run) -> None:
        outcome = run(
            case.enrichment,
            case.batches,
            shards=case.shards,
            before=case.before,
            cuts=case.cuts,
            staged_for=case.staged_for,
        )
        assert_same_rows(outcome.result, case.enrichment.expected(case.batches))
        # No column of the stream is altered: not its type, nor the sign of a zero.
        schema = case.enrichment.stream.schema
        theirs = outcome.result.select(range(len(schema))).rename_columns(schema.names)
        rows = {repr(row) for batch in case.batches for row in batch.to_pylist()}
        assert theirs.schema == schema
        assert {repr(row) for row in theirs.to_pylist()} <= rows
        shown.update(outcome.phases)
        if case.staged_for not in (None, case.shards):
            shown["hits of other shards"] += outcome.total("hits")
        if case.cuts:
            shown["hits in layers"] += outcome.total("hits")
            shown["waited in layers"] += outcome.total("waited")
        for name in ("hits", "waited", "sought", "scanned", "copied", "skipped", "cycles"):
            shown[name] += outcome.total(name)

    wanted: tuple[str, ...] = ("sought", "scanned", "copied", "skipped", "switching", "phase-out")
    wanted += ("hits", "waited", "hits in layers", "waited in layers", "hits of other shards")
    until_shown(check, lambda: all(shown[name] for name in wanted), f"all of {wanted}")


def equal(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.equal(a["n"], b["n"])


EQUAL = Condition("a.n = b.n", wm.predicate(equal, "a", "b", columns={"a": ["n"], "b": ["n"]}))


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_keys_that_share_a_code_are_told_apart(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given hashed keys that all have one of four codes,
    monkeypatch.setattr(encode, "hashed_code", lambda keys: pc.bit_wise_and(hashed_code(keys), 3))
    keys = [f"k{i}" for i in range(40)]
    master = pa.table({"k": keys[:30], "x": [*range(30)]})
    stream = pa.table({"k": [*keys, keys[3], None], "n": [*range(42)]})
    given = Enrichment(
        LocalStream(stream.schema),
        master,
        on="k",
        how=how,
        policy={"resident": 0, "partition": 60, "cache": 1000, "queue": 1},
    )
    # when some of them are cached, then only equal keys match.
    batches = [stream] * 4
    outcome = run(given, batches)
    assert outcome.total("hits") > 0
    assert_same_rows(outcome.result, given.expected(batches))


def test_a_key_with_very_many_master_rows_is_answered_in_pieces(tmp_path: Path) -> None:
    # Given a key with a million master rows, in many partitions, and others around it,
    keys = np.sort(np.concatenate([np.full(1_000_000, 50), np.arange(100)]))
    master = pa.table({"k": keys, "x": np.arange(len(keys))})
    stream = pa.table({"k": [7, 50, 50, 99, 1000], "n": [0, 1, 2, 3, 4]})
    given = Enrichment(
        LocalStream(stream.schema), master, "k", policy={"resident": 0, "partition": 1 << 20}
    )
    local = given.start(str(tmp_path))
    assert len(local.staged.shard(Shard())) > 10
    # when rows of it come, then all results do, a bounded number at a time.
    rows = encoded(stream.to_batches()[0], local.layout.inputs[0].rows)
    results = local.run.step([rows])
    assert sum(map(len, results)) == 2 * 1_000_001 + 2
    assert max(map(len, results)) <= Limits().piece_rows
    found = pa.Table.from_batches(results)
    of_one = found.filter(pc.equal(found["n"], 1))["x"].to_numpy()
    assert np.array_equal(np.sort(of_one), np.flatnonzero(keys == 50))


@pytest.mark.parametrize("how", ["semi", "anti"])
@pytest.mark.parametrize("condition", [None, LESS, EQUAL], ids=["", "of most", "of one"])
def test_rows_that_need_one_match_of_very_many_are_compared_with_few(
    tmp_path: Path, how: str, condition: Condition | None
) -> None:
    # Given a key with a million master rows,
    keys = np.full(1_000_000, 50)
    master = pa.table({"k": keys, "n": np.arange(len(keys))})
    given = Enrichment(
        LocalStream(pa.schema([("k", pa.int64()), ("n", pa.int64())])),
        master,
        "k",
        how=how,
        where=condition,
        policy={"resident": 0, "partition": 1 << 20},
    )
    local = given.start(str(tmp_path))
    # when a thousand rows of it come,
    stream = pa.table({"k": [50] * 1000, "n": [*range(1000)]})
    pairs, pieces = [0], Output.pieces

    def counted(output: Output, sides: Sides, **options: Any) -> Iterator[Sides]:
        pairs[0] += len(sides[0][1]) if 1 in sides else 0
        return pieces(output, sides, **options)

    with mock.patch.object(Output, "pieces", counted):
        found = local.batch(stream)
    # then all are answered, and few of the billion pairs are made.
    assert sorted(found["n"].to_pylist()) == ([*range(1000)] if how == "semi" else [])
    assert pairs[0] <= (1000 if condition is None else 6_000_000)


def test_wide_rows_of_both_sides_are_answered_in_pieces_of_bounded_size(tmp_path: Path) -> None:
    # Given rows of a kilobyte on both sides, of which each meets forty,
    wide = "w" * 1000
    master = pa.table({"k": [1] * 40, "x": [wide] * 40})
    stream = pa.table({"k": [1] * 10, "n": [wide] * 10})
    policy = {"resident": 0, "limits": Limits(piece_bytes=20_000)}
    given = Enrichment(LocalStream(stream.schema), master, "k", policy=policy)
    local = given.start(str(tmp_path))
    rows = encoded(stream.to_batches()[0], local.layout.inputs[0].rows)
    # then no piece of the 800 kB of results exceeds the limit.
    results = local.run.step([rows])
    assert sum(map(len, results)) == 400
    assert max(batch.nbytes for batch in results) <= 20_000
