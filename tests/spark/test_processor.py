"""What the stateful operator makes of capsules, without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from tests.conformance.join import START
from tests.oracle.compare import multiset
from tests.spark.streams import TIMESTAMP
from watersmeet.rows.route import ByKey
from watersmeet.spark.query.capsule import Pack
from watersmeet.spark.query.exits import ResultExit
from watersmeet.spark.query.processor import Processor
from watersmeet.spark.query.shards import shard_ids
from watersmeet.spec.budget import Budget
from watersmeet.state.cache import SegmentCache
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", TIMESTAMP), ("n", pa.int64())])
SHARDS = 4


def rows(count: int, *, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    micros = int(START.timestamp()) * 1_000_000 + np.sort(random.integers(0, 5_000_000, count))
    times = pa.array(micros).view(TIMESTAMP)
    return pa.table([random.integers(0, 20, count), times, np.arange(count)], schema=SCHEMA)


def joined(folder: Path) -> LocalJoin:
    stream = LocalStream(SCHEMA, time="t", delay="0 seconds")
    budget = Budget(rate=100, overflow="shed")
    streams = {"a": stream, "b": stream}
    return LocalJoin(
        streams, on="k", within="9 seconds", budget=budget, shards=SHARDS, folder=str(folder)
    )


def test_shards_that_tasks_tell_of_all_rows_do_the_same_as_in_one_process(tmp_path: Path) -> None:
    # Given rows of two streams, too many for the budget, and three tasks that pack each of them,
    tables = [rows(3000, seed=0), rows(1000, seed=1)]
    other, ids = joined(tmp_path / "other"), tuple(shard_ids(SHARDS))
    capsules: list[dict[str, Any]] = []
    for position, table in enumerate(tables):
        pack = Pack(position, ByKey(), ids, told=other.join.expects)
        stored = other.encoded(position, table)
        assert stored is not None
        for start in range(0, len(stored), 1000):
            for sent in pack(iter([stored.slice(start, 1000)])):
                capsules += sent.to_pylist()
    # when each shard is stepped with the capsules that are for it, in any order,
    operator, cache = other.join, SegmentCache(str(tmp_path / "cache"), 1 << 30)
    leave = ResultExit(operator.output)
    processor = Processor(operator, leave, cache, ids, streaming=True, timers=True)
    found, shed = [], 0
    for number, shard in enumerate(ids):
        frame = pd.DataFrame([each for each in capsules[::-1] if each["shard"] == shard])
        state, counters = other.run.state(number), operator.counters()
        chunks = processor._chunks(iter([frame]), state)
        found += [*operator.step(chunks, None, state, counters)]
        shed += sum(stream.shed for stream in counters.streams)
    # then they keep to the budget together, and give what shards in one process give.
    local = joined(tmp_path / "local")
    expected = local.batch(a=tables[0], b=tables[1])
    assert 0 < 4000 - shed < 600
    assert multiset(pa.Table.from_batches(found, operator.output)) == multiset(expected)
    assert expected.num_rows > 0
