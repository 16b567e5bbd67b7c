"""Combinations of rows as positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from watersmeet.rows.output import Sides, satisfying, where
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
LESS = wm.predicate(lambda a, b: pc.less(a["n"], b["n"]), "a", "b")
ROWS = pa.RecordBatch.from_pydict({"#code": [1, 1, 1], "#0": [10, 20, 30]})


def positions(sides: Sides) -> list[list[int]]:
    return [at.tolist() for _, at in sides.values()]


def test_a_mask_chooses_the_same_combinations_of_every_stream() -> None:
    sides = {2: (ROWS, np.array([0, 1, 2])), 0: (ROWS, np.array([2, 2, 0]))}
    assert positions(where(sides, np.array([True, False, True]))) == [[0, 2], [2, 0]]


def test_the_predicate_chooses_combinations(tmp_path: Path) -> None:
    stream = LocalStream(SCHEMA)
    streams = {"a": stream, "b": stream}
    layout = LocalJoin(
        streams, on="k", where=LESS, unbounded=True, folder=str(tmp_path)
    ).join.layout
    sides: Sides = {0: (ROWS, np.array([0, 1, 2])), 1: (ROWS, np.array([1, 1, 1]))}
    assert positions(satisfying(layout, sides)) == [[0], [1]]
    nothing: Sides = {0: (ROWS, np.arange(0)), 1: (ROWS, np.arange(0))}
    assert positions(satisfying(layout, nothing)) == [[], []]
    without = LocalJoin(streams, on="k", unbounded=True, folder=str(tmp_path)).join.layout
    assert satisfying(without, sides) is sides
