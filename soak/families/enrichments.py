"""A stream that is enriched from a table: all join types and keys, tables that change, rows that
are retried, versions that are valid from a time on, and windows that follow in the same query.

Which version of a table a row is answered from depends on when it is staged. So versions differ
only in which keys they have, and only where rows without a match are retried: then every row is
answered as from the last version. The first micro-batch has no state that says which version it is
of. So the table as a query finds it goes by the epoch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import watersmeet as wm
from soak.case import MicroBatch, Start
from soak.families import columns
from soak.families.conditions import CONDITIONS
from soak.families.counted import Counted
from tests.conformance.join import START, Condition, Join, micros
from tests.conformance.strategies import INSTANT, KEY_KINDS, PAYLOADS, KeyKind
from tests.oracle import Stream, sql_join
from watersmeet.joins.enrich.spec import ACCESSES, ENRICH_NAMES
from watersmeet.spark.tables.settings import STAGE_FOLDER
from watersmeet.testing import LocalStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: A table has so many versions, if it changes.
VERSIONS = 4
#: Longer than all that happens before the streams are closed.
RETRY = timedelta(days=1)
#: The column with the time of the version that is valid for a row, for the oracle alone.
VALID = "#valid"


def case(dice: random.Random, files: int) -> EnrichmentCase | CountedEnrichment:
    """A random enrichment, and so many files of its stream."""
    changes = dice.choice(["never", "never", "refresh", "retry", "retry"])
    kind = KEY_KINDS[dice.choice(sorted(KEY_KINDS))]
    # What is counted or retried must not be late.
    counted = dice.random() < 0.2
    timed = counted or changes == "retry" or dice.random() < 0.8
    pace = dice.choice([1.0, 5.0, 20.0])
    given = EnrichmentCase(
        seed=dice.getrandbits(64),
        kind=kind,
        extra=dice.choice(sorted(PAYLOADS.keys() - {"n"})),
        how=dice.choice(ENRICH_NAMES),
        files_count=files,
        pace=pace,
        delay=timedelta(seconds=pace * dice.choice([0, 0.5, 2, 4])) if timed else None,
        own_watermark=timed and dice.random() < 0.15,
        punctual=counted or changes == "retry",
        as_of=timed and dice.random() < 0.25,
        changes=changes,
        keys=dice.choice([5, 50, 500]),
        rows=dice.choice([10, 100, 1000]),
        condition=dice.choice([None, None, *CONDITIONS]),
        waits=timed and dice.random() < 0.5,
    )
    if counted and given.time_goes_on:
        return CountedEnrichment(given, dice.choice([1, 10, 60]), time="a_at")
    return given


@dataclass(frozen=True)
class EnrichmentCase:
    """An enrichment of the stream ``a`` from the table ``b``.

    ``changes`` is whether the table does: never, in nothing that matters (refresh), or by keys
    that it did not have before (retry). It has ``rows`` rows; a stream has so many plain ``keys``.
    ``punctual``: no row is late. ``waits``: may rows wait? If not, and if the table never changes,
    they are answered in place, without state; a checkpoint is of one kind or the other."""

    seed: int
    kind: KeyKind
    extra: str
    how: str
    files_count: int
    pace: float
    delay: timedelta | None
    own_watermark: bool
    punctual: bool
    as_of: bool
    changes: str
    keys: int
    rows: int
    condition: Condition | None
    waits: bool

    @property
    def title(self) -> str:
        types = ", ".join(str(kind) for kind in self.kind.types[0])
        parts = [f"{self.how} enrichment on {types} from {self.rows} rows"]
        parts += ["as of a time"] if self.as_of else []
        parts += [self.condition.sql] if self.condition else []
        parts += [] if self.changes == "never" else [self.changes]
        parts += ["rows may wait"] if self.waits else []
        parts += ["no time"] if self.delay is None else []
        parts += ["with its own watermark"] if self.own_watermark else []
        return "; ".join(parts)

    @property
    def stream(self) -> LocalStream:
        keys = list(zip(self.kind.names, self.kind.types[0], strict=True))
        fields = [*keys, ("n", pa.int64()), ("a_id", pa.int64())]
        if self.delay is None:
            return LocalStream(pa.schema(fields))
        return LocalStream(pa.schema([*fields, ("a_at", INSTANT)]), time="a_at", delay=self.delay)

    @property
    def time_goes_on(self) -> bool:
        """Does Spark still know the event time after it?"""
        return self.delay is not None and not (self.changes == "retry" and self.own_watermark)

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return {"a": self.stream.schema}

    # --- what comes

    def files(self) -> Mapping[str, Sequence[pa.Table]]:
        rng = np.random.default_rng([self.seed, 1])
        usual = int(np.clip(20_000 / self._fan_out / self.files_count, 1, columns.MOST_ROWS))
        bursts = columns.bursts(rng, self.files_count)
        return {
            "a": [
                self._file(rng, number, round(usual * times)) for number, times in enumerate(bursts)
            ]
        }

    @property
    def _fan_out(self) -> float:
        """About how many rows of the table a row matches."""
        return 1.0 if self.as_of else max(1.0, self.rows / 4)

    def _file(self, rng: np.random.Generator, number: int, rows: int) -> pa.Table:
        delay = 0.0 if self.punctual else micros(self.delay) / columns.SECOND
        if self.punctual:
            seconds = number * self.pace + rng.uniform(0, self.pace, rows)
            times = pa.array(_instants(seconds), INSTANT)
        else:
            second = number * self.pace
            times = columns.times(
                rng, rows, second=second, pace=self.pace, delay=delay, nulls=self.as_of
            )
        made = {
            **self._keys(rng, 0, self.keys, rows),
            "n": columns.payload(rng, rows, "n"),
            "a_id": pa.array(np.arange(rows) + 100_000 * number),
            "a_at": times,
        }
        schema = self.stream.schema
        return pa.table({name: made[name] for name in schema.names}, schema)

    def closing(self) -> Mapping[str, pa.Table]:
        return Join({"a": self.stream}, on=self.kind.names).closing()[0]

    def tables(self) -> list[pa.Table]:
        """The parts of the table, each with keys of its own: a version has the first ones."""
        rng = np.random.default_rng([self.seed, 2])
        whole = pa.table(
            {
                **self._keys(rng, 1, self.keys, self.rows),
                "n": columns.payload(rng, self.rows, "n"),
                f"b_{self.extra}": columns.payload(rng, self.rows, self.extra),
                "b_id": pa.array(np.arange(self.rows)),
            }
        )
        if self.as_of:
            # No two versions of a key begin at the same time.
            since = np.sort(rng.uniform(-1, 1.2, self.rows)) * self.pace * self.files_count
            whole = whole.append_column("since", pa.array(_instants(since), INSTANT))
        keys = pa.Table.from_arrays(
            [whole.column(name) for name in self.kind.names], self.kind.names
        )
        of_key = np.array([hash_of(row) % VERSIONS for row in keys.to_pylist()], dtype=np.int64)
        return [whole.filter(pa.array(of_key == part)) for part in range(VERSIONS)]

    def _keys(
        self, rng: np.random.Generator, side: int, plain: int, rows: int
    ) -> dict[str, pa.Array]:
        made = columns.key_columns(self.kind, side, plain, rows, rng)
        return dict(zip(self.kind.names, made, strict=True))

    # --- the query

    def options(self, start: Start) -> dict[str, Any]:
        """The arguments of the enrichment, for a start."""
        dice = random.Random(f"{self.seed}, life {start.life}")
        waits = dice.choice(["1 batch", "3 batches", "10 seconds"])
        return {
            "on": self.kind.names,
            "how": self.how,
            "where": self.condition.predicate if self.condition else None,
            "memory": dice.choice(["32 MB", "256 MB"]),
            "max_wait": waits if self.waits else None,
            "refresh": None if self.changes == "never" else "1 second",
            "retry": RETRY if self.changes == "retry" else None,
            "as_of": "since" if self.as_of else None,
            "tuning": wm.EnrichTuning(
                cache=dice.random() < 0.8, access=dice.choice(list(ACCESSES))
            ),
        }

    def policy(self, start: Start) -> dict[str, Any]:
        """What is smaller than planned, so that little data does what much data does."""
        dice = random.Random(f"{self.seed}, policy {start.life}")
        return {
            "partition": dice.choice([1 << 10, 1 << 14]),
            "resident": dice.choice([0, 0, 1 << 30]),
            "cache": dice.choice([1 << 10, 1 << 14]),
            "queue": dice.choice([1, 1 << 10, 1 << 20]),
            "at_once": dice.choice([-1.0, 1e8]),
            "copies": dice.random() < 0.3,
        }

    def parts(self, start: Start, reads: int) -> int:
        """How many parts the table has when it is read for the so-manieth time."""
        if self.changes != "retry" or start.last:
            return VERSIONS
        return min(VERSIONS, 1 + start.epoch % VERSIONS + reads)

    def query(self, frames: Mapping[str, DataFrame], start: Start) -> DataFrame:
        stream = self._named(frames["a"], start)
        read = self._table(frames["a"], start)
        options = self.options(start)
        if self.condition and random.Random(f"{self.seed}, form {start.life}").random() < 0.5:
            options["where"] = self.condition.sql
        changes = self.changes != "never"
        planned = wm.plan_enrich(stream, read if changes else read(), **options)
        policy = replace(planned.plan.policy, **self.policy(start))
        return replace(planned, plan=replace(planned.plan, policy=policy)).dataframe()

    def _named(self, frame: DataFrame, start: Start) -> wm.Stream:
        if self.delay is None:
            return wm.stream(frame, "a")
        dice = random.Random(f"{self.seed}, delay {start.life}")
        delay = self.delay * dice.choice([1, 2, 4])
        if not self.own_watermark:
            return wm.stream(frame, "a", time="a_at", delay=delay)
        own = frame.withWatermark("a_at", f"{micros(delay) // 1000} milliseconds")
        return wm.stream(own, "a", time="a_at")

    def _table(self, frame: DataFrame, start: Start) -> Callable[[], wm.Stream]:
        """Reads the table: from files, or made of what is in memory."""
        spark = frame.sparkSession
        folder = Path(str(spark.conf.get(STAGE_FOLDER))) / str(self.seed)
        folder.mkdir(parents=True, exist_ok=True)
        tables = self.tables()
        for number, part in enumerate(tables):
            if not (folder / str(number)).exists():
                pq.write_table(part, folder / f"{number}.tmp")
                (folder / f"{number}.tmp").rename(folder / str(number))
        of_files = random.Random(f"{self.seed}, files {start.life}").random() < 0.7
        reads = iter(range(1_000_000))

        def read() -> wm.Stream:
            count = self.parts(start, next(reads))
            if of_files:
                df = spark.read.parquet(*(str(folder / str(part)) for part in range(count)))
            else:
                df = spark.createDataFrame(pa.concat_tables(tables[:count]))
            return wm.stream(df, "b")

        return read

    # --- what it must give

    def expected(self, batches: Sequence[MicroBatch]) -> pa.Table:
        rows = pa.concat_tables([batch.rows["a"] for batch in batches])
        return self.joined(rows, pa.concat_tables(self.tables()))

    def joined(self, rows: pa.Table, table: pa.Table) -> pa.Table:
        """What the rows must give, with that table."""
        terms = [f"({self.condition.sql})"] if self.condition else []
        if self.as_of:
            rows = self._with_valid(rows, table)
            terms.append(f'a."{VALID}" = b.since')
        sides = {"a": Stream(rows, self.kind.names), "b": Stream(table, self.kind.names)}
        found = sql_join(sides, how=self.how, where=" AND ".join(terms) or None)
        return found.drop_columns([VALID]) if self.as_of else found

    def _with_valid(self, rows: pa.Table, table: pa.Table) -> pa.Table:
        """The rows, with the time from which on the version is valid that each matches."""
        keys = self.kind.names
        sides = {
            "a": Stream(rows.select([*keys, "a_id", "a_at"]), keys),
            "b": Stream(table.select([*keys, "since"]), keys),
        }
        valid = sql_join(sides, how="inner", where="b.since <= a.a_at")
        newest = valid.group_by("a_id").aggregate([("since", "max")])
        at = pc.index_in(rows.column("a_id"), newest.column("a_id"))
        return rows.append_column(VALID, newest.column("since_max").take(at))


class CountedEnrichment(Counted):
    """An enrichment whose results are counted. The row that closes the stream comes out too, but
    nothing after it ends its window."""

    def counted(self, results: pa.Table) -> pa.Table:
        last = self.closing()["a"].column(self.time)[0]
        return results.filter(pc.less(results.column(self.time), last))


def hash_of(row: Mapping[str, Any]) -> int:
    """A number for a key, the same in every process; equal keys have equal ones."""
    text = "|".join(str(float(v) + 0.0) if isinstance(v, float) else str(v) for v in row.values())
    return sum((place + 1) * byte for place, byte in enumerate(text.encode()))


def _instants(seconds: np.ndarray) -> np.ndarray:
    start = int(START.timestamp()) * columns.SECOND
    return start + (seconds * columns.SECOND).astype(np.int64)
