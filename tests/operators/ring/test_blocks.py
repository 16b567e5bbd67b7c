"""Blocks of pairs: what predicates are given to compare."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from tests.operators.ring.test_step import SCHEMA, joined, rows
from watersmeet.operators.ring import meeting
from watersmeet.operators.ring.block import Strung, Tiled

FEW = [(number % 7, number / 100) for number in range(300)]


def test_a_function_may_keep_what_it_was_given(tmp_path: Path) -> None:
    # Given a function that keeps all pairs that it has seen,
    seen: list[tuple[pa.Table, pa.Table]] = []

    def equal(a: pa.Table, b: pa.Table) -> np.ndarray:
        seen.append((a, b))
        return a["n"].to_numpy() == b["n"].to_numpy()

    # when rows meet in runs, in many blocks,
    strung = mock.Mock(wraps=Strung.blocks)
    with mock.patch.object(meeting, "_OWN", 16_000), mock.patch.object(Strung, "blocks", strung):
        found = joined(tmp_path, where=wm.predicate(equal, "a", "b")).batch(
            a=rows(*FEW), b=rows(*FEW)
        )
    assert strung.call_count == 1
    assert len(seen) > 10
    # then no later block has changed them.
    kept = [pa.concat_tables(side) for side in zip(*seen, strict=True)]
    assert kept[0].num_rows == len(FEW) ** 2
    assert kept[0].schema.names == kept[1].schema.names == SCHEMA.names
    of_each = np.bincount([number for number, _ in FEW])
    same = np.sum(kept[0]["n"].to_numpy() == kept[1]["n"].to_numpy())
    assert same == found.num_rows == np.sum(of_each**2)


def test_wide_values_of_runs_are_repeated_as_a_whole(tmp_path: Path) -> None:
    # Given texts of 3 kB, of which no more than 256 pairs are compared at a time, and windows that
    # cover all rows, or some,
    seen: list[tuple[int, int]] = []

    def same_end(a: pa.Table, b: pa.Table) -> np.ndarray:
        seen.append((len(a), a["n"].num_chunks))
        return np.asarray(pc.equal(_end(a["n"]), _end(b["n"])))

    def _end(texts: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.utf8_slice_codeunits(texts, 2999, 3000)

    schema = pa.schema([("n", pa.string()), SCHEMA.field("t")])
    times = rows(*FEW)["t"]
    texts = [f"{number % 7:03000}" for number in range(300)]
    table = pa.table({"n": texts, "t": times}, schema)
    for within, full in ((100, True), (0.5, False)):
        seen.clear()
        tiled = mock.Mock(wraps=Tiled.blocks)
        with mock.patch.object(Tiled, "blocks", tiled):
            where = wm.predicate(same_end, "a", "b")
            join = joined(tmp_path / str(within), where=where, schema=schema, within=within)
            found = join.batch(a=table, b=table)
        # then they are tiles where rows meet the same run, and the result is right anyway.
        assert bool(tiled.call_count) == full
        pairs = [
            one % 7 == other % 7
            for one in range(300)
            for other in range(300)
            if abs(one - other) <= 100 * within
        ]
        assert found.num_rows == sum(pairs)
        assert sum(count for count, _ in seen) == len(pairs)
        assert max(count for count, _ in seen) <= 256
        assert {chunks for _, chunks in seen} == {1}


def test_columns_with_nulls_or_text_are_gathered(tmp_path: Path) -> None:
    for kind, values in ((pa.int64(), [1, None, 2]), (pa.string(), ["x", "y", "z"])):
        schema = pa.schema([("n", kind), SCHEMA.field("t")])
        times = rows(*FEW)["t"]
        table = pa.table({"n": pa.array(values * 100, kind), "t": times}, schema)

        def equal(a: pa.Table, b: pa.Table) -> pa.Array:
            return pc.equal(a["n"], b["n"])

        where = wm.predicate(equal, "a", "b")
        join = joined(tmp_path / str(kind), where=where, schema=schema)
        known = len(values) - values.count(None)
        assert join.batch(a=table, b=table).num_rows == known * 100 * 100
