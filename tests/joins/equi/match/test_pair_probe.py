"""Rows of one of two streams probe stored segments of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conformance.join import at, table
from tests.conformance.strategies import INSTANT
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.match.pairs import PairProbe
from watersmeet.segments.segment import Segment
from watersmeet.spec.limits import Limits
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64())])


def rows(*values: tuple[int, float]) -> pa.Table:
    """Rows of keys and seconds, numbered."""
    return table(SCHEMA, [(key, at(second), n) for n, (key, second) in enumerate(values)])


def stored(folder: Path, how: str, a: pa.Table, **promises: Any) -> tuple[LocalJoin, StepContext]:
    """A join that holds rows of ``a``."""
    stream: dict[str, Any] = {"time": "t", "delay": "1 hour"}
    streams = {"a": LocalStream(SCHEMA, **stream, **promises), "b": LocalStream(SCHEMA, **stream)}
    join = LocalJoin(streams, on="k", within="10 seconds", how=how, folder=str(folder))
    join.batch(a=a)
    layout = join.join.layout
    return join, StepContext(layout, join.run.state(0), EquiCounters.zero(2))


def fresh(join: LocalJoin, b: pa.Table) -> Segment:
    batch = join.encoded(1, b)
    assert batch is not None
    return Segment.of(batch)


def test_segments_that_are_too_far_away_in_time_are_not_probed(tmp_path: Path) -> None:
    join, context = stored(tmp_path, "inner", rows((1, 0), (1, 5)))
    probe = PairProbe(context)
    for second, found in ((-11, 0), (-10, 1), (15, 1), (16, 0)):
        new = fresh(join, rows((1, second)))
        assert len(probe.overlapping(1, new)) == found


@pytest.mark.parametrize("unique", [False, True])
def test_it_says_which_rows_have_matched_and_which_have_found_their_only_match(
    tmp_path: Path, unique: bool
) -> None:
    join, context = stored(tmp_path, "inner", rows((1, 0), (2, 0)), unique=unique)
    new = fresh(join, rows((2, 1), (3, 1), (1, 11)))
    matched, only_match = (np.zeros(3, dtype=np.bool_) for _ in range(2))
    entries = context.state.windows[0].entries
    results = PairProbe(context).results(1, new, entries, matched, only_match)
    assert [row["k"] for batch in results for row in batch.to_pylist()] == [2]
    assert matched.tolist() == [True, False, False]
    assert only_match.tolist() == [unique, False, False]
    assert context.counters.probes == 3


@pytest.mark.parametrize(
    ("how", "emitted", "marked", "left"),
    [("inner", 2, 0, 2), ("left", 2, 1, 2), ("semi", 1, 0, 1), ("anti", 0, 0, 1)],
)
def test_a_stored_row_that_matches_is_kept_marked_or_discarded(
    tmp_path: Path, how: str, emitted: int, marked: int, left: int
) -> None:
    join, context = stored(tmp_path, how, rows((1, 0), (2, 0)))
    new = fresh(join, rows((1, 1), (1, 2)))
    [entry] = context.state.windows[0].entries
    flags = (np.zeros(2, dtype=np.bool_) for _ in range(2))
    results = list(PairProbe(context).results(1, new, [entry], *flags))
    assert sum(map(len, results)) == emitted
    assert (entry.marked, context.state.windows[0].rows) == (marked, left)


def test_a_row_that_leaves_with_one_piece_of_its_matches_is_not_in_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given pieces that are cut twice: three pairs at a time, and each is too wide for two,
    monkeypatch.setattr(LocalJoin, "limits", Limits(piece_bytes=48))
    join, _ = stored(tmp_path, "semi", rows((1, 0)))
    # when a stored row finds three matches at once,
    found = join.batch(b=rows((1, 1), (1, 2), (1, 3)))
    # then it is emitted once.
    assert found.column("n").to_pylist() == [0]
