"""Random joins and random arrivals: few keys, so that they match; times with
duplicates, out of order and null; every type of key, nested payloads; batches cut anywhere."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.conformance.join import START, Batch, Condition, Join, table
from tests.conformance.ways import Disturbance
from tests.limits import with_limits
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.tuning import DRIVERS, INDEXES, INVALIDATIONS
from watersmeet.spec.windowed import GOALS
from watersmeet.testing import LocalStream

INSTANT = pa.timestamp("us", "UTC")


def examples(count: int) -> settings:
    """That many random cases; a failure prints the blob that reproduces it. Under ``python -O``
    a tenth: what is tested there is that no assertion does any work."""
    return settings(
        max_examples=count if __debug__ else max(1, count // 10),
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def until_shown(check: Callable[[], None], shown: Callable[[], bool], what: str) -> None:
    """Runs a random test until its cases have shown what it is about. Once is nearly always
    enough; now and then all cases are small. Under ``python -O`` they are too few to tell.

    Each round has a seed of its own: on a CI machine Hypothesis draws the same cases again
    otherwise."""
    for number in range(20 if __debug__ else 1):
        (seed(number)(check) if number else check)()
        if shown():
            return
    assert not __debug__, f"no case showed: {what}"


@dataclass(frozen=True)
class KeyKind:
    """Key columns of the streams: the types in every other one of them, and the few values
    they take."""

    types: tuple[Sequence[pa.DataType], Sequence[pa.DataType]]
    values: tuple[Sequence[Any], ...]

    @property
    def names(self) -> list[str]:
        return [f"k{position}" for position in range(len(self.values))]


def _alike(kind: pa.DataType, *values: Any) -> KeyKind:
    return KeyKind(([kind], [kind]), ((*values, None),))


KEY_KINDS = {
    "bigint": _alike(pa.int64(), 1, 2, -(2**63), 2**63 - 1),
    "int and bigint": KeyKind(([pa.int32()], [pa.int64()]), ((1, 2, -3, None),)),
    "smallint and tinyint": KeyKind(([pa.int16()], [pa.int8()]), ((0, 1, -1, None),)),
    "string": _alike(pa.string(), "", "a", "é", "a "),
    "double": _alike(pa.float64(), 0.0, -0.0, float("nan"), 1.5, float("inf")),
    "float and double": KeyKind(([pa.float32()], [pa.float64()]), ((0.0, -0.0, 1.5, None),)),
    "int and double": KeyKind(([pa.int32()], [pa.float64()]), ((0, 1, 2, None),)),
    "decimal": _alike(pa.decimal128(10, 2), Decimal("1.10"), Decimal("-0.01"), Decimal("0.00")),
    "decimals": KeyKind(
        ([pa.decimal128(10, 2)], [pa.decimal128(12, 4)]),
        ((Decimal("1.10"), Decimal("2.00"), None),),
    ),
    "decimal and int": KeyKind(([pa.decimal128(10, 2)], [pa.int32()]), ((0, 1, 2, None),)),
    "date": _alike(pa.date32(), dt.date(1969, 12, 31), dt.date(2024, 1, 1)),
    "timestamp": _alike(INSTANT, START, START + timedelta(microseconds=1)),
    "timestamp_ntz": _alike(pa.timestamp("us"), dt.datetime(2024, 1, 1), dt.datetime(1960, 1, 1)),
    "boolean": _alike(pa.bool_(), True, False),
    "binary": _alike(pa.binary(), b"", b"\x00", b"\xff\x00"),
    "bigint, string": KeyKind(
        ([pa.int64(), pa.string()], [pa.int64(), pa.string()]), ((1, 2, None), ("a", "b", None))
    ),
    "int, double": KeyKind(
        ([pa.int32(), pa.float64()], [pa.int64(), pa.float64()]),
        ((1, 2), (-0.0, 0.0, float("nan"), None)),
    ),
}


def _strict(name: str, kind: pa.DataType) -> pa.Field:
    """A nested field that is NOT NULL."""
    return pa.field(name, kind, nullable=False)


_TAGS = pa.map_(pa.string(), _strict("value", pa.struct([_strict("y", pa.float64())])))
#: A column of each type that is only carried along, and some of its values.
PAYLOADS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "n": (pa.int64(), (None, 0, 1, 2, 3)),
    "text": (pa.string(), (None, "", "payload", "wide" * 200)),
    "items": (pa.list_(pa.int32()), (None, [], [1, None], [7] * 150)),
    "point": (
        pa.struct([("x", pa.float64()), ("tag", pa.string())]),
        (None, {"x": None, "tag": "p"}, {"x": float("nan"), "tag": None}),
    ),
    "attributes": (pa.map_(pa.string(), pa.int64()), (None, [], [("a", 1), ("b", None)])),
    "strict": (
        pa.struct([_strict("x", pa.list_(_strict("element", _TAGS))), ("z", pa.int64())]),
        (None, {"x": [], "z": None}, {"x": [[], [("a", {"y": 0.5})]], "z": 1}),
    ),
}


def less(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    """All streams have a column `n`, so that its name is prefixed."""
    return pc.less(a["n"], b["n"])


LESS = Condition("a.n < b.n", wm.predicate(less, "a", "b", columns={"a": ["n"], "b": ["n"]}))


@dataclass(frozen=True)
class Run:
    """A join, the batches it gets, and what happens to it meanwhile."""

    join: Join
    batches: list[Batch]
    shards: int
    before: dict[int, Disturbance]
    limits: dict[str, int]
    cut: int | None

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What Hypothesis prints of a failure: the rows, one batch a line."""
        join, streams = self.join, self.join.streams.items()
        lines = [f"{join.how} on {join.on} within {join.within} where {join.where}"]
        lines += [f"index {join.index}, {join.invalidation} invalidation, {join.further}"]
        lines += [
            f"{name}: {s.schema.names}, time {s.time}, delay {s.delay}"
            + (", its own watermark" if s.watermarked else "")
            for name, s in streams
        ]
        for number, batch in enumerate(self.batches):
            rows = {
                name: [tuple(row.values()) for row in t.to_pylist()] for name, t in batch.items()
            }
            lines.append(f"{number}: {self.before.get(number, '')} {rows}")
        printer.text("\n".join([*lines, f"{self.shards} shards, {self.limits}, cut {self.cut}"]))


