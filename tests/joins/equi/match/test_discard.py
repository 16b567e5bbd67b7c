"""A row that is discarded without a match is proven unmatched, and is emitted once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import at, table
from tests.conformance.strategies import INSTANT
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.match.discard import discard
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64())])
STREAM = LocalStream(SCHEMA, time="t", delay="1 hour")


def stored(folder: Path, how: str) -> tuple[StepContext, LocalJoin]:
    """Four rows of ``a``, a second after the other, the first of which has matched."""
    join = LocalJoin(
        {"a": STREAM, "b": STREAM}, on="k", within="1 hour", how=how, folder=str(folder)
    )
    rows = table(SCHEMA, [(key, at(key), key) for key in range(4)])
    join.batch(a=rows, b=rows.slice(0, 1))
    layout = join.join.layout
    return StepContext(layout, join.run.state(0), EquiCounters.zero(2)), join


@pytest.mark.parametrize(("how", "emitted"), [("inner", []), ("left", [1, 2])])
def test_of_a_preserved_stream_the_unmatched_ones_are_emitted(
    tmp_path: Path, how: str, emitted: list[int]
) -> None:
    context, _ = stored(tmp_path, how)
    window = context.state.windows[0]
    [entry] = window.entries
    for _ in range(2):  # the second time they are gone already
        results = discard(context, 0, entry, np.array([0, 1, 2]))
        assert [n for batch in results for n in batch.column("a_n").to_pylist()] == emitted
        emitted = []
    assert context.counters.streams[0].purged == 3
    assert window.rows == 1


def test_an_expired_row_was_emitted_before(tmp_path: Path) -> None:
    context, _ = stored(tmp_path, "left")
    context.state.windows[0].stored.useless_until = int(at(1).timestamp() * 1e6)
    [entry] = context.state.windows[0].entries
    results = discard(context, 0, entry, np.array([1, 2]))
    assert [n for batch in results for n in batch.column("a_n").to_pylist()] == [2]
