"""Joins without a key, of two, three and five streams: random predicates in SQL and in Python, in
windows; with another number of slices in every life."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from soak.case import MicroBatch, Start
from soak.families import columns
from soak.families.equality import PLENTY, EqualityCase, Tables, changed
from tests.conformance.join import Condition, Join, micros
from tests.conformance.strategies import INSTANT, PAYLOADS
from tests.oracle import Stream, sql_join
from watersmeet.joins.ring.spec import RING_NAMES
from watersmeet.spec.windowed import GOALS
from watersmeet.testing import LocalStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def _near(one: pa.Table, other: pa.Table) -> pa.ChunkedArray:
    return pc.less_equal(pc.abs(pc.subtract(one["x"], other["x"])), 1)


def _follows(one: pa.Table, other: pa.Table) -> pa.ChunkedArray:
    above = pc.greater(other["x"], one["x"])
    return pc.and_kleene(above, pc.less_equal(other["x"], pc.add(one["x"], 2)))


def _in_box(one: pa.Table, other: pa.Table) -> pa.ChunkedArray:
    x, y = (pc.abs(pc.subtract(one[name], other[name])) for name in ("x", "y"))
    return pc.and_kleene(pc.less_equal(x, 4), pc.less_equal(y, 4.5))


def _alike(one: pa.Table, other: pa.Table) -> pa.ChunkedArray:
    """No search helps here."""
    return pc.equal(_modulo(one["x"]), _modulo(other["x"]))


def _modulo(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, 16), 16))


#: Budgets of all hops together: below what is stored, and about as much.
MEMORY = ("1 MB", "10 MB")
#: Conditions over two streams, {0} and {1}: in SQL, as a function, and the columns that they read.
KINDS: Mapping[str, tuple[str, Callable[..., Any], list[str]]] = {
    "near": ("abs({0}.x - {1}.x) <= 1", _near, ["x"]),
    "follows": ("{1}.x > {0}.x AND {1}.x <= {0}.x + 2", _follows, ["x"]),
    "box": ("abs({0}.x - {1}.x) <= 4 AND abs({0}.y - {1}.y) <= 4.5", _in_box, ["x", "y"]),
    "alike": ("{0}.x % 16 = {1}.x % 16", _alike, ["x"]),
}


def case(dice: random.Random, files: int) -> RingCase:
    """A random join, and so many files for each of its streams."""
    names = dice.choice(["ab", "ab", "abc", "abcde"])
    how = dice.choice(RING_NAMES) if len(names) == 2 else "inner"
    pace = dice.choice([1.0, 5.0, 20.0])
    lengths = {name: timedelta(seconds=pace * dice.choice([0.5, 1, 3])) for name in names}
    first, *others = dice.sample(names, len(names))
    # All are connected with the first: where they are many, it is met at once, or after one other.
    soon = [[first, *others], [others[0], first, *others[1:]]]
    order = dice.choice(soon) if len(names) > 3 else dice.sample(names, len(names))
    within: list[timedelta | Mapping[str, timedelta]] = [lengths, lengths["a"]]
    join = Join(
        {name: _stream(dice, name, pace) for name in names},
        on=(),
        within=dice.choice(within),
        how=how,
        further={"order": order} if len(names) > 2 else {},
    )
    # Which columns are stored must not change: of a semi or anti join, conditions decide that. Of
    # many streams, the oracle would meet all combinations before it asks which condition holds.
    changes = len(names) == 2 and how not in ("semi", "anti")
    alternatives = dice.choice([1, 2]) if changes else 1
    parts = [[_condition(dice, first, other) for other in others] for _ in range(alternatives)]
    whole = [Condition(" AND ".join(f"({each.sql})" for each in of_epoch)) for of_epoch in parts]
    return RingCase(
        seed=str(dice.getrandbits(64)),
        join=join,
        arrivals=Arrivals(
            join,
            [condition.sql for condition in whole],
            files=files,
            pace=pace,
            spread=dice.choice([20, 200]),
            large=dice.random() < 0.2,
            seed=dice.getrandbits(64),
        ),
        last_rows=join.closing()[0],
        conditions=whole,
        own=frozenset(name for name in names if dice.random() < 0.15),
        parts=parts,
    )


def _condition(dice: random.Random, first: str, other: str) -> Condition:
    """A condition that connects two streams, in either direction."""
    pair = dice.sample([first, other], 2)
    sql, function, read = KINDS[dice.choice(sorted(KINDS))]
    columns = dict.fromkeys(pair, read)
    return Condition(sql.format(*pair), wm.predicate(function, *pair, columns=columns))


def _stream(dice: random.Random, name: str, pace: float) -> LocalStream:
    extra = dice.choice(sorted(PAYLOADS.keys() - {"n"}))
    fields = [
        ("x", pa.int64()),
        ("y", pa.float64()),
        (f"{name}_at", INSTANT),
        (f"{name}_{extra}", PAYLOADS[extra][0]),
        (f"{name}_id", pa.int64()),
    ]
    delay = timedelta(seconds=pace * dice.choice([0, 0.5, 2, 4]))
    return LocalStream(pa.schema(fields), time=f"{name}_at", delay=delay)


@dataclass(frozen=True)
class RingCase(EqualityCase):
    """A join without a key. ``parts[i]`` are what condition i says, one for each two streams."""

    parts: Sequence[Sequence[Condition]] = ()

    @property
    def title(self) -> str:
        return f"no key; {super().title}"

    def call(
        self, start: Start, *, shards: int = 2
    ) -> tuple[dict[str, LocalStream], dict[str, Any]]:
        """The streams and the other arguments of the join, for a start."""
        dice = random.Random(f"{self.seed}, life {start.life}")
        streams = {name: changed(stream, dice) for name, stream in self.join.streams.items()}
        budget = dice.choice([None, wm.Budget(memory=dice.choice(MEMORY))])
        if dice.random() < 0.2:
            budget = wm.Budget(memory=PLENTY, overflow="fail")
        join = replace(
            self.join,
            streams=streams,
            budget=budget,
            where=tuple(self.parts[start.epoch % len(self.parts)]),
            further={
                **self.join.further,
                # Lives before may have had any number.
                "slices": dice.randint(1, shards),
                "draining": shards,
                "goal": dice.choice(GOALS),
                "name": dice.choice([None, f"life {start.life}"]),
            },
        )
        return streams, join.options

    def query(self, frames: Mapping[str, DataFrame], start: Start) -> DataFrame:
        spark = next(iter(frames.values())).sparkSession
        shards = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
        streams, options = self.call(start, shards=shards)
        dice = random.Random(f"{self.seed}, form {start.life}")
        parts = self.parts[start.epoch % len(self.parts)]
        # On Spark a query finds out by itself how many there were.
        options["tuning"] = replace(options["tuning"], draining=None)
        options["where"] = [part.sql if dice.random() < 0.6 else part.predicate for part in parts]
        return wm.join(
            [self._stream(frames[name], name, stream) for name, stream in streams.items()],
            **options,
        )

    def _rows(self, batches: Sequence[MicroBatch], name: str) -> pa.Table:
        """The stream's rows that take part. Those that close everything match nothing; but having
        no key, they wait for a match like all others, and nothing proves that none comes."""
        rows, time = super()._rows(batches, name), str(self.join.streams[name].time)
        last = self.last_rows[name].column(time)[0]
        return rows.filter(pc.fill_null(pc.less(rows.column(time), last), True))


@dataclass(frozen=True)
class Arrivals:
    """The files of a join's streams: ``pace`` seconds pass from one to the next. ``x`` has values
    up to ``spread``."""

    join: Join
    conditions: Sequence[str]
    files: int
    pace: float
    spread: int
    large: bool
    seed: int

    def __call__(self) -> Tables:
        """The largest input of those that are not expected to give too many results: twice the
        rows of each stream give a product of so many times two."""
        rows, made, more = 4, self._files(4), 2 ** len(self.join.streams)
        while rows < columns.MOST_ROWS and more * self._results(made) <= columns.MOST_RESULTS:
            rows *= 2
            made = self._files(rows)
        return made

    def _files(self, usual: int) -> Tables:
        rng = np.random.default_rng([self.seed, usual])
        return {
            name: [
                self._file(rng, name, number, round(usual * times))
                for number, times in enumerate(columns.bursts(rng, self.files))
            ]
            for name in self.join.streams
        }

    def _file(self, rng: np.random.Generator, name: str, number: int, rows: int) -> pa.Table:
        stream = self.join.streams[name]
        extra = stream.schema.names[-2]
        x, y = rng.integers(0, self.spread, rows), rng.uniform(0, self.spread, rows)
        made = {
            "x": pa.array(x, mask=rng.random(rows) < 0.03),
            "y": pa.array(y, mask=rng.random(rows) < 0.03),
            f"{name}_at": columns.times(
                rng,
                rows,
                second=number * self.pace,
                pace=self.pace,
                delay=micros(stream.delay) / columns.SECOND,
                nulls=True,
            ),
            extra: columns.payload(rng, rows, extra.partition("_")[2], large=self.large),
            f"{name}_id": pa.array(np.arange(rows) + 100_000 * number),
        }
        return pa.table({field: made[field] for field in stream.schema.names}, stream.schema)

    def _results(self, tables: Tables) -> int:
        sides = {
            name: Stream(pa.concat_tables(tables[name]), [], stream.time, self.join.window(name))
            for name, stream in self.join.streams.items()
        }
        counts = [sql_join(sides, how=self.join.how, where=sql) for sql in self.conditions]
        return max(result.num_rows for result in counts)
