"""What a join did in one micro-batch, as the user gets it: the counters of all shards, added up;
and the records of many as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime

import pandas as pd

from watersmeet import sizes
from watersmeet.joins.operator import JoinStreamCounters, Largest, StreamCounters

#: What a record's text says of a stream in words, and what it says of the micro-batch.
_STREAM_SAID = ("rows", "state_rows", "state_bytes", "segments")
_SAID = ("batch", "results", "step_ms", "steps")
#: A notebook shows so many records, the last ones.
_SHOWN = 20


@dataclass(frozen=True)
class StepMetrics:
    """One micro-batch of one join, of any family.

    ``join`` is the join's name; if the query has several of that name, with a number behind it.
    ``streams`` has, for each stream by name, ``rows`` in, how many
    were ``late`` (dropped) or ``unmatchable`` (a null key or time), how many ``expired``, and
    ``state_rows``, ``state_bytes`` and ``segments`` at the end. ``step_ms`` is the time spent in
    the operator, summed over the shards. ``capped`` counts new rows whose results a budget's
    ``fanout`` cut short; ``largest`` is the most results that one new row has made: its
    ``fanout``, ``stream`` and ``key``. ``cache_damaged`` files were found damaged, and
    ``cache_unsaved`` segments could not be saved, in the local cache. ``notes`` say what the join
    decided and why, and what is wrong with the cache, shard by shard.
    """

    batch: int
    timestamp: datetime
    join: str
    watermark: datetime | None
    results: int
    probes: int
    capped: int
    cache_hits: int
    cache_misses: int
    cache_damaged: int
    cache_unsaved: int
    step_ms: int
    steps: int
    streams: Mapping[str, StreamCounters]
    notes: list[str]
    largest: Largest

    @property
    def rows(self) -> int:
        """Rows in, over all streams."""
        return self._sum("rows")

    @property
    def late(self) -> int:
        """Rows dropped because they were older than the watermark."""
        return self._sum("late")

    @property
    def state_rows(self) -> int:
        """Rows stored, over all streams."""
        return self._sum("state_rows")

    @property
    def state_bytes(self) -> int:
        """Bytes stored, over all streams."""
        return self._sum("state_bytes")

    def __str__(self) -> str:
        """The record in a few lines: all that is not zero."""
        watermark = f"watermark {_time_text(self.watermark)}" if self.watermark else "no watermark"
        shards = f"{self.steps:,} shards" if self.steps != 1 else "1 shard"
        lines = [
            f"{self.join}, micro-batch {self.batch} at {_time_text(self.timestamp)}, {watermark}",
            f"{self.rows:,} rows in, {self.results:,} results, {self.step_ms:,} ms in {shards}",
            *(f"{name}: {_stream_text(counted)}" for name, counted in self.streams.items()),
            _counted_text({field.name: getattr(self, field.name) for field in fields(self)}, _SAID),
        ]
        if self.largest.fanout:
            of = f"{self.largest.stream}, key {self.largest.key}"
            lines.append(f"most results of one row: {self.largest.fanout:,}, of {of}")
        return "\n  ".join(line for line in [*lines, *self.notes] if line)

    def flat(self) -> dict[str, object]:
        """All numbers by name, those of a stream as ``views.rows``; notes as text."""
        found: dict[str, object] = {}
        for name in [field.name for field in fields(self)]:
            value = getattr(self, name)
            if name == "streams":
                for stream, counted in value.items():
                    found |= {f"{stream}.{each}": n for each, n in asdict(counted).items()}
            elif name == "largest":
                found |= {f"largest.{each}": part for each, part in asdict(value).items()}
            else:
                found[name] = "\n".join(value) if name == "notes" else value
        return found

    def _sum(self, name: str) -> int:
        return sum(getattr(stream, name) for stream in self.streams.values())


@dataclass(frozen=True)
class JoinMetrics(StepMetrics):
    """One micro-batch of one join of streams."""

    streams: Mapping[str, JoinStreamCounters]

    @property
    def unproven(self) -> int:
        """Stored rows of preserved streams that may still come out unmatched."""
        return self._sum("unproven")


class MetricsTable(list[StepMetrics]):
    """Records, oldest first: a list that a notebook shows as a table."""

    def to_pandas(self) -> pd.DataFrame:
        """A row for each record, with a column for each number. Those of a stream are called
        ``views.rows``, and so on; what a record does not count is missing."""
        frame = pd.DataFrame([record.flat() for record in self])
        for name in ("timestamp", "watermark"):
            if name in frame:
                frame[name] = pd.to_datetime(frame[name], utc=True)
        return frame

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        """The last records, with the columns in which any has a number."""
        frame = self.to_pandas()
        said = [name for name in frame if any(map(_says, frame[name]))]
        shown = frame[said].tail(_SHOWN).to_html(index=False, na_rep="")
        left = len(self) - _SHOWN
        return f"{shown}\n<p>and {left:,} before</p>" if left > 0 else shown


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S %Z}"


def _stream_text(counted: StreamCounters) -> str:
    """What was counted of a stream, in words."""
    parts = [f"{counted.rows:,} rows in", _counted_text(asdict(counted), _STREAM_SAID)]
    if counted.state_rows:
        size = sizes.format(counted.state_bytes)
        parts.append(f"{counted.state_rows:,} stored in {size}, segments {counted.segments:,}")
    return ", ".join(part for part in parts if part)


def _counted_text(values: Mapping[str, object], said: tuple[str, ...]) -> str:
    """The numbers that are not zero, and not said elsewhere."""
    numbers = {name: n for name, n in values.items() if isinstance(n, int) and name not in said}
    return ", ".join(f"{name} {number:,}" for name, number in numbers.items() if number)


def _says(value: object) -> bool:
    """Is there anything to show?"""
    return not pd.isna(value) and value not in (0, "")