def limited(
    *,
    fan: int,
    rewrite_below: int,
    part_bytes: int,
    piece: int,
    **further: int,
) -> AbstractContextManager[Any]:
    """Limits so small that a few rows are merged, cut, evicted and given out in pieces."""
    return with_limits(
        fan=fan,
        rewrite_below=rewrite_below,
        buffer_bytes=rewrite_below,
        part_bytes=part_bytes,
        piece_rows=piece,
        **further,
    )


_LIMITS = st.fixed_dictionaries(
    {
        "fan": st.sampled_from([2, 4]),
        "rewrite_below": st.sampled_from([0, 2000, 1 << 20]),
        "part_bytes": st.sampled_from([1, 200, 64 << 20]),
        "piece": st.sampled_from([1, 3, 1 << 16]),
        "piece_bytes": st.sampled_from([100, 1000, 4000, 32 << 20]),
        "open_bytes": st.sampled_from([1, 1000, 256 << 20]),
    }
)


@st.composite
def runs(draw: st.DrawFn, hows: Sequence[str] = JOIN_NAMES, streams: str = "ab") -> Run:
    """A join and its batches, the closing ones included."""
    join = draw(joins(hows, streams))
    batches = [*draw(arrivals(join)), *join.closing()]
    number = st.integers(1, len(batches) - 1)
    return Run(
        join=join,
        batches=batches,
        shards=draw(st.integers(1, 3)),
        before=draw(st.dictionaries(number, st.sampled_from(Disturbance), max_size=4)),
        limits=draw(_LIMITS) | ({"piece": 50, "piece_bytes": 4000} if len(streams) > 3 else {}),
        cut=draw(st.none() | st.integers(0, 1000)),
    )


