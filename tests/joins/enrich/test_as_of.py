"""Joins as of a time: each row matches the version of its key that is valid at its time."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given as randomly
from hypothesis import strategies as st

from tests.conformance.join import Condition, at, table
from tests.conformance.strategies import INSTANT, examples, until_shown
from tests.conformance.ways import Disturbance
from tests.joins.enrich.enrichment import LESS, UNHURRIED, Enrichment, run
from tests.oracle.compare import multiset
from watersmeet.joins.enrich.spec import ENRICH_NAMES
from watersmeet.rows import encode
from watersmeet.rows.codes import hashed_code
from watersmeet.rows.shard import Shard
from watersmeet.testing import LocalStream


def schemas(key: pa.DataType) -> tuple[pa.Schema, pa.Schema]:
    return (
        pa.schema([("k", key), ("n", pa.int64()), ("t", INSTANT)]),
        pa.schema([("k", key), ("since", INSTANT), ("n", pa.int64())]),
    )


def as_of(stream: pa.Schema, master: pa.Table, how: str, **further: Any) -> Enrichment:
    where: Condition | None = further.pop("where", None)
    policy = further.pop("policy", {})
    return Enrichment(
        LocalStream(stream, time="t", delay=timedelta(seconds=5)),
        master,
        on="k",
        how=how,
        where=where,
        policy=policy,
        further={"as_of": "since", **further},
    )


def expected(given: Enrichment, rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Row by row, as one would say it."""
    versions = given.master.to_pylist()
    results: Counter[tuple[Any, ...]] = Counter()
    for row in rows:
        valid = [
            version
            for version in versions
            if None not in (row["k"], row["t"], version["since"])
            and version["k"] == row["k"]
            and version["since"] <= row["t"]
        ]
        newest = max(valid, key=lambda version: version["since"], default=None)
        if newest is not None and given.where is not None:
            compared = row["n"], newest["n"]
            if None in compared or not compared[0] < compared[1]:
                newest = None
        mine = (row["k"], row["n"], row["t"])
        if given.how in ("semi", "anti"):
            results[mine] += (newest is not None) == (given.how == "semi")
        elif newest is not None:
            results[(*mine, newest["since"], newest["n"])] += 1
        elif given.how == "left":
            results[(*mine, None, None)] += 1
    return +results


@pytest.mark.parametrize("key", [pa.int64(), pa.string()], ids=str)
@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_any_run_gives_the_valid_versions(
    how: str, key: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: Counter[str] = Counter()
    # Hashed keys often share a code here.
    monkeypatch.setattr(encode, "hashed_code", lambda keys: pc.bit_wise_and(hashed_code(keys), 3))

    @examples(15)
    @randomly(seed=st.integers(0, 2**32), shards=st.integers(1, 2))
    def check(seed: int, shards: int) -> None:
        dice = random.Random(seed)
        stream, versions = schemas(key)
        names = [*range(12)] if key == pa.int64() else [f"key {i}" for i in range(12)]
        # No two versions of a key begin at the same time.
        begun = {(dice.choice(names), dice.randrange(-5, 60)) for _ in range(70)}
        drawn: list[tuple[Any, ...]] = [
            (name, at(second), dice.randrange(5)) for name, second in begun
        ]
        drawn += [(names[0], None, 1), (None, at(0), 1)]
        master = table(versions, drawn)
        policy = {
            "resident": 0,
            "queue": dice.choice([1, 1 << 20, 1 << 20]),
            "cache": 1000,
            **UNHURRIED,
        }
        given = as_of(
            stream,
            master,
            how,
            where=LESS if dice.random() < 0.3 else None,
            policy=policy | {"partition": dice.choice([1, 100, 1000])},
            max_wait=dice.choice([None, "3 batches", "3 batches"]),
        )
        batches = [
            table(
                stream,
                [
                    (
                        names[min(dice.randrange(14), dice.randrange(14)) % 12],
                        dice.randrange(5),
                        None if dice.random() < 0.05 else at(number * 4 + dice.randrange(-8, 8)),
                    )
                    for _ in range(dice.randrange(20))
                ],
            )
            for number in range(10)
        ]
        before = {dice.randrange(1, 10): dice.choice([*Disturbance])}
        outcome = run(given, batches, shards=shards, before=before)
        rows = pa.concat_tables(batches).to_pylist()
        assert multiset(outcome.result) == expected(given, rows)
        shown.update({name: outcome.total(name) for name in ("hits", "waited")})

    until_shown(check, lambda: bool(shown["hits"] and shown["waited"]), "hits and waits")


def test_the_newest_version_that_is_not_newer(tmp_path: Path) -> None:
    stream, versions = schemas(pa.int64())
    prices = table(versions, [(1, at(0), 10), (1, at(20), 12), (1, at(10), 11), (2, at(5), 99)])
    local = as_of(stream, prices, "left").start(str(tmp_path))
    seconds = [-1, 0, 9, 10, 19.999999, 20, 1000]
    found = local.batch(table(stream, [(1, 0, at(second)) for second in seconds]))
    assert found.sort_by("t")["b_n"].to_pylist() == [None, 10, 10, 11, 11, 12, 12]


def test_very_many_versions_of_a_key_cost_one_result(tmp_path: Path) -> None:
    stream, versions = schemas(pa.int64())
    count = 200_000
    times = pa.array(range(count), pa.int64()).view(INSTANT)
    prices = pa.table({"k": [1] * count, "since": times, "n": [*range(count)]}, versions)
    policy = {"partition": 1 << 19, "resident": 0}
    local = as_of(stream, prices, "inner", policy=policy).start(str(tmp_path))
    assert len(local.staged.shard(Shard())) > 5
    wanted = pa.array([5, 100_000, 199_999, 10**9], pa.int64())
    rows = pa.table({"k": [1] * 4, "n": [0] * 4, "t": wanted.view(INSTANT)}, stream)
    found = local.batch(rows).sort_by("t")
    assert found["b_n"].to_pylist() == [5, 100_000, 199_999, 199_999]
