"""What the guide says may change at a restart, changed at random, again and again.

An *epoch* is what a join is called with between two restarts. A combination is tried in the epoch
in which its last row arrives; if that one may defer probes, perhaps in a later one. So a
combination *must* come if it fits in all epochs that count for it, and it *may* come if it fits in
one of those in which it may be tried. Mostly that is the same. Where it is not, a window has become
longer after rows may have left, or a probe was deferred over a change.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.conformance.join import Batch, Condition, at, micros, table
from tests.conformance.strategies import INSTANT, LESS, examples, limited, until_shown
from tests.oracle import Stream, assert_same_rows, split_late, sql_join
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.tuning import DRIVERS, INDEXES, INVALIDATIONS
from watersmeet.spec.windowed import GOALS
from watersmeet.testing import LocalJoin, LocalStream

#: A row knows its number, and the epoch in which it came.
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("t", INSTANT),
        ("n", pa.int64()),
        ("row", pa.int64()),
        ("epoch", pa.int64()),
    ]
)
READS = {"a": ["n"], "b": ["n"]}


def even(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.equal(pc.bit_wise_and(pc.add(a["n"], b["n"]), 1), 0)


def not_less(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.greater_equal(a["n"], b["n"])


CONDITIONS = [
    LESS,
    Condition("a.n >= b.n", wm.predicate(not_less, "a", "b", columns=READS)),
    Condition("(a.n + b.n) % 2 = 0", wm.predicate(even, "a", "b", columns=READS)),
]


@dataclass(frozen=True)
class Epoch:
    """What may change: the windows and delays by stream, the condition, and further arguments;
    and the batches that the join gets then, each with keys, times and values by stream."""

    windows: dict[str, timedelta]
    delays: dict[str, timedelta]
    where: Condition | None
    options: dict[str, Any]
    expected: dict[str, Any]
    batches: list[dict[str, list[tuple[Any, ...]]]] = field(default_factory=list)

    @property
    def sheds(self) -> bool:
        budget = self.options["budget"]
        return budget is not None and budget.overflow == "shed"

    @property
    def defers(self) -> bool:
        budget = self.options["budget"]
        spills = budget is not None and budget.memory is not None and budget.overflow == "spill"
        return spills and self.options["goal"] == "early" and len(self.windows) == 2

    def join(self, how: str, folder: str, *, shards: int, restart: LocalJoin | None) -> LocalJoin:
        streams = {
            name: LocalStream(SCHEMA, time="t", delay=delay, **self.expected)
            for name, delay in self.delays.items()
        }
        return LocalJoin(
            streams,
            on="k",
            how=how,
            within=self.windows,
            where=self.where.predicate if self.where else None,
            shards=shards,
            folder=folder,
            restart=restart,
            **self.options,
        )

    def near(self) -> str:
        """In SQL: are the rows of a combination close enough in time?"""
        pairs = [(one, two) for one in self.windows for two in self.windows if one != two]
        return " AND ".join(
            f"(epoch_us({two}.t) - epoch_us({one}.t) <= {micros(self.windows[one])})"
            for one, two in pairs
        )

    def holds(self) -> str:
        """In SQL: does the condition hold?"""
        return f"({self.where.sql})" if self.where else "TRUE"


def either(conditions: Iterable[str]) -> str:
    return "(" + " OR ".join(conditions) + ")"


def both(conditions: Iterable[str]) -> str:
    return "(" + " AND ".join(conditions) + ")"


@dataclass(frozen=True)
class History:
    """A join, from its first epoch to its last."""

    how: str
    epochs: list[Epoch]
    shards: int

    @property
    def names(self) -> list[str]:
        return list(self.epochs[0].windows)

    def batches(self) -> list[tuple[int, Batch]]:
        """All batches, each with its epoch: rows are numbered."""
        numbered: list[tuple[int, Batch]] = []
        count = 0
        for number, epoch in enumerate(self.epochs):
            for batch in epoch.batches:
                tables = {}
                for name in self.names:
                    rows = batch.get(name, [])
                    ids = range(count, count + len(rows))
                    count += len(rows)
                    given = zip(rows, ids, strict=True)
                    tables[name] = table(SCHEMA, [(*row, i, number) for row, i in given])
                numbered.append((number, tables))
        return numbered

    def accepted(self) -> dict[str, pa.Table]:
        """The rows that are not late."""
        batches = self.batches()
        return split_late(
            [rows for _, rows in batches],
            times=dict.fromkeys(self.names, "t"),
            delays=[
                {name: micros(delay) for name, delay in self.epochs[number].delays.items()}
                for number, _ in batches
            ],
        ).accepted

    def tried_in(self, epoch: int) -> Sequence[int]:
        """The epochs in which a combination that is complete in that one may be tried."""
        if not self.epochs[epoch].defers:
            return [epoch]
        return range(epoch, len(self.epochs))

    def may(self) -> str:
        """In SQL: may a combination come?"""
        return either(
            f"({self._last} = {number} AND "
            + either(both([e.near(), e.holds()]) for e in self._epochs(self.tried_in(number)))
            + ")"
            for number in range(len(self.epochs))
        )

    def must(self) -> str:
        """In SQL: must it come? Its rows were close enough as long as they waited, and the
        condition holds whenever it may be tried."""
        return either(
            f"({self._last} = {number} AND "
            + both(e.holds() for e in self._epochs(self.tried_in(number)))
            + " AND "
            + both(
                f"({self._first} > {waiting} OR {self.epochs[waiting].near()})"
                for waiting in range(self.tried_in(number)[-1] + 1)
            )
            + ")"
            for number in range(len(self.epochs))
        )

    def _epochs(self, numbers: Iterable[int]) -> list[Epoch]:
        return [self.epochs[number] for number in numbers]

    @property
    def _last(self) -> str:
        return f"greatest({', '.join(f'{name}.epoch' for name in self.names)})"

    @property
    def _first(self) -> str:
        return f"least({', '.join(f'{name}.epoch' for name in self.names)})"

    def combinations(self, where: str) -> set[tuple[int, ...]]:
        """The combinations, as numbers of rows, for which that condition holds."""
        streams = {name: Stream(rows, ["k"], "t") for name, rows in self.accepted().items()}
        found = sql_join(streams, how="inner", where=where)
        return set(zip(*(found.column(f"{n}_row").to_pylist() for n in self.names), strict=True))

    def run(self) -> tuple[pa.Table, int]:
        """What comes out, and how many probes were owed at restarts."""
        results, owed = [], 0
        with tempfile.TemporaryDirectory() as folder:
            run: LocalJoin | None = None
            for number, epoch in enumerate(self.epochs):
                owed += run.counters.owed if run else 0
                run = epoch.join(self.how, folder, shards=self.shards, restart=run)
                batches = [rows for of, rows in self.batches() if of == number]
                results += [run.batch(**batch) for batch in batches]
            assert run is not None
            results.append(run.finish())
        return pa.concat_tables(results), owed


SECONDS = [timedelta(seconds=seconds) for seconds in (0, 1, 3, 8, 8)]
DELAYS = [timedelta(seconds=seconds) for seconds in (0, 2, 10, 60, 60)]
EXPECTED = [None, 0.5, 1e6]
#: The first one twice: with it, probes are deferred.
BUDGETS = [
    wm.Budget(memory=300),
    wm.Budget(memory=300),
    None,
    wm.Budget(memory=1_500),
    wm.Budget(memory="1 GB"),
    wm.Budget(memory="1 GB", fanout=10_000, overflow="fail"),
]
SHED = [
    wm.Budget(memory=1_500, overflow="shed"),
    wm.Budget(memory="1 GB", fanout=2, overflow="shed"),
    wm.Budget(memory="1 GB", overflow="shed"),
]
RATE = [wm.Budget(rate=3, overflow="shed"), wm.Budget(rate="measured", overflow="shed")]


@st.composite
def histories(draw: st.DrawFn, how: str, names: str) -> History:
    loses = how in ("inner", "semi") and draw(st.booleans())
    budgets = [*BUDGETS, *(SHED if loses else []), *(RATE if loses and len(names) == 2 else [])]
    conditions: list[Condition | None] = [None, *CONDITIONS]
    if how in ("semi", "anti"):
        # What is stored of the second stream is what the condition reads.
        conditions = draw(st.sampled_from([[None], CONDITIONS]))
    elif len(names) > 2 and how == "left":
        conditions = [None]
    pools = {
        **{f"window of {name}": SECONDS for name in names},
        **{f"delay of {name}": DELAYS for name in names},
        **{f"index of {name}": INDEXES for name in names},
        "where": conditions,
        "goal": [*GOALS, "early", "early"],
        "budget": budgets,
        "name": [None, "one", "two"],
        "invalidation": INVALIDATIONS,
        "driver": DRIVERS,
        "rows_per_second": EXPECTED,
        "distinct_keys": EXPECTED,
    }
    chosen = [
        epoch(names, value) for value in draw(st.lists(one_of_each(pools), min_size=2, max_size=4))
    ]
    if how not in ("inner", "semi"):
        chosen = [replace(each, windows=chosen[0].windows) for each in chosen]
    # Times at a bound, and a microsecond inside and outside of it.
    offsets = [second + micros for second in range(-3, 4) for micros in (0, 1e-6, -1e-6)]
    row = one_of_each({"key": range(3), "offset": offsets, "n": range(4)})
    rows = st.lists(row, max_size=5 if len(names) == 2 else 3)
    second = 0
    for each in chosen:
        for _ in range(draw(st.integers(1, 4))):
            second += 2
            each.batches.append(
                {
                    name: [(r["key"], at(second + r["offset"]), r["n"]) for r in draw(rows)]
                    for name in names
                }
            )
    return History(how, chosen, draw(st.integers(1, 2)))


def one_of_each(pools: Mapping[str, Sequence[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """One value of each pool. One number stands for all: much faster to draw than one each."""

    def chosen(number: int) -> dict[str, Any]:
        values = {}
        for name, pool in pools.items():
            number, position = divmod(number, len(pool))
            values[name] = pool[position]
        return values

    return st.integers(0, math.prod(map(len, pools.values())) - 1).map(chosen)


def epoch(names: str, value: Mapping[str, Any]) -> Epoch:
    tuning = wm.Tuning(
        index={name: value[f"index of {name}"] for name in names},
        invalidation=value["invalidation"],
        driver=value["driver"],
    )
    return Epoch(
        windows={name: value[f"window of {name}"] for name in names},
        delays={name: value[f"delay of {name}"] for name in names},
        where=value["where"],
        options={
            "goal": value["goal"],
            "budget": value["budget"],
            "name": value["name"],
            "tuning": tuning,
        },
        expected={name: value[name] for name in ("rows_per_second", "distinct_keys")},
    )


#: Probes are deferred, then the join is started again with a budget that drops old rows.
OWING = Epoch(
    {"a": timedelta(seconds=8), "b": timedelta(seconds=8)},
    {"a": timedelta(seconds=60), "b": timedelta(seconds=60)},
    None,
    {"goal": "early", "budget": wm.Budget(memory=300)},
    {},
    [{"a": [(k, at(k), 0) for k in range(3)]}, {"b": [(k, at(k), 0) for k in range(3)]}],
)
SHEDDING = Epoch(
    OWING.windows,
    OWING.delays,
    None,
    {"goal": "early", "budget": wm.Budget(memory=100, overflow="shed")},
    {},
    [{"a": [(k, at(k + 1), 0) for k in range(3)]}],
)


def compare(history: History, result: pa.Table) -> None:
    """Is there what must come, and only what may, each once?"""
    if (history.how, len(history.names)) == ("left", 3):
        windows = history.epochs[0].windows
        streams = {
            name: Stream(rows, ["k"], "t", micros(windows[name]))
            for name, rows in history.accepted().items()
        }
        assert_same_rows(result, sql_join(streams, how="left"))
        return
    may = history.combinations(history.may())
    must = history.combinations(history.must())
    if any(epoch.sheds for epoch in history.epochs):
        must = set()
    assert must <= may
    if history.how in ("semi", "anti"):
        compare_first(history, Counter(result.column("row").to_pylist()), may, must)
        return
    columns = [result.column(f"{name}_row").to_pylist() for name in history.names]
    found = Counter(zip(*columns, strict=True))
    assert max(found.values(), default=1) == 1, "nothing comes twice"
    matched = {combination for combination in found if None not in combination}
    assert must <= matched <= may
    for position, name in enumerate(history.names):
        alone = {c[position] for c in found if None in c and c[position] is not None}
        if history.how in ("full", {"a": "left", "b": "right"}.get(name)):
            rows = set(history.accepted()[name].column("row").to_pylist())
            assert alone == rows - {combination[position] for combination in matched}
        else:
            assert not alone


def compare_first(
    history: History, found: Counter[int], may: set[tuple[int, ...]], must: set[tuple[int, ...]]
) -> None:
    """Are there the rows of the first stream that match, or those that do not, each once?"""
    assert max(found.values(), default=1) == 1, "nothing comes twice"
    rows = set(history.accepted()["a"].column("row").to_pylist())
    surely, perhaps = ({row for row, _ in pairs} for pairs in (must, may))
    if history.how == "semi":
        assert surely <= set(found) <= perhaps
    else:
        assert rows - perhaps <= set(found) <= rows - surely


@pytest.mark.parametrize(
    ("how", "names"), [*((how, "ab") for how in JOIN_NAMES), ("inner", "abc"), ("left", "abc")]
)
def test_what_may_change_changes_only_what_it_should(how: str, names: str) -> None:
    owing = 0

    @examples(40)
    @given(history=histories(how, names))
    def check(history: History) -> None:
        nonlocal owing
        with limited(fan=2, rewrite_below=2000, part_bytes=200, piece=3):
            result, owed = history.run()
        owing += owed
        compare(history, result)

    until_shown(check, lambda: owing > 3 or len(names) > 2, "probes owed at a restart")


def test_what_is_owed_is_found_although_old_rows_are_shed_from_then_on() -> None:
    history = History("inner", [OWING, SHEDDING], shards=1)
    result, owed = history.run()
    assert owed > 0
    found = set(zip(*(result.column(f"{name}_row").to_pylist() for name in "ab"), strict=True))
    assert {(0, 3), (1, 4), (2, 5)} <= found, "nothing had been shed when they came"
