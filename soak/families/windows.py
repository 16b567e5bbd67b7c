"""Equality joins of two to four streams, of all types, by keys of all types, mostly in windows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from soak.families import columns
from soak.families.conditions import CONDITIONS
from soak.families.equality import EqualityCase, Tables
from tests.conformance.join import Join, micros
from tests.conformance.strategies import INSTANT, KEY_KINDS, PAYLOADS, KeyKind
from tests.oracle import Stream, sql_join
from watersmeet.joins.equi.spec import MULTIWAY_NAMES
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.testing import LocalStream


def case(dice: random.Random, files: int) -> EqualityCase:
    """A random join, and so many files for each of its streams."""
    names = dice.choice(["ab", "ab", "ab", "abc", "abcd"])
    how = dice.choice(JOIN_NAMES if len(names) == 2 else MULTIWAY_NAMES)
    windowed = how not in ("inner", "semi") or dice.random() < 0.9
    join, arrivals = drawn(dice, files, names, how, windowed=windowed)
    conditions = dice.sample(CONDITIONS, dice.choice([0, 1, 1, 2, 3]))
    timed = [name for name, stream in join.streams.items() if stream.time]
    return EqualityCase(
        seed=str(dice.getrandbits(64)),
        join=join,
        arrivals=arrivals,
        last_rows=join.closing()[0],
        conditions=conditions if len(names) == 2 or how == "inner" else (),
        own=frozenset(name for name in timed if dice.random() < 0.15),
    )


def drawn(
    dice: random.Random, files: int, names: str, how: str, *, windowed: bool
) -> tuple[Join, Arrivals]:
    """A random join of streams of these names, and what arrives."""
    kind = KEY_KINDS[dice.choice(sorted(KEY_KINDS))]
    pace = dice.choice([1.0, 5.0, 20.0])
    lengths = {name: timedelta(seconds=pace * dice.choice([0, 0.5, 1, 3, 8])) for name in names}
    within: Any = dice.choice([lengths, lengths["a"]]) if windowed else None
    timed = {name: windowed or dice.random() < 0.7 for name in names}
    join = Join(
        {
            name: _stream(dice, name, kind, side, pace if timed[name] else None)
            for side, name in enumerate(names)
        },
        on=kind.names,
        within=within,
        how=how,
    )
    arrivals = Arrivals(
        join,
        kind,
        files=files,
        pace=pace,
        keys=dice.choice([5, 50, 500]),
        large=dice.random() < 0.2,
        seed=dice.getrandbits(64),
    )
    return join, arrivals


def _stream(
    dice: random.Random, name: str, kind: KeyKind, side: int, pace: float | None
) -> LocalStream:
    """A stream; without a pace, it has no time."""
    extra = dice.choice(sorted(PAYLOADS.keys() - {"n"}))
    keys = list(zip(kind.names, kind.types[side % 2], strict=True))
    carried = [(f"{name}_{extra}", PAYLOADS[extra][0]), (f"{name}_id", pa.int64())]
    if pace is None:
        return LocalStream(pa.schema([*keys, ("n", pa.int64()), *carried]))
    fields = [*keys, ("n", pa.int64()), (f"{name}_at", INSTANT), *carried]
    delay = timedelta(seconds=pace * dice.choice([0, 0.5, 2, 4]))
    return LocalStream(pa.schema(fields), time=f"{name}_at", delay=delay)


@dataclass(frozen=True)
class Arrivals:
    """The files of a join's streams: ``pace`` seconds pass from one to the next."""

    join: Join
    kind: KeyKind
    files: int
    pace: float
    keys: int
    large: bool
    seed: int

    def __call__(self) -> Tables:
        return columns.grown(self._files, self._results)

    def _files(self, usual: int) -> Tables:
        rng = np.random.default_rng([self.seed, usual])
        return {
            name: [
                self._file(rng, side, number, round(usual * times))
                for number, times in enumerate(columns.bursts(rng, self.files))
            ]
            for side, name in enumerate(self.join.streams)
        }

    def _file(self, rng: np.random.Generator, side: int, number: int, rows: int) -> pa.Table:
        name, stream = list(self.join.streams.items())[side]
        keys = columns.key_columns(self.kind, side % 2, self.keys, rows, rng)
        extra = stream.schema.names[-2]
        made = {
            **dict(zip(self.kind.names, keys, strict=True)),
            "n": columns.payload(rng, rows, "n"),
            f"{name}_at": columns.times(
                rng,
                rows,
                second=number * self.pace,
                pace=self.pace,
                delay=micros(stream.delay) / columns.SECOND,
                nulls=self.join.within is not None,
            ),
            extra: columns.payload(rng, rows, extra.partition("_")[2], large=self.large),
            f"{name}_id": pa.array(np.arange(rows) + 100_000 * number),
        }
        return pa.table({field: made[field] for field in stream.schema.names}, stream.schema)

    def _results(self, tables: Tables) -> int:
        sides = {
            name: Stream(
                pa.concat_tables(tables[name]),
                self.join.keys(name),
                stream.time,
                self.join.window(name),
            )
            for name, stream in self.join.streams.items()
        }
        return sql_join(sides, how=self.join.how).num_rows
