"""A join as the checks describe it, and what it must give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import pyarrow as pa

from tests.oracle import Arrivals, Stream, split_late, sql_join
from watersmeet.conditions.terms import Term
from watersmeet.spec.budget import Budget
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.tuning import Invalidation, Tuning
from watersmeet.testing import LocalStream

#: The zero of the checks' clocks.
START = datetime(2024, 1, 1, tzinfo=UTC)
#: Later than any row of a check, with any window or delay.
_FAR = datetime(2100, 1, 1, tzinfo=UTC)

Batch = Mapping[str, pa.Table]


@overload
def at(seconds: float) -> datetime: ...
@overload
def at(seconds: float | None) -> datetime | None: ...
def at(seconds: float | None) -> datetime | None:
    """So many seconds after the start; None stays None."""
    return None if seconds is None else START + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Condition:
    """A condition as the join and as the oracle take it."""

    sql: str
    predicate: PredicateFunction | None = None
    #: What Spark's translation makes of the SQL; then the join gets that, and no function.
    terms: tuple[Term, ...] = ()


#: What of the further arguments belongs to the tuning.
_TUNING = ("driver", "purge_after", "slices", "draining", "order")


@dataclass(frozen=True)
class Join:
    """What ``wm.join`` is called with; streams by name. Durations are timedeltas. A join without a
    key has ``on=()``, and conditions."""

    streams: Mapping[str, LocalStream]
    on: Any
    within: timedelta | Mapping[str, timedelta] | None = None
    how: str = "inner"
    where: Condition | tuple[Condition, ...] | None = None
    index: Any = "auto"
    invalidation: Invalidation = "active"
    budget: Budget | None = None
    further: Mapping[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments besides the streams."""
        return {
            "on": self.on or None,
            "within": self.within,
            "how": self.how,
            "where": [each.predicate or each.sql for each in self.conditions] or None,
            "unbounded": self.within is None,
            "tuning": Tuning(
                index=self.index,
                invalidation=self.invalidation,
                **{name: value for name, value in self.further.items() if name in _TUNING},
            ),
            "budget": self.budget,
            **{name: value for name, value in self.further.items() if name not in _TUNING},
        }

    def batch(self, **rows: Sequence[tuple[Any, ...]]) -> Batch:
        """Literal rows as a batch; a stream that is not named gets none."""
        assert rows.keys() <= self.streams.keys(), f"no such stream: {rows.keys()}"
        return {
            name: table(stream.schema, rows.get(name, ())) for name, stream in self.streams.items()
        }

    def closing(self) -> list[Batch]:
        """Batches that let time pass until nothing is stored any more: rows that match
        nothing, far in the future, and then the batch in which they move the watermark."""
        nulls = {name: dict.fromkeys(s.schema.names) for name, s in self.streams.items()}
        far = {
            name: pa.Table.from_pylist([nulls[name] | {str(s.time): _FAR}], s.schema)
            for name, s in self.streams.items()
            if s.time
        }
        return [{**self.batch(), **far}, self.batch()]

    def arrivals(self, batches: Sequence[Batch]) -> Arrivals:
        """Which rows are accepted and which are late."""
        return split_late(
            batches,
            times={name: stream.time for name, stream in self.streams.items()},
            delays={name: micros(stream.delay) for name, stream in self.streams.items()},
            own=[name for name, stream in self.streams.items() if stream.watermarked],
        )

    def expected(self, batches: Sequence[Batch]) -> pa.Table:
        """The whole result, once the watermark has passed everything."""
        return self._joined(self.arrivals(batches).accepted, list(self.streams), self.how)

    def matched_after(self, batches: Sequence[Batch]) -> pa.Table:
        """The matches among the rows of these batches: an inner or semi join's result."""
        how = "semi" if self.how in ("semi", "anti") else "inner"
        return self._joined(self.arrivals(batches).accepted, list(self.streams), how)

    def proven_unmatched_in(self, batches: Sequence[Batch], stream: str) -> pa.Table:
        """The stream's rows of which the watermark in force in the last of these batches
        proves that they match nothing: those with a null key or time, and those for which
        time + window <= watermark."""
        arrivals, rows = self.arrivals(batches), self._unmatched_after(batches, stream)
        watermark, time, window = arrivals.watermarks[-2], self.streams[stream].time, self.window
        proven = [
            None in (row[time], *(row[key] for key in self.keys(stream)))
            or (watermark is not None and instant + window(stream) <= watermark)
            for row, instant in zip(
                rows.to_pylist(), rows.column(time).cast(pa.int64()).to_pylist(), strict=True
            )
        ]
        return rows.filter(pa.array(proven, pa.bool_()))

    def unproven_after(self, batches: Sequence[Batch], stream: str) -> int:
        """How many of the stream's rows have no match, and are not proven unmatched."""
        unmatched = self._unmatched_after(batches, stream)
        return unmatched.num_rows - self.proven_unmatched_in(batches, stream).num_rows

    def _unmatched_after(self, batches: Sequence[Batch], stream: str) -> pa.Table:
        names = sorted(self.streams, key=lambda name: name != stream)
        return self._joined(self.arrivals(batches).accepted, names, "anti")

    def _joined(self, rows: Mapping[str, pa.Table], order: Sequence[str], how: str) -> pa.Table:
        streams = {
            name: Stream(rows[name], self.keys(name), self.streams[name].time, self.window(name))
            for name in order
        }
        where = " AND ".join(f"({condition.sql})" for condition in self.conditions)
        return sql_join(streams, how=how, where=where or None)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The further conditions."""
        if self.where is None:
            return ()
        return self.where if isinstance(self.where, tuple) else (self.where,)

    def keys(self, stream: str) -> list[str]:
        """The stream's key columns."""
        named = self.on[stream] if isinstance(self.on, Mapping) else self.on
        return [named] if isinstance(named, str) else list(named)

    def window(self, stream: str) -> int | None:
        """The stream's window in microseconds."""
        within = self.within[stream] if isinstance(self.within, Mapping) else self.within
        return None if within is None else micros(within)


def table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Rows, each a tuple of the schema's columns, as a table."""
    return pa.Table.from_pylist([dict(zip(schema.names, r, strict=True)) for r in rows], schema)


def micros(duration: Any) -> int:
    """A timedelta in microseconds; None is none at all."""
    return 0 if duration is None else duration // timedelta(microseconds=1)
