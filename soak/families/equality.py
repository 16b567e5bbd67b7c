"""The equality join as a case: a join as the conformance suite describes it, its input, and what
may change when it is started again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import watersmeet as wm
from soak.case import MicroBatch, Start
from soak.families.conditions import EPOCH, in_force
from soak.lateness import accepted, check_watermarks
from tests.conformance.join import Condition, Join, micros
from tests.oracle import Stream, sql_join
from watersmeet.spec.tuning import DRIVERS, INDEXES, INVALIDATIONS
from watersmeet.spec.windowed import GOALS
from watersmeet.testing import LocalStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: By what a delay may be multiplied at a restart.
LONGER = (1, 2, 4)
#: Budgets far below what is stored, about as much, and more; and one that is never exceeded.
MEMORY = ("20 kB", "200 kB", "2 MB")
PLENTY = "1 GB"
#: The column that tells punctuations from rows.
CLOSES = "closes"

Tables = Mapping[str, Sequence[pa.Table]]


@dataclass(frozen=True)
class EqualityCase:
    """An equality join, as it is started first.

    ``arrivals`` makes its files; ``conditions`` are those of ``where``, one for each epoch;
    ``own`` names the streams that bring their own watermark."""

    seed: str
    join: Join
    arrivals: Callable[[], Tables]
    last_rows: Mapping[str, pa.Table]
    conditions: Sequence[Condition] = ()
    own: frozenset[str] = frozenset()

    @property
    def title(self) -> str:
        join = self.join
        first = next(iter(join.streams))
        types = [str(join.streams[first].schema.field(key).type) for key in join.keys(first)]
        parts = [f"{join.how} join of {len(join.streams)} streams on {', '.join(types)}"]
        parts += ["no window" if join.within is None else f"within {_shown(join.within)}"]
        parts += [" then ".join(condition.sql for condition in self.conditions)]
        for name, stream in join.streams.items():
            said = [
                "unique" if stream.unique else "",
                stream.arrival or "",
                "punctuated" if stream.punctuation else "",
                "with its own watermark" if name in self.own else "",
            ]
            parts += [f"{name} {' '.join(filter(None, said))}"] if any(said) else []
        parts += ["punctuations are emitted"] if self.emits else []
        return "; ".join(filter(None, parts))

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return {name: stream.schema for name, stream in self.join.streams.items()}

    @property
    def emits(self) -> bool:
        return bool(self.join.further.get("emit_punctuations"))

    def files(self) -> Tables:
        return self.arrivals()

    def closing(self) -> Mapping[str, pa.Table]:
        return self.last_rows

    def call(self, start: Start) -> tuple[dict[str, LocalStream], dict[str, Any]]:
        """The streams and the other arguments of the join, for a start. Of the condition, they
        have the function."""
        dice = random.Random(f"{self.seed}, life {start.life}")
        streams = {name: changed(stream, dice) for name, stream in self.join.streams.items()}
        timed = all(stream.time for stream in streams.values())
        join = replace(
            self.join,
            streams=streams,
            index={name: dice.choice(INDEXES) for name in streams},
            invalidation=dice.choice(INVALIDATIONS),
            further={
                **self.join.further,
                "driver": dice.choice([it for it in DRIVERS if timed or it != "timestamp"]),
                "name": dice.choice([None, f"life {start.life}"]),
            },
        )
        return streams, self._in_epoch(join, start).options

    def _in_epoch(self, join: Join, start: Start) -> Join:
        """The join with what decides which results there are, and when each is emitted."""
        dice = random.Random(f"{self.seed}, epoch {start.epoch}")
        # Of a condition that changes, no probe may be put off to another epoch.
        goals = [it for it in GOALS if it != "early" or len(self.conditions) < 2]
        further: dict[str, Any] = {"goal": dice.choice(goals)}
        if any(s.unique or s.arrival or s.punctuation for s in join.streams.values()):
            further["purge_after"] = dice.choice([None, 1, 5, 40])
        budget = _budget(dice, join)
        if start.last:
            # What is closed last is emitted at once: no later micro-batch would do it.
            further |= {"goal": "memory", "purge_after": None}
        return replace(
            join,
            where=self._condition(start),
            budget=budget,
            further={**join.further, **further},
        )

    def _condition(self, start: Start) -> Condition | None:
        conditions = self.conditions
        return conditions[start.epoch % len(conditions)] if conditions else None

    def query(self, frames: Mapping[str, DataFrame], start: Start) -> DataFrame:
        streams, options = self.call(start)
        condition = self._condition(start)
        if condition and random.Random(f"{self.seed}, form {start.life}").random() < 0.5:
            options["where"] = condition.sql
        result = wm.join(
            [self._stream(frames[name], name, stream) for name, stream in streams.items()],
            **options,
        )
        return result.where("NOT is_punctuation").drop("is_punctuation") if self.emits else result

    def expected(self, batches: Sequence[MicroBatch]) -> pa.Table:
        check_delays(batches, self.join.streams)
        return self.joined(batches)

    def joined(self, batches: Sequence[MicroBatch]) -> pa.Table:
        """The rows that match, and what else the join must give."""
        join = self.join
        sides = {
            name: Stream(self._rows(batches, name), join.keys(name), stream.time, join.window(name))
            for name, stream in join.streams.items()
        }
        result = sql_join(sides, how=join.how, where=in_force(self.conditions, list(sides)))
        return result.drop_columns([name for name in result.column_names if name.endswith(EPOCH)])

    def _stream(self, frame: DataFrame, name: str, given: LocalStream) -> wm.Stream:
        delay = given.delay
        if name in self.own:
            frame = frame.withWatermark(str(given.time), f"{micros(delay) // 1000} milliseconds")
            delay = None
        return wm.stream(
            frame,
            name,
            time=given.time,
            delay=delay,
            rows_per_second=given.rows_per_second,
            distinct_keys=given.distinct_keys,
            unique=given.unique,
            arrival=given.arrival,
            punctuation=given.punctuation,
        )

    def _rows(self, batches: Sequence[MicroBatch], name: str) -> pa.Table:
        """The stream's rows that take part."""
        stream = self.join.streams[name]
        parts = accepted(batches, name, stream.time, own_watermark=name in self.own)
        if len(self.conditions) > 1:
            parts = [
                rows.append_column(EPOCH, pa.array([batch.epoch] * rows.num_rows, pa.int64()))
                for rows, batch in zip(parts, batches, strict=True)
            ]
        rows = pa.concat_tables(parts)
        return rows.filter(pc.invert(rows.column(CLOSES))) if stream.punctuation else rows


