"""Equality joins of two streams that promise something about their keys, with a window or without.

Keys are numbers, whatever their type. So many new ones come with every file. A stream brings each
of them once (*unique*), or any number of rows of each until the key is closed: by a punctuation
(*punctuated*), because a greater one has come (*ordered*), or because a file has none of it
(*clustered*). Promises hold for the order of the files, so they hold however the files are cut
into micro-batches.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from soak.families import columns
from soak.families.conditions import CONDITIONS
from soak.families.equality import CLOSES, EqualityCase, Tables
from tests.conformance.join import Join, micros
from tests.conformance.strategies import INSTANT
from tests.oracle import Stream, sql_join
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.stream import Arrival
from watersmeet.testing import LocalStream

#: What two streams may promise, and the joins that are proven by that, without a window.
PROMISES = {
    ("punctuated", "punctuated"): JOIN_NAMES,
    ("unique", "punctuated"): ("inner", "left", "semi", "anti"),
    ("unique", "ordered"): ("inner", "left", "semi", "anti"),
    ("unique", "clustered"): ("inner", "semi"),
}
#: Later than any row.
_FAR = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
#: Greater than any key but for those that close an ordered stream.
_BEYOND = 100_000


@dataclass(frozen=True)
class Numbered:
    """A type of keys that are numbers: the types of the columns, and their values for a number.
    ``exact``: they are ordered as the numbers are, and have ranges."""

    types: Sequence[pa.DataType]
    values: Callable[[int], tuple[Any, ...]]
    exact: bool = True

    @property
    def names(self) -> list[str]:
        return [f"k{position}" for position in range(len(self.types))]


KINDS = {
    "bigint": Numbered([pa.int64()], lambda number: (number,)),
    "int": Numbered([pa.int32()], lambda number: (number,)),
    "date": Numbered([pa.date32()], lambda n: (dt.date(2000, 1, 1) + timedelta(days=n),)),
    "string": Numbered([pa.string()], lambda number: (f"key {number}",), exact=False),
    # Three neighbours share the first column.
    "bigint, string": Numbered(
        [pa.int64(), pa.string()], lambda n: (n // 3, "abc"[n % 3]), exact=False
    ),
}


def case(dice: random.Random, files: int) -> EqualityCase:
    """A random join, and so many files for each of its streams."""
    promises = dict(zip("ab", dice.choice(sorted(PROMISES)), strict=True))
    exact = [name for name, kind in KINDS.items() if kind.exact]
    kind = KINDS[dice.choice(exact if "ordered" in promises.values() else sorted(KINDS))]
    timed, windowed = dice.choice([(False, False), (True, False), (True, True)])
    pace = dice.choice([1.0, 10.0])
    how = dice.choice(JOIN_NAMES if windowed else PROMISES[promises["a"], promises["b"]])
    streams = {
        name: _stream(dice, name, promise, kind, pace if timed else None)
        for name, promise in promises.items()
    }
    emits = how not in ("semi", "anti") and "punctuated" in promises.values()
    join = Join(
        streams,
        on=kind.names,
        within=timedelta(seconds=pace * dice.choice([0, 1, 4])) if windowed else None,
        how=how,
        further={"emit_punctuations": True} if emits and dice.random() < 0.4 else {},
    )
    arrivals = _Arrivals(join, kind, promises, files, pace, seed=dice.getrandbits(64))
    return EqualityCase(
        seed=str(dice.getrandbits(64)),
        join=join,
        arrivals=arrivals,
        last_rows={name: arrivals.last(name) for name in streams},
        conditions=dice.sample(CONDITIONS, dice.choice([0, 0, 1, 2])),
    )


_ARRIVALS: dict[str, Arrival] = {"ordered": "ordered", "clustered": "clustered"}


def _stream(
    dice: random.Random, name: str, promise: str, kind: Numbered, pace: float | None
) -> LocalStream:
    """A stream; without a pace, it has no time."""
    fields = [*zip(kind.names, kind.types, strict=True), ("n", pa.int64())]
    fields += [] if pace is None else [(f"{name}_at", INSTANT)]
    punctuation = None
    if promise == "punctuated":
        fields.append((CLOSES, pa.bool_()))
        ranges = kind.exact and dice.random() < 0.6
        fields += [("low", kind.types[0]), ("high", kind.types[0])] if ranges else []
        bounds = {"low": "low", "high": "high"} if ranges else {}
        punctuation = wm.Punctuation(when=CLOSES, **bounds)
    return LocalStream(
        pa.schema([*fields, (f"{name}_id", pa.int64())]),
        time=None if pace is None else f"{name}_at",
        delay=None if pace is None else timedelta(seconds=pace * dice.choice([0, 1, 4])),
        unique=promise == "unique",
        arrival=_ARRIVALS.get(promise),
        punctuation=punctuation,
    )


@dataclass(frozen=True)
class _Arrivals:
    """The files of two streams that keep their promises."""

    join: Join
    kind: Numbered
    promises: dict[str, str]
    files: int
    pace: float
    seed: int
    _lag: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        dice = random.Random(self.seed)
        # For how many files a punctuated key stays open; by how many a unique one is early.
        object.__setattr__(self, "_lag", {name: dice.randrange(-1, 4) for name in self.promises})

    def __call__(self) -> Tables:
        return columns.grown(self._files, self._results)

    def last(self, name: str) -> pa.Table:
        """Closes every key, and lets time pass."""
        stream, promise = self.join.streams[name], self.promises[name]
        row: dict[str, Any] = dict.fromkeys(stream.schema.names)
        if stream.time:
            row[stream.time] = _FAR
        if promise == "punctuated":
            return pa.Table.from_pylist([row | {CLOSES: True}], stream.schema)
        if promise == "ordered" and self.join.within is None:
            # In every shard: one knows of no keys but its own.
            rows = [row | self._key(_BEYOND - 1 - number) for number in range(60)]
            return pa.Table.from_pylist(rows, stream.schema)
        return pa.Table.from_pylist([row] if stream.time else [], stream.schema)

    def _files(self, usual: int) -> Tables:
        rng = np.random.default_rng([self.seed, usual])
        # A multiple of three, so that a pattern closes all of its keys or none.
        fresh = 3 * max(1, usual // 8)
        labels = np.arange(fresh * (self.files + 4))
        if "clustered" in self.promises.values():
            rng.shuffle(labels)
        return {
            name: [
                self._file(rng, name, number, round(usual * times), fresh, labels)
                for number, times in enumerate(columns.bursts(rng, self.files))
            ]
            for name in self.promises
        }

    def _file(
        self,
        rng: np.random.Generator,
        name: str,
        number: int,
        rows: int,
        fresh: int,
        labels: np.ndarray,
    ) -> pa.Table:
        promise, lag = self.promises[name], self._lag[name]
        first = fresh * number
        ends: list[dict[str, Any]] = []
        if promise == "unique":
            chosen = rng.permutation(np.arange(fresh) + max(0, first + fresh * lag))
            if number + lag < 0:
                chosen = chosen[:0]
        elif promise == "punctuated":
            closed = [max(0, fresh * (n - lag - 1)) for n in (number - 1, number)]
            chosen = rng.integers(closed[1], first + fresh, rows)
            ends = self._ends(rng, name, *closed)
        else:
            # A cluster may go on in the file that follows.
            begun = 1 if promise == "clustered" and number else 0
            chosen = rng.integers(first - begun, first + fresh, rows)
        keys = [self._key(int(labels[key])) for key in chosen]
        keys = [{} if rng.random() < 0.03 else key for key in keys]
        return self._table(rng, name, number, [*keys, *ends])

    def _ends(
        self, rng: np.random.Generator, name: str, low: int, high: int
    ) -> list[dict[str, Any]]:
        """Punctuations of the keys from ``low`` to below ``high``, in one way or the other."""
        if low == high:
            return []
        way = rng.random()
        if way < 0.3 and "low" in self.join.streams[name].schema.names:
            bounds = [self.kind.values(bound)[0] for bound in (low, high - 1)]
            below = None if rng.random() < 0.3 else bounds[0]
            return [{CLOSES: True, "low": below, "high": bounds[1]}]
        if way < 0.6 and len(self.kind.names) > 1:
            return [{CLOSES: True, "k0": self.kind.values(key)[0]} for key in range(low, high, 3)]
        order = rng.permutation(np.arange(low, high))
        again = order[: len(order) // 4]
        return [self._key(int(key)) | {CLOSES: True} for key in [*order, *again]]

    def _table(
        self, rng: np.random.Generator, name: str, number: int, rows: list[dict[str, Any]]
    ) -> pa.Table:
        stream, count = self.join.streams[name], len(rows)
        table = pa.Table.from_pylist([{CLOSES: False} | row for row in rows], stream.schema)
        made = {
            "n": columns.payload(rng, count, "n"),
            f"{name}_id": pa.array(np.arange(count) + 100_000 * number),
        }
        if stream.time:
            delay = micros(stream.delay) / columns.SECOND
            second = number * self.pace
            made[stream.time] = columns.times(
                rng, count, second=second, pace=self.pace, delay=delay, nulls=False
            )
        for column, values in made.items():
            table = table.set_column(table.column_names.index(column), column, values)
        return table

    def _key(self, number: int) -> dict[str, Any]:
        return dict(zip(self.kind.names, self.kind.values(number), strict=True))

    def _results(self, tables: Tables) -> int:
        sides = {
            name: Stream(pa.concat_tables(tables[name]), self.join.keys(name), stream.time, None)
            for name, stream in self.join.streams.items()
        }
        return sql_join(sides, how=self.join.how).num_rows
