"""Scan or seek: what has cost more may cost less later, and that is found out."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from tests.joins.enrich.enrichment import Enrichment
from watersmeet.cost.disk_phase import Reading
from watersmeet.joins.enrich.reader import PartitionReader
from watersmeet.joins.enrich.spec import EnrichTuning
from watersmeet.rows.shard import Shard
from watersmeet.testing import LocalEnrich, LocalStream

MASTER = pa.table({"k": [*range(200)], "x": [*range(200)]})
STREAM = pa.table({"k": [*range(0, 200, 3)]})


def started(folder: Path) -> LocalEnrich:
    policy = {"resident": 0, "partition": 400, "cache": 0, "queue": 1}
    further = {"tuning": EnrichTuning(cache=False)}
    stream = LocalStream(STREAM.schema)
    return Enrichment(stream, MASTER, "k", policy=policy, further=further).start(str(folder))


@pytest.mark.parametrize(
    ("costs", "name"),
    [
        (Reading(seek=100.0, hit=100.0, read=10.0), "sought"),
        (Reading(seek=100_000.0, hit=100.0, read=1.0), "scanned"),
    ],
)
def test_the_way_that_has_become_cheaper_is_found(
    tmp_path: Path, costs: Reading, name: str
) -> None:
    local = started(tmp_path)
    # Given what reading costs from now on, and estimates that say the opposite,
    before = Reading(seek=5000.0, hit=100.0, read=1.0)
    if name == "scanned":
        before = Reading(seek=100.0, hit=100.0, read=10.0)

    def measure(self: PartitionReader, number: int, keys: int, scanning: int, finding: int) -> None:
        state, size = self._state, int(self._table.bytes[number])
        if scanning:
            self._counters.scanned += 1
            assert costs.read is not None
            assert costs.hit is not None
            state.reading = state.reading.scanned(keys, size, size * costs.read, keys * costs.hit)
        else:
            self._counters.sought += 1
            assert costs.seek is not None
            state.reading = state.reading.sought(keys, keys * costs.seek)

    with mock.patch.object(PartitionReader, "_measure", measure):
        local.batch(STREAM)
        state = local.run.state(0)
        state.reading = before
        state.commit()
        ways = []
        for _ in range(60):
            local.batch(STREAM)
            ways.append(getattr(local.counters, name) / len(local.staged.shard(Shard())))
    # then most partitions are read in the cheaper way in the end, and some are explored;
    assert ways[0] < 0.5
    assert np.mean(ways[-10:]) > 0.9
    # and the metrics say what they cost.
    counters, measured = local.counters, local.run.state(0).reading
    assert counters.seek_ns == pytest.approx(measured.seek, abs=1)
    assert counters.find_ns == pytest.approx(measured.hit, abs=1)
    assert counters.read_us == pytest.approx(1000 * measured.read, abs=1)
