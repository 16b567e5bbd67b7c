"""Random joins without a key: random predicates, windows, orders and slices, and what happens to
them meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest import mock

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import watersmeet as wm
from tests.conformance.join import Batch, Condition, Join
from tests.conformance.strategies import _LIMITS, INSTANT, PAYLOADS, arrivals
from tests.conformance.ways import Disturbance, disturbed, executed, restarted
from watersmeet.conditions.formula import Formula
from watersmeet.conditions.overlaps import Comparison, Rank
from watersmeet.conditions.predicate import SqlPredicate, input_name
from watersmeet.conditions.terms import Term
from watersmeet.joins.operator import Counters
from watersmeet.testing import LocalBackend, LocalJoin, LocalStream


def _comparing(sql: str, function: Any, *names: str, columns: Sequence[str] | None) -> Condition:
    """A condition over streams; in its SQL they are called {0}, {1} and so on."""
    read = None if columns is None else dict.fromkeys(names, columns)
    return Condition(sql.format(*names), wm.predicate(function, *names, columns=read))


def _near(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.abs(pc.subtract(a["n"], b["n"])), 1)


def _less(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less(a["n"], b["n"])


def _different(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.not_equal(a["n"], b["n"])


def _any(a: pa.Table, b: pa.Table) -> pa.Array:
    return pa.array([True] * len(a))


def _small(a: pa.Table) -> pa.ChunkedArray:
    return pc.less(a["n"], 3)


def _sum(a: pa.Table, b: pa.Table, c: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.add(a["n"], b["n"]), c["n"])


#: Conditions over two streams, and over one and three.
PAIRS = {
    "near": ("abs({0}.n - {1}.n) <= 1", _near),
    "less": ("{0}.n < {1}.n", _less),
    "different": ("{0}.n <> {1}.n", _different),
    "any": ("true", _any),
}


def pair(name: str, one: str, other: str) -> Condition:
    """A condition over two streams; "near" reads all columns, the others one only."""
    sql, function = PAIRS[name]
    return _comparing(sql, function, one, other, columns=None if name == "near" else ["n"])


def small(name: str) -> Condition:
    return _comparing("{0}.n < 3", _small, name, columns=["n"])


def total(*names: str) -> Condition:
    return _comparing("{0}.n + {1}.n <= {2}.n", _sum, *names, columns=["n"])


def _rank(stream: int, column: str, plus: int = 0, *, below: bool = False) -> Rank:
    number = pl.col(input_name(stream, column)) + plus
    return Rank(f"{stream}.{column} + {plus}", stream, (column,), "int", number, below)


def _term(sql: str, one: int, other: int, columns: Sequence[str], holds: pl.Expr) -> Term:
    inputs = tuple((stream, column) for column in columns for stream in (one, other))
    return Term(SqlPredicate(sql, inputs, holds))


def _not_more(one: int, other: int) -> tuple[Term, ...]:
    exact = Comparison(_rank(one, "n"), _rank(other, "n"), exact=True)
    holds = pl.col(input_name(one, "n")) <= pl.col(input_name(other, "n"))
    return (replace(_term("not more", one, other, ["n"], holds), comparisons=(exact,)),)


def less_by_rank(one: int, other: int) -> tuple[Term, ...]:
    exact = Comparison(_rank(one, "n"), _rank(other, "n", below=True), exact=True)
    holds = pl.col(input_name(one, "n")) < pl.col(input_name(other, "n"))
    return (replace(_term("less", one, other, ["n"], holds), comparisons=(exact,)),)


def _near_by(column: str, one: int, other: int) -> Term:
    """What the ranks let through is a little more than the term."""
    apart = pl.col(input_name(one, column)) - pl.col(input_name(other, column))
    wide = (
        Comparison(_rank(one, column), _rank(other, column, plus=2), exact=False),
        Comparison(_rank(other, column), _rank(one, column, plus=2), exact=False),
    )
    term = _term(f"near by {column}", one, other, [column], apart.abs() <= 1)
    return replace(term, comparisons=wide)


def _different_by_formula(one: int, other: int) -> tuple[Term, ...]:
    holds = pl.col(input_name(one, "n")) != pl.col(input_name(other, "n"))
    formula = Formula("<>", ((one, "n"), (other, "n")))
    term = _term("different", one, other, ["n"], holds)
    return (replace(term, predicate=replace(term.predicate, formula=formula)),)


def _small_alone(stream: int) -> Term:
    """A condition over one stream, which is asked of its rows, not of pairs."""
    holds = pl.col(input_name(stream, "n")) < 3
    return Term(SqlPredicate(f"small {stream}", ((stream, "n"),), holds))


def _less_than_small(one: int, other: int) -> tuple[Term, ...]:
    return (*less_by_rank(one, other), _small_alone(other))


def _small_and_different(one: int, other: int) -> tuple[Term, ...]:
    return (_small_alone(one), *_different_by_formula(one, other))


def _far_or_same(one: int, other: int) -> tuple[Term, ...]:
    mine, theirs = (pl.col(input_name(stream, "n")) for stream in (one, other))
    also, too = (pl.col(input_name(stream, "m_n")) for stream in (one, other))
    far = Formula(">", (Formula("-", ((one, "n"), (other, "n"))), 1))
    same = Formula("=", ((one, "m_n"), (other, "m_n")))
    term = _term("far or same", one, other, ["n", "m_n"], (mine - theirs > 1) | (also == too))
    return (replace(term, predicate=replace(term.predicate, formula=Formula("or", (far, same)))),)


#: Conditions over two streams as Spark's translation gives them, by which rows are searched, or
#: which are formulas.
SEARCHED: dict[str, tuple[str, Callable[[int, int], tuple[Term, ...]]]] = {
    "not more": ("{0}.n <= {1}.n", _not_more),
    "less": ("{0}.n < {1}.n", less_by_rank),
    "near": ("abs({0}.n - {1}.n) <= 1", lambda a, b: (_near_by("n", a, b),)),
    "less than a small one": ("{0}.n < {1}.n AND {1}.n < 3", _less_than_small),
    "small and different": ("{0}.n < 3 AND {0}.n <> {1}.n", _small_and_different),
    "different": ("{0}.n <> {1}.n", _different_by_formula),
    "far or same": ("{0}.n - {1}.n > 1 OR {0}.m_n = {1}.m_n", _far_or_same),
    "box": (
        "abs({0}.n - {1}.n) <= 1 AND abs({0}.m_n - {1}.m_n) <= 1",
        lambda a, b: (_near_by("n", a, b), _near_by("m_n", a, b)),
    ),
}


def searched(name: str, names: str, one: str, other: str) -> Condition:
    """A condition over two of the streams, in SQL."""
    sql, terms = SEARCHED[name]
    return Condition(sql.format(one, other), terms=terms(names.index(one), names.index(other)))


@st.composite
def ring_joins(draw: st.DrawFn, how: str, names: str) -> Join:
    """A join of streams of such names, without a key. Rows of many streams match all together only
    if windows are long."""
    lengths = [0, 0.001, 1, 3, 8, 100] if len(names) < 4 else [8, 100]
    seconds = st.sampled_from(lengths).map(lambda s: timedelta(seconds=s))
    within: Any = draw(st.one_of(seconds, st.fixed_dictionaries(dict.fromkeys(names, seconds))))
    if how in ("inner", "semi") and draw(st.integers(0, 5)) == 0:
        within = None
    streams = {}
    for name in names:
        timed = within is not None or draw(st.booleans())
        extra = draw(st.sampled_from(sorted(PAYLOADS)).filter(lambda column: column != "n"))
        numbers = [("n", pa.int64()), ("m_n", pa.int64())]
        columns = [*numbers, (f"{name}_{extra}", PAYLOADS[extra][0])]
        if timed:
            columns.insert(draw(st.integers(0, 2)), (f"{name}_at", INSTANT))
        delay = timedelta(seconds=draw(st.sampled_from([0, 0.0005, 2, 10, 60])))
        streams[name] = LocalStream(
            pa.schema(columns),
            time=f"{name}_at" if timed else None,
            delay=delay if timed else None,
            watermarked=timed and draw(st.booleans()),
        )
    further: dict[str, Any] = {}
    if len(names) > 2:
        further["order"] = draw(st.permutations(names))
    where = draw(_conditions(names))
    return Join(streams, on=(), within=within, how=how, where=where, further=further)


@st.composite
def _conditions(draw: st.DrawFn, names: str) -> tuple[Condition, ...]:
    """A condition for most neighbours, and some others, in any order; in SQL, in Python, or some
    in each. Of many streams, all neighbours have one, and only one of these is strict: few values
    ascend no further."""
    in_python, in_sql = sorted(PAIRS), sorted(SEARCHED)
    if len(names) > 3:
        in_python, in_sql = ["different", "near"], ["near", "not more"]
    of_sql = draw(st.sampled_from([0, 5, 10]))
    chosen = []
    for place, two in enumerate(itertools.pairwise(draw(st.permutations(names)))):
        if len(names) < 4 and not draw(st.integers(0, 4)):
            continue
        strict = ["box", "less"] if len(names) > 3 and place == 0 else []
        one, other = draw(st.permutations(two))
        if draw(st.integers(1, 10)) <= of_sql:
            chosen.append(searched(draw(st.sampled_from([*in_sql, *strict])), names, one, other))
        else:
            chosen.append(pair(draw(st.sampled_from([*in_python, *strict[1:]])), one, other))
    seldom = st.booleans() if len(names) < 4 else st.sampled_from([False, False, True])
    if of_sql < 10 and draw(seldom):
        chosen.append(small(draw(st.sampled_from(names))))
    if of_sql < 10 and len(names) > 2 and draw(seldom):
        chosen.append(total(*draw(st.permutations(names))[:3]))
    return tuple(draw(st.permutations(chosen or [pair("any", names[0], names[1])])))


@dataclass(frozen=True)
class RingRun:
    """A join, the batches it gets, and what happens to it meanwhile: before a batch, a
    disturbance, or a restart with another number of slices."""

    join: Join
    batches: list[Batch]
    shards: int
    cut: int | None
    before: Mapping[int, Disturbance]
    slices: Mapping[int, int]
    limits: dict[str, int]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        join = self.join
        lines = [f"{join.how} within {join.within} where {[c.sql for c in join.conditions]}"]
        lines += [f"{join.further}, slices {self.slices}, cut {self.cut}"]
        for name, stream in join.streams.items():
            lines.append(
                f"{name}: {stream.schema.names}, delay {stream.delay}, own {stream.watermarked}"
            )
        for number, batch in enumerate(self.batches):
            rows = {n: [tuple(row.values()) for row in t.to_pylist()] for n, t in batch.items()}
            lines.append(f"{number}: {self.before.get(number, '')} {rows}")
        printer.text("\n".join([*lines, f"{self.shards} shards, {self.limits}"]))


@st.composite
def ring_runs(draw: st.DrawFn, how: str, names: str) -> RingRun:
    """A join without a key, and its batches."""
    join = draw(ring_joins(how, names))
    batches = draw(arrivals(join, {2: 6, 3: 5}.get(len(names), 4)))
    shards = draw(st.integers(1, 4))
    number = st.integers(0, len(batches) - 1)
    formula_pairs = draw(st.sampled_from([1, 7]))
    return RingRun(
        join=join,
        batches=batches,
        shards=shards,
        cut=draw(st.none() | st.integers(0, 1000)),
        before=draw(st.dictionaries(number, st.sampled_from(Disturbance), max_size=4)),
        slices=draw(st.dictionaries(number, st.integers(1, shards), max_size=3)),
        limits=draw(_LIMITS)
        | {
            "long_run": draw(st.sampled_from([0, 2, 128])),
            "formula_pairs": formula_pairs,
            "least_formula_pairs": formula_pairs,
        },
    )


#: Rows as text, and how many there are of each content.
Contents = Counter[str]


def contents(rows: pa.Table) -> Contents:
    return Counter(map(str, rows.to_pylist()))


def stored_rows(local: LocalJoin, streams: Mapping[str, LocalStream]) -> dict[str, list[Contents]]:
    """What all shards of all hops store of each stream, segment by segment, as the user's rows."""
    found: dict[str, list[Contents]] = {name: [] for name in streams}
    for run in local.runs:
        hop: Any = run.operator
        for number, stream in itertools.product(range(len(run.stores)), hop.hop.holds):
            given, window = hop.layout.streams[stream], run.state(number).slice_of(stream)
            names = streams[given.name].schema.names
            for entry in window.entries:
                rows = window.open(entry).rows.select([given.rows.stored[name] for name in names])
                found[given.name].append(contents(rows.rename_columns(names)))
    counts = [sum(map(Counter.total, segments)) for segments in found.values()]
    assert local.state_rows() == counts
    return found


