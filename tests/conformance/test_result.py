"""The result is the oracle's, whatever the batches, the shards and the mishaps."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from tests.conformance.join import Join, at
from tests.conformance.strategies import INSTANT, Run, examples, limited, runs
from tests.conformance.ways import Way
from tests.oracle import assert_same_rows
from watersmeet.joins.equi.spec import MULTIWAY_NAMES
from watersmeet.rows import encode
from watersmeet.rows.codes import hashed_code
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.testing import LocalStream

pytestmark = pytest.mark.usefixtures("kept")

#: Every join type of two streams, and those of many, of 3, 4 and 6.
JOINS = [
    *((how, "ab") for how in JOIN_NAMES),
    *((how, names) for how in MULTIWAY_NAMES for names in ("abc", "abcd", "abcdef")),
]


@pytest.mark.parametrize(("how", "streams"), JOINS)
def test_any_run_gives_what_the_oracle_gives(way: Way, how: str, streams: str) -> None:
    @examples(40)
    @given(run=runs([how], streams))
    def check(run: Run) -> None:
        with limited(**run.limits):
            outcome = way.run(
                run.join, run.batches, shards=run.shards, before=run.before, cut=run.cut
            )
        assert_same_rows(outcome.result, run.join.expected(run.batches))
        assert outcome.late == run.join.arrivals(run.batches).late_in_batch

    check()


@pytest.mark.parametrize(("how", "names"), [join for join in JOINS if join[1] in ("ab", "abcd")])
def test_keys_that_share_a_code_are_told_apart(
    way: Way, how: str, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given hashed keys that all have one of two codes,
    monkeypatch.setattr(encode, "hashed_code", lambda keys: pc.bit_wise_and(hashed_code(keys), 1))
    dice = np.random.default_rng(7)
    streams = {
        name: LocalStream(
            pa.schema([("k", pa.string()), (f"{name}_t", INSTANT), (f"{name}_n", pa.int64())]),
            time=f"{name}_t",
            delay=timedelta(seconds=5),
        )
        for name in names
    }
    join = Join(streams, on="k", within=timedelta(seconds=4), how=how)
    keys = [*"abcdefgh", None]
    batches = [
        join.batch(
            **{
                name: [(keys[dice.integers(9)], at(s + float(dice.random())), n) for n in range(4)]
                for name in names
            }
        )
        for s in range(12)
    ]
    batches += join.closing()
    # when they are joined, then only equal keys match, and only what has none is unmatched.
    result = way.run(join, batches).result
    assert result.num_rows > 10
    assert_same_rows(result, join.expected(batches))
