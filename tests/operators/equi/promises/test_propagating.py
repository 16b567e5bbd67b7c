"""Punctuations that are handed on: never before what they cover, and in the end all.

At random, both streams are punctuated, by single keys and by ranges. In a micro-batch rows have
no order that a consumer could rely on, so what counts are the results of later ones.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from tests.conformance.join import at, table
from tests.conformance.strategies import examples
from tests.operators.equi.promises.news import END as ACCESS_END
from tests.operators.equi.promises.news import access, joined, news
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning
from watersmeet.state.manifest import Manifest
from watersmeet.testing import LocalJoin, LocalStream

COLUMNS = [("k", pa.int64()), ("n", pa.int64()), ("end", pa.bool_())]
SCHEMA = pa.schema([*COLUMNS, ("low", pa.int64()), ("high", pa.int64())])
END = Punctuation(when='"end"', low="low", high="high")
KEYS = 12


class TestPropagation:
    def test_a_punctuation_leaves_when_its_results_have(self, tmp_path: Path) -> None:
        join = joined(tmp_path, emit_punctuations=True)
        first = join.batch(access=access(1, ("end", 1)))
        assert len(first) == 0, "its news may still come"
        second = join.batch(news=news(1))
        assert second.column("is_punctuation").to_pylist() == [False, True]
        assert second.column("sno").to_pylist() == [1, 1]
        assert second.column("title").to_pylist() == ["news 1", None]

    def test_many_to_many_needs_both(self, tmp_path: Path) -> None:
        schema = pa.schema([("k", pa.string()), ("end", pa.bool_())])
        stream = LocalStream(schema, punctuation=ACCESS_END)
        join = LocalJoin(
            {"a": stream, "b": stream},
            on="k",
            goal="memory",
            emit_punctuations=True,
            how="full",
            folder=str(tmp_path),
        )

        def rows(*values: tuple[str, bool]) -> pa.Table:
            return table(schema, list(values))

        assert len(join.batch(a=rows(("x", False), ("x", True)))) == 0
        result = join.batch(b=rows(("x", False), ("x", False), ("x", True)))
        assert result.column("is_punctuation").to_pylist() == [False, False, True, True]
        # A row whose key is over in the other stream is proven unmatched at once.
        join.batch(b=rows(("y", True)))
        lone = join.batch(a=rows(("y", False)))
        assert lone.column("k").to_pylist() == ["y"]
        assert join.state_rows() == [0, 0]

    @pytest.mark.parametrize("how", ["right", "full"])
    def test_it_leaves_after_an_unmatched_row_whose_one_is_too_far_away(
        self, tmp_path: Path, how: str
    ) -> None:
        instant = pa.timestamp("us", "UTC")
        schema = pa.schema([("k", pa.int64()), ("t", instant), ("end", pa.bool_())])
        timed = {"time": "t", "delay": "1 hour"}
        join = LocalJoin(
            {
                "a": LocalStream(schema, unique=True, **timed),
                "b": LocalStream(schema, punctuation=ACCESS_END, **timed),
            },
            on="k",
            within="6 seconds",
            how=how,
            goal="memory",
            emit_punctuations=True,
            folder=str(tmp_path),
        )
        join.batch(b=table(schema, [(1, at(0), False), (1, at(0), True)]))
        result = join.batch(a=table(schema, [(1, at(9), False)]))
        lone = [False] * (2 if how == "full" else 1)
        assert result.column("is_punctuation").to_pylist() == [*lone, True]
        assert join.state_rows() == [0, 0]

    def test_two_joins_in_a_row(self, tmp_path: Path) -> None:
        """The second join's state is purged by what the first hands on."""
        first = joined(tmp_path / "1", emit_punctuations=True)
        schema = pa.schema(
            [("sno", pa.int64()), ("ip", pa.string()), ("is_punctuation", pa.bool_())]
        )
        pages = pa.schema([("sno", pa.int64()), ("page", pa.string())])
        second = LocalJoin(
            {
                "pages": LocalStream(pages, unique=True),
                "read": LocalStream(schema, punctuation=Punctuation(when="is_punctuation")),
            },
            on="sno",
            goal="memory",
            folder=str(tmp_path / "2"),
        )
        found = 0
        for step in range(20):
            result = first.batch(
                news=news(step), access=access(step, step, *([("end", step - 1)] if step else []))
            )
            out = second.batch(
                pages=table(pages, [(step, f"page {step}")]), read=result.select(schema.names)
            )
            found += len(out)
            assert second.state_rows()[0] <= 2
        assert found == 40


# --- at random

#: A row of a key, or the keys from low to high being over.
Item = int | tuple[int, int]