@st.composite
def joins(draw: st.DrawFn, hows: Sequence[str] = JOIN_NAMES, names: str = "ab") -> Join:
    """A join of streams of such names."""
    how = draw(st.sampled_from(hows))
    lengths = [0, 0.001, 1, 3, 8, 100][len(names) - 2 :]
    seconds = st.sampled_from(lengths).map(lambda s: timedelta(seconds=s))
    within: Any = draw(st.one_of(seconds, st.fixed_dictionaries(dict.fromkeys(names, seconds))))
    if how in ("inner", "semi") and draw(st.integers(0, 5)) == 0:
        within = None
    timed = {name: within is not None or draw(st.booleans()) for name in names}
    kind = KEY_KINDS[draw(st.sampled_from(sorted(KEY_KINDS)))]
    streams = {}
    for position, name in enumerate(names):
        keys = list(zip(kind.names, kind.types[position % 2], strict=True))
        extra = draw(st.sampled_from(sorted(PAYLOADS)).filter(lambda column: column != "n"))
        columns = [*keys, ("n", pa.int64()), (f"{name}_{extra}", PAYLOADS[extra][0])]
        if timed[name]:
            columns.insert(draw(st.integers(0, len(columns))), (f"{name}_at", INSTANT))
        delay = timedelta(seconds=draw(st.sampled_from([0, 0.0005, 2, 10, 60])))
        streams[name] = LocalStream(
            pa.schema(columns),
            time=f"{name}_at" if timed[name] else None,
            delay=delay if timed[name] else None,
            watermarked=timed[name] and draw(st.booleans()),
        )
    provable = len(names) == 2 or how == "inner"
    where = LESS if provable and draw(st.booleans()) else None
    ways = st.sampled_from(INDEXES)
    drivers = [driver for driver in DRIVERS if driver != "timestamp" or all(timed.values())]
    return Join(
        streams,
        on=kind.names,
        within=within,
        how=how,
        where=where,
        index=draw(st.fixed_dictionaries(dict.fromkeys(names, ways))),
        invalidation=draw(st.sampled_from(INVALIDATIONS)),
        further={
            "driver": draw(st.sampled_from(drivers)),
            "goal": draw(st.sampled_from(GOALS)),
        },
    )


@st.composite
def arrivals(draw: st.DrawFn, join: Join, most: int | None = None) -> list[Batch]:
    """Up to a dozen batches, later ones with mostly later rows; some have none at all. With many
    streams, they are fewer and smaller, as their results are products."""
    pace = draw(st.sampled_from([0, 1, 5]))
    most = most or (6 if len(join.streams) < 6 else 2)
    batches: list[Batch] = []
    for number in range(draw(st.integers(1, 2 * most))):
        if draw(st.integers(0, 3)) == 0:
            batches.append(join.batch())
            continue
        batch = {}
        for name, stream in join.streams.items():
            pools = [
                _pool(join, name, column, second=number * pace) for column in stream.schema.names
            ]
            # One number a row: much faster to draw than a value for each column.
            rows = draw(st.lists(st.integers(0, math.prod(map(len, pools)) - 1), max_size=most))
            batch[name] = table(stream.schema, [_row(row, pools) for row in rows])
        batches.append(batch)
    return batches


def _pool(join: Join, stream: str, column: str, *, second: int) -> Sequence[Any]:
    """The values a column takes in a batch."""
    if column in join.on:
        types = tuple(
            [s.schema.field(name).type for name in join.on] for s in join.streams.values()
        )
        kind = next(kind for kind in KEY_KINDS.values() if kind.types == types[:2])
        values = kind.values[join.on.index(column)]
        return values if len(join.streams) < 6 else values[:2]
    if column == join.streams[stream].time:
        instants = [
            START + timedelta(seconds=second + offset, microseconds=micros)
            # At a bound, a microsecond inside and outside of it; so too for whole milliseconds.
            for micros in (0, 0, 1, 999, 1000, 999_999)
            for offset in range(-6, 7)
        ]
        return instants if join.within is None else [*instants, None, None]
    return PAYLOADS[column.rpartition("_")[2]][1]


def _row(number: int, pools: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The row of that number, of all rows there can be."""
    values = []
    for pool in pools:
        number, position = divmod(number, len(pool))
        values.append(pool[position])
    return tuple(values)