def check_delays(batches: Sequence[MicroBatch], streams: Mapping[str, LocalStream]) -> None:
    """Fail if the watermark was one that these streams cannot have given."""
    delays = {name: micros(stream.delay) for name, stream in streams.items()}
    check_watermarks(
        batches,
        times={name: stream.time for name, stream in streams.items()},
        least=delays,
        most={name: delay * max(LONGER) for name, delay in delays.items()},
    )


def changed(stream: LocalStream, dice: random.Random) -> LocalStream:
    """The stream with another delay, and with other expectations."""
    delay = stream.delay
    assert delay is None or isinstance(delay, timedelta), "cases have durations"
    return replace(
        stream,
        delay=None if delay is None else delay * dice.choice(LONGER),
        rows_per_second=dice.choice([None, 5, 5000]),
        distinct_keys=dice.choice([None, 10, 10_000]),
    )


def _budget(dice: random.Random, join: Join) -> wm.Budget | None:
    """A budget that changes no result: what is too much is spilled, or it is never too much."""
    kind = dice.choice(["none", "spill", "spill", "fail", "shed"])
    if kind == "none":
        return None
    if kind == "spill":
        return wm.Budget(memory=dice.choice(MEMORY))
    shedding = join.how in ("inner", "semi") and join.within is not None
    return wm.Budget(memory=PLENTY, overflow="shed" if kind == "shed" and shedding else "fail")


def _shown(within: timedelta | Mapping[str, timedelta]) -> str:
    if isinstance(within, Mapping):
        return ", ".join(f"{name} {length.total_seconds():g} s" for name, length in within.items())
    return f"{within.total_seconds():g} s"