@dataclass(frozen=True)
class History:
    """Batches of two streams that keep their promises."""

    how: str
    batches: list[tuple[list[Item], list[Item]]]
    options: dict[str, Any]
    restarts: set[int]


@st.composite
def histories(draw: st.DrawFn) -> History:
    over: tuple[set[int], set[int]] = (set(), set())
    batches = []
    for _ in range(draw(st.integers(1, 6))):
        both: list[list[Item]] = []
        for closed in over:
            open_keys = [key for key in range(KEYS) if key not in closed]
            items: list[Item] = []
            if open_keys:
                items += draw(st.lists(st.sampled_from(open_keys), max_size=5))
            for _ in range(draw(st.integers(0, 3))):
                low = draw(st.integers(0, KEYS - 1))
                high = draw(st.sampled_from([low, low, min(low + 3, KEYS - 1), KEYS - 1]))
                items.append((low, high))
                closed |= set(range(low, high + 1))
            both.append(items)
        batches.append((both[0], both[1]))
    everything: list[Item] = [(-1, KEYS)]
    goal = draw(st.sampled_from(["memory", "throughput", "early"]))
    options = {
        "goal": goal,
        "shards": draw(st.integers(1, 3)),
        "tuning": Tuning(
            purge_after=draw(st.sampled_from([2, 5])) if goal == "throughput" else None,
            index=draw(st.sampled_from(["always", "never"])),
        ),
    }
    how = draw(st.sampled_from(["inner", "left", "full"]))
    restarts = draw(st.sets(st.integers(1, 6), max_size=2))
    return History(how, [*batches, (everything, everything)], options, restarts)


def rows(items: list[Item]) -> pa.Table:
    values: list[tuple[Any, ...]] = []
    for number, item in enumerate(items):
        if isinstance(item, int):
            values.append((item, number, False, None, None))
        elif item[0] == item[1]:
            values.append((item[0], number, True, None, None))
        else:
            values.append((None, number, True, *item))
    return table(SCHEMA, values)


def covered(row: dict[str, Any]) -> tuple[int, int]:
    """What a punctuation among the results is about."""
    for side in "ab":
        if row[f"{side}_end"]:
            bounds = row[f"{side}_low"], row[f"{side}_high"]
            return (row["k"], row["k"]) if row["k"] is not None else bounds
    raise AssertionError(f"a punctuation of no stream: {row}")


def test_a_punctuation_leaves_after_all_that_it_covers() -> None:
    @examples(200)
    @given(history=histories())
    def check(history: History) -> None:
        streams = {name: LocalStream(SCHEMA, punctuation=END) for name in "ab"}
        given: dict[str, Any] = {"on": "k", "how": history.how, "emit_punctuations": True}
        over: Counter[tuple[int, int]] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            given |= {"folder": folder, **history.options}
            join = LocalJoin(streams, **given)
            for number, (a, b) in enumerate([*history.batches, ([], [])]):
                if number in history.restarts:
                    join = LocalJoin(streams, restart=join, **given)
                found = join.batch(a=rows(a), b=rows(b)).to_pylist()
                for row in found:
                    if not row["is_punctuation"]:
                        late = [p for p in over if p[0] <= row["k"] <= p[1]]
                        assert not late, f"batch {number}: key {row['k']} after {late}"
                over.update(covered(row) for row in found if row["is_punctuation"])
        event(f"{history.options['shards']} shards")
        # The last ones have come out, once for each stream, and none is left behind.
        assert over[(-1, KEYS)] == 2
        for store in join.stores:
            closings = Manifest.from_bytes(store.values["manifest"]).section["closings"]
            assert not [name for name in closings if name.endswith("/waiting")]

    check()


def test_a_pattern_leaves_once_though_every_shard_takes_it(tmp_path: Path) -> None:
    # Given two streams of visits to sites, in three shards,
    schema = pa.schema([("site", pa.string()), ("n", pa.int64()), ("end", pa.bool_())])
    stream = LocalStream(schema, punctuation=Punctuation(when='"end"'))
    join = LocalJoin(
        {"a": stream, "b": stream},
        on=["site", "n"],
        how="full",
        goal="throughput",
        emit_punctuations=True,
        shards=3,
        folder=str(tmp_path),
    )
    visits = [("x", n, False) for n in range(30)]
    assert len(join.batch(a=table(schema, [*visits, ("x", None, True)]))) == 0
    # when a site is over in the other stream too,
    result = join.batch(b=table(schema, [*visits[:20], ("x", None, True)]))
    # then its punctuations leave once each, with all results.
    assert result.column("is_punctuation").to_pylist().count(True) == 2
    assert result.filter(pc.invert(result.column("is_punctuation"))).num_rows == 30
    assert join.state_rows() == [0, 0]
    assert len(join.batch()) == 0
