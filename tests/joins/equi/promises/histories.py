"""Random histories of two streams that keep their promises, and what the oracle makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from experiments.metadata.schedules import Runs
from tests.conformance.ways import Disturbance
from tests.joins.equi.promises.news import ACCESS, END, data
from tests.oracle import Stream, sql_join
from tests.oracle.compare import multiset
from watersmeet.spec.tuning import Tuning
from watersmeet.testing import LocalStream

#: Of a key that never came, only punctuations and orders tell that it will not.
HOWS = {
    "punctuated": ["inner", "left", "right", "full", "semi", "anti"],
    "unique": ["inner", "left", "semi", "anti"],
    "ordered": ["inner", "left", "semi", "anti"],
    "clustered": ["inner", "semi"],
}
PUNCTUATED = LocalStream(ACCESS, punctuation=END)
LAST = 99
SCHEDULES = [
    None,
    Runs("random", "sequential", quota=1),
    Runs("random", "value", quota=2),
    Runs("priority", "value", quota=3),
    Runs("priority", "sequential", quota=1),
]


@dataclass(frozen=True)
class History:
    """Batches of two streams that keep their promises; at the end every key is over."""

    how: str
    streams: dict[str, LocalStream]
    batches: list[tuple[list[Any], list[Any]]]
    options: dict[str, Any]
    before: dict[int, Disturbance]
    cut: int | None


@st.composite
def histories(draw: st.DrawFn) -> History:
    kind = draw(st.sampled_from(["punctuated", "unique", "clustered", "ordered"]))
    makers: dict[str, Callable[[st.DrawFn, str], Any]] = {
        "punctuated": _both_punctuated,
        "unique": _one_to_many,
        "clustered": _arriving,
        "ordered": _arriving,
    }
    streams, batches = makers[kind](draw, kind)
    options = {
        "goal": draw(st.sampled_from(["memory", "throughput", "early"])),
        "schedule": draw(st.sampled_from(SCHEDULES)),
        "shards": draw(st.integers(1, 3)),
        "tuning": Tuning(index=draw(st.sampled_from(["always", "never"]))),
        "unbounded": kind == "clustered",
    }
    number = st.integers(1, len(batches))
    before = draw(st.dictionaries(number, st.sampled_from(Disturbance), max_size=3))
    how, cut = draw(st.sampled_from(HOWS[kind])), draw(st.none() | st.integers(0, 1000))
    return History(how, streams, batches, options, before, cut)


def _both_punctuated(draw: st.DrawFn, kind: str) -> Any:
    over: tuple[set[int], set[int]] = (set(), set())
    batches = []
    for _ in range(draw(st.integers(1, 8))):
        both: list[list[Any]] = []
        for closed in over:
            keys = [key for key in range(6) if key not in closed]
            rows = draw(st.lists(st.sampled_from([*keys, None]), max_size=5))
            ends = draw(st.lists(st.integers(0, 5), max_size=2))
            closed |= set(ends)
            both.append([*rows, *(("end", key) for key in ends)])
        batches.append((both[0], both[1]))
    last = [("end", key) for key in range(6)]
    return {"a": PUNCTUATED, "b": PUNCTUATED}, [*batches, (last, last)]


def _one_to_many(draw: st.DrawFn, kind: str) -> Any:
    batches = _cut(draw, draw(st.permutations([*range(6), None, None])), _many(draw))
    ends = [("end", key) for key in range(6)]
    streams = {"a": LocalStream(ACCESS, unique=True), "b": PUNCTUATED}
    return streams, [*batches, ([], ends)]


def _arriving(draw: st.DrawFn, kind: Any) -> Any:
    """A unique stream and one whose keys come together, or in order; the last key is none
    of the unique stream's, so that all of them are over."""
    order = list(range(6)) if kind == "ordered" else draw(st.permutations(range(6)))
    many = sorted(_many(draw), key=order.index)
    batches = _cut(draw, draw(st.permutations(range(6))), many)
    streams = {"a": LocalStream(ACCESS, unique=True), "b": LocalStream(ACCESS, arrival=kind)}
    # Later keys, in every shard: a shard knows of no others than its own.
    return streams, [*batches, ([], [*range(80, 90)]), ([], [*range(90, 98)]), ([], [LAST])]


def _many(draw: st.DrawFn) -> list[int]:
    return draw(st.lists(st.integers(0, 5), max_size=20))


def _cut(draw: st.DrawFn, a: list[Any], b: list[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Both cut into as many batches, anywhere."""
    count = draw(st.integers(1, 6))
    ends = [
        [0, *sorted(draw(st.lists(st.integers(0, len(x)), min_size=count, max_size=count))), len(x)]
        for x in (a, b)
    ]
    return [
        (a[ends[0][i] : ends[0][i + 1]], b[ends[1][i] : ends[1][i + 1]]) for i in range(count + 1)
    ]


def compare(history: History, batches: list[dict[str, pa.Table]], result: pa.Table) -> None:
    """The result is the oracle's."""
    sides = {
        name: Stream(pa.concat_tables([data(batch[name]) for batch in batches]), ["sno"])
        for name in "ab"
    }
    expected, found = multiset(sql_join(sides, how=history.how)), multiset(result)
    if history.streams["b"].arrival:
        # Nothing says of an arrival's last key that it is over.
        position = result.schema.get_field_index("sno")
        unproven = [row for row in expected - found if row[position] == LAST]
        for row in unproven:
            del expected[row]
    assert found == expected