@dataclass(frozen=True)
class RingOutcome:
    """What came out: a table for each batch and one for the end, the late rows by batch and
    stream, all that was counted, of an inner join the rows of each stream that were
    stored after each batch, by segment, and how many were unproven before the end."""

    results: list[pa.Table]
    late: list[dict[str, int]]
    counters: list[Counters]
    stored: list[dict[str, list[Contents]]]
    unproven: int

    @property
    def result(self) -> pa.Table:
        return pa.concat_tables(self.results)


def translated(join: Join) -> contextlib.AbstractContextManager[object]:
    """Conditions in SQL are translated, as Spark would."""
    terms = {each.sql: each.terms for each in join.conditions if each.terms}
    return mock.patch.object(LocalBackend, "translate", lambda _, sql: terms[sql])


def run_ring(run: RingRun) -> RingOutcome:
    """Run a join without a key, and let time end."""
    with translated(run.join):
        return _run_ring(run)


def _run_ring(run: RingRun) -> RingOutcome:
    join, options = run.join, run.join.options
    results, late, counters, stored = [], [], [], []
    most = 1
    with tempfile.TemporaryDirectory() as folder:
        local = LocalJoin(join.streams, shards=run.shards, folder=folder, **options)
        dice = None if run.cut is None else random.Random(run.cut)
        if 0 not in run.slices:
            most = run.shards
        for number, batch in enumerate(run.batches):
            if number in run.slices:
                most = max(most, run.slices[number])
                tuned = {**join.further, "slices": run.slices[number], "draining": most}
                join = replace(join, further=tuned)
                local = restarted(local, join)
            disturbance = run.before.get(number)
            local = disturbed(local, join, batch, disturbance)
            results.append(executed(local, join, batch, disturbance, dice))
            counters.append(local.counters)
            names = zip(join.streams, local.counters.streams, strict=True)
            late.append({name: count.late for name, count in names})
            # Of a semi or anti join, rows may be gone, and lack columns.
            stored.append(stored_rows(local, join.streams) if join.how == "inner" else {})
        unproven = sum(local.unproven())
        results.append(local.finish())
        assert sum(local.state_rows()) == 0 or join.within is None
    return RingOutcome(results, late, counters, stored, unproven)
