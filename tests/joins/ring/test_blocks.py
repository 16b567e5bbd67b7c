"""Blocks of pairs: what predicates are given to compare."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm
from tests.joins.ring.test_step import SCHEMA, joined, rows
from tests.limits import with_limits
from tests.oracle import Stream, assert_same_rows, sql_join
from watersmeet.conditions.formula import Formula
from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.conditions.terms import Term
from watersmeet.joins.ring.search import blocks
from watersmeet.joins.ring.search.blocks import TileBlock
from watersmeet.joins.ring.search.number_blocks import FormulaRuns, NumberBlock
from watersmeet.testing import LocalBackend

FEW = [(number % 7, number / 100) for number in range(300)]


def test_a_function_may_keep_what_it_was_given(tmp_path: Path) -> None:
    # Given a function that keeps all pairs that it has seen,
    seen: list[tuple[pa.Table, pa.Table]] = []

    def equal(a: pa.Table, b: pa.Table) -> np.ndarray:
        seen.append((a, b))
        return a["n"].to_numpy() == b["n"].to_numpy()

    # when rows meet in runs, in many blocks,
    strung = mock.Mock(wraps=NumberBlock.blocks)
    with (
        mock.patch.object(blocks, "_OWN", 16_000),
        mock.patch.object(NumberBlock, "blocks", strung),
    ):
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
        tiled = mock.Mock(wraps=TileBlock.blocks)
        with mock.patch.object(TileBlock, "blocks", tiled):
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
    columns: list[tuple[pa.DataType, list[Any]]] = [
        (pa.int64(), [1, None, 2]),
        (pa.string(), ["x", "y", "z"]),
    ]
    for kind, values in columns:
        schema = pa.schema([("n", kind), SCHEMA.field("t")])
        times = rows(*FEW)["t"]
        table = pa.table({"n": pa.array(values * 100, kind), "t": times}, schema)

        def equal(a: pa.Table, b: pa.Table) -> pa.Array:
            return pc.equal(a["n"], b["n"])

        where = wm.predicate(equal, "a", "b")
        join = joined(tmp_path / str(kind), where=where, schema=schema)
        known = len(values) - values.count(None)
        assert join.batch(a=table, b=table).num_rows == known * 100 * 100


X, Y = (0, "n"), (1, "n")
PRODUCT = SqlPredicate(
    "a.n * b.n > 2",
    (X, Y),
    pl.col("0.n") * pl.col("1.n") > 2.0,
    Formula(">", (Formula("*", (X, Y)), 2.0)),
)
NEAR = SqlPredicate(
    "abs(a.n - b.n) < 3 OR b.n > 1",
    (X, Y),
    ((pl.col("0.n") - pl.col("1.n")).abs() < 3.0) | (pl.col("1.n") > 1.0),
    Formula(
        "or",
        (Formula("<", (Formula("abs", (Formula("-", (X, Y)),)), 3.0)), Formula(">", (Y, 1.0))),
    ),
)


OF_A = SqlPredicate("a.n > 1", (X,), pl.col("0.n") > 1.0, Formula(">", (X, 1.0)))
OF_B = SqlPredicate("b.n > 1", (Y,), pl.col("1.n") > 1.0, Formula(">", (Y, 1.0)))


def crossed_pairs(
    tmp_path: Path,
    predicates: list[SqlPredicate],
    tables: tuple[pa.Table, pa.Table],
    within: float = 100,
) -> tuple[int, list[str]]:
    """How often rows were crossed, and the pairs that match."""
    terms = tuple(map(Term, predicates))
    crossed = mock.Mock(side_effect=FormulaRuns.blocks)
    with (
        mock.patch.object(LocalBackend, "translate", return_value=terms),
        mock.patch.object(FormulaRuns, "blocks", lambda *given: crossed(*given)),
        with_limits(formula_pairs=1000, least_formula_pairs=100),
    ):
        join = joined(tmp_path, where="...", schema=tables[0].schema, within=within)
        result = join.batch(a=tables[0], b=tables[1])
    pairs = zip(*(result[column].to_pylist() for column in ("a_n", "b_n")), strict=True)
    return crossed.call_count, sorted(map(str, pairs))


@pytest.mark.parametrize(
    "predicates",
    [[PRODUCT], [PRODUCT, NEAR], [OF_A], [OF_B], [OF_A, PRODUCT, OF_B]],
    ids=lambda predicates: " AND ".join(each.text for each in predicates),
)
@pytest.mark.parametrize("odd", [[], [math.nan], [math.inf, -math.inf], [1e200]], ids=str)
@pytest.mark.parametrize("within", [100, 0.5])
def test_formulas_of_doubles_are_crossed_where_all_is_finite(
    tmp_path: Path, predicates: list[SqlPredicate], odd: list[float], within: float
) -> None:
    # Given conditions in SQL that are formulas, and numbers of which some may be odd,
    schema = pa.schema([("n", pa.float64()), SCHEMA.field("t")])
    generator = np.random.default_rng(5)

    def table() -> pa.Table:
        numbers = np.concatenate([odd, generator.normal(0, 2, len(FEW) - len(odd))])
        return pa.table({"n": generator.permutation(numbers), "t": rows(*FEW)["t"]}, schema)

    tables = table(), table()
    # when many rows meet the same run, and products are finite, then they are crossed (a condition
    # over one stream is asked of its rows before, and leaves few of them),
    crossed, pairs = crossed_pairs(tmp_path, predicates, tables, within)
    many = OF_A not in predicates and OF_B not in predicates
    assert bool(crossed) == (many and odd != [1e200] and within == 100)
    # and what matches is what Polars says.
    plain = [replace(predicate, formula=None) for predicate in predicates]
    assert crossed_pairs(tmp_path, plain, tables, within) == (0, pairs)
    assert len(pairs) > 100


@pytest.mark.parametrize(("largest", "fits"), [(1_000, True), (46_341, False)])
def test_formulas_of_whole_numbers_are_crossed_where_nothing_overflows(
    tmp_path: Path, largest: int, fits: bool
) -> None:
    # Given a product of ints, the largest of which may be more than an int,
    number = pl.col("0.n").cast(pl.Int64) * pl.col("1.n").cast(pl.Int64)
    is_int = number.is_between(-(2**31), 2**31 - 1)
    product = SqlPredicate(
        "a.n * b.n > 2",
        (X, Y),
        pl.when(is_int).then(number > 2),
        Formula(">", (Formula("*", (X, Y), most=2**31 - 1), 2)),
    )
    schema = pa.schema([("n", pa.int32()), SCHEMA.field("t")])
    numbers = np.append(np.random.default_rng(6).integers(-9, 9, len(FEW) - 1), largest)
    table = pa.table({"n": pa.array(numbers, pa.int32()), "t": rows(*FEW)["t"]}, schema)
    # when rows meet, then they are crossed if that is not so,
    crossed, pairs = crossed_pairs(tmp_path, [product], (table, table))
    assert bool(crossed) == fits
    # and what overflows does not match.
    assert (str((largest, largest)) in pairs) == fits
    assert crossed_pairs(tmp_path, [replace(product, formula=None)], (table, table)) == (0, pairs)


DIFFERENT = SqlPredicate(
    "a.n <> b.n", (X, Y), pl.col("0.n") != pl.col("1.n"), Formula("<>", (X, Y))
)
MINUS = SqlPredicate(
    "a.n - b.n > 1",
    (X, Y),
    pl.col("0.n") - pl.col("1.n") > 1.0,
    Formula(">", (Formula("-", (X, Y)), 1.0)),
)
ODD = [None, math.nan, math.inf, -math.inf, -0.0, 0.0]


def doubles(seed: int, start: float = 0) -> pa.Table:
    """Numbers, some of which are odd, all within a second."""
    numbers = np.random.default_rng(seed).normal(0, 1.5, 80).round(1).tolist()
    numbers[7::13] = ODD
    times = rows(*((0, start + place / 100) for place in range(80)))["t"]
    schema = pa.schema([("n", pa.float64()), SCHEMA.field("t")])
    return pa.table({"n": numbers, "t": times}, schema)


@pytest.mark.parametrize("how", ["inner", "left", "right", "semi", "anti"])
@pytest.mark.parametrize(
    "predicates",
    [[PRODUCT], [NEAR], [DIFFERENT], [MINUS], [DIFFERENT, MINUS], [OF_A], [OF_A, DIFFERENT]],
    ids=lambda predicates: " AND ".join(each.text for each in predicates),
)
def test_odd_numbers_match_as_the_oracle_says(
    tmp_path: Path, how: str, predicates: list[SqlPredicate]
) -> None:
    # Given nulls, NaN, infinities and zeros of both signs in a twelfth of the rows, each
    batches = [{"a": doubles(1), "b": doubles(2)}, {"b": doubles(3, 1)}, {"a": doubles(4, 2)}]
    where = " AND ".join(f"({each.text})" for each in predicates)
    crossed = mock.Mock(side_effect=FormulaRuns.blocks)
    with (
        mock.patch.object(LocalBackend, "translate", return_value=tuple(map(Term, predicates))),
        mock.patch.object(FormulaRuns, "blocks", lambda *given: crossed(*given)),
        with_limits(formula_pairs=300, least_formula_pairs=20, long_run=1),
    ):
        # when some of them come later than others,
        join = joined(tmp_path, where=where, schema=batches[0]["a"].schema, how=how)
        results = [join.batch(**batch) for batch in batches]
        results.append(join.finish())
    # then they are crossed, if a condition compares them, and what matches is what DuckDB says, to
    # which NaN is the same as NaN and greater than all else, too.
    assert bool(crossed.call_count) == (predicates != [OF_A])
    sides = {
        name: Stream(
            pa.concat_tables([batch[name] for batch in batches if name in batch]),
            [],
            "t",
            100_000_000,
        )
        for name in "ab"
    }
    assert_same_rows(pa.concat_tables(results), sql_join(sides, how=how, where=where))


def test_a_limit_of_matches_holds_where_rows_are_crossed(tmp_path: Path) -> None:
    # Given rows of b, some of which match more than 9 rows of a, and some fewer,
    def run(predicate: SqlPredicate, name: str) -> tuple[pa.Table, int, int]:
        with (
            mock.patch.object(LocalBackend, "translate", return_value=(Term(predicate),)),
            with_limits(formula_pairs=300, least_formula_pairs=20),
        ):
            budget = wm.Budget(fanout=9, overflow="shed")
            schema = doubles(1).schema
            join = joined(tmp_path / name, where="...", schema=schema, budget=budget)
            join.batch(a=doubles(1))
            join.batch(a=doubles(2))
            result = join.batch(b=doubles(3))
            return result, join.counters.capped, join.counters.largest.fanout

    far = replace(PRODUCT, text="a.n * b.n > 4", expression=pl.col("0.n") * pl.col("1.n") > 4.0)
    crossed = run(replace(far, formula=Formula(">", (Formula("*", (X, Y)), 4.0))), "crossed")
    gathered = run(replace(far, formula=None), "gathered")
    # when they are crossed, then as many matches of each are left out as otherwise.
    counts = [Counter(map(str, each[0]["b_n"].to_pylist())) for each in (crossed, gathered)]
    assert counts[0] == counts[1]
    assert crossed[1:] == gathered[1:]
    assert min(counts[0].values()) < max(counts[0].values())
    assert crossed[1] > 0
