"""An inner join, and what follows it in the same query and relies on its event time: a windowed
aggregation, or a join with a third stream. No result of the first may be late for the second."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pyarrow as pa

import watersmeet as wm
from soak.case import Case, MicroBatch, Start
from soak.families import windows
from soak.families.conditions import CONDITIONS
from soak.families.counted import Counted
from soak.families.equality import EqualityCase, changed, check_delays
from soak.lateness import accepted
from tests.conformance.join import micros
from tests.oracle import Stream, sql_join
from watersmeet.spec.join_type import JOIN_NAMES, How
from watersmeet.spec.output import EVENT_TIME
from watersmeet.testing import LocalStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def case(dice: random.Random, files: int) -> Case:
    """A random join, and something that follows it."""
    if dice.random() < 0.5:
        join, arrivals = windows.drawn(dice, files, "ab", "inner", windowed=True)
        return CountedJoin(
            EqualityCase(
                seed=str(dice.getrandbits(64)),
                join=join,
                arrivals=arrivals,
                last_rows=join.closing()[0],
                conditions=dice.sample(CONDITIONS, dice.choice([0, 1, 2])),
            ),
            seconds=dice.choice([1, 10, 60]),
            time=EVENT_TIME,
        )
    # What arrives is as for a join of all three.
    join, arrivals = windows.drawn(dice, files, "abc", "inner", windowed=True)
    streams = dict(join.streams)
    third = streams.pop("c")
    return Followed(
        EqualityCase(
            seed=str(dice.getrandbits(64)),
            join=replace(join, streams=streams, within=_without_third(join.within)),
            arrivals=arrivals,
            last_rows=join.closing()[0],
            conditions=dice.sample(CONDITIONS, dice.choice([0, 1, 2])),
        ),
        third=third,
        how=cast(How, dice.choice(JOIN_NAMES)),
        within=timedelta(seconds=dice.choice([0, 1, 10, 60])),
    )


def _without_third(
    within: timedelta | Mapping[str, timedelta] | None,
) -> timedelta | Mapping[str, timedelta] | None:
    if not isinstance(within, Mapping):
        return within
    return {name: length for name, length in within.items() if name != "c"}


class CountedJoin(Counted):
    """A join whose results are counted by their event time."""


@dataclass(frozen=True)
class Followed:
    """A join of two streams whose result is joined with a ``third`` one, by the same key."""

    first: EqualityCase
    third: LocalStream
    how: How
    within: timedelta

    @property
    def title(self) -> str:
        then = f"{self.how} join of a join and a stream"
        return f"{then}, within {self.within.total_seconds():g} s; {self.first.title}"

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return {**self.first.schemas, "c": self.third.schema}

    def files(self) -> Mapping[str, Sequence[pa.Table]]:
        return self.first.files()

    def closing(self) -> Mapping[str, pa.Table]:
        return self.first.closing()

    def query(self, frames: Mapping[str, DataFrame], start: Start) -> DataFrame:
        third = changed(self.third, random.Random(f"{self.first.seed}, third {start.life}"))
        return wm.join(
            [
                wm.stream(self.first.query(frames, start), "ab", time=EVENT_TIME),
                wm.stream(frames["c"], "c", time=third.time, delay=third.delay),
            ],
            on=self.first.join.on,
            within=self.within,
            how=self.how,
        )

    def expected(self, batches: Sequence[MicroBatch]) -> pa.Table:
        check_delays(batches, {**self.first.join.streams, "c": self.third})
        keys, window = self.first.join.keys("a"), micros(self.within)
        rows = pa.concat_tables(accepted(batches, "c", self.third.time))
        sides = {
            "ab": Stream(self.first.joined(batches), keys, EVENT_TIME, window),
            "c": Stream(rows, keys, self.third.time, window),
        }
        return sql_join(sides, how=self.how)
