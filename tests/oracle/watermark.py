"""Spark's watermark, and which rows it makes late.

In batch n the watermark is the least, over the streams that have a time, of the
greatest time in batches before n minus the stream's delay, in whole
milliseconds. There is none before every such stream has had a row, nor at or
before 1970. It never goes back. A row is late if its time is at or behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Arrivals:
    """What the watermark made of the batches. ``watermarks[n]``, in microseconds, is
    the one in force in batch n; the last one is in force after all batches."""

    accepted: dict[str, pa.Table]
    late: dict[str, pa.Table]
    late_in_batch: list[dict[str, int]]
    watermarks: list[int | None]


def split_late(
    batches: Sequence[Mapping[str, pa.Table]],
    *,
    times: Mapping[str, str | None],
    delays: Mapping[str, int],
) -> Arrivals:
    """The rows that arrive in time and those that do not. Every batch names every stream;
    ``delays`` are in microseconds, for the streams that have a time."""
    greatest: dict[str, int] = {}
    watermarks: list[int | None] = [None]
    accepted: dict[str, list[pa.Table]] = {name: [] for name in times}
    late: dict[str, list[pa.Table]] = {name: [] for name in times}
    for batch in batches:
        for name, rows in batch.items():
            instants = _microseconds(rows, times[name])
            is_late = [_at_or_behind(instant, watermarks[-1]) for instant in instants]
            accepted[name].append(rows.filter(pa.array([not it for it in is_late], pa.bool_())))
            late[name].append(rows.filter(pa.array(is_late, pa.bool_())))
        for name, rows in batch.items():
            seen = [instant for instant in _microseconds(rows, times[name]) if instant is not None]
            if seen:
                greatest[name] = max([*seen, greatest.get(name, seen[0])])
        watermarks.append(_advanced(watermarks[-1], greatest, times, delays))
    return Arrivals(
        {name: pa.concat_tables(tables) for name, tables in accepted.items()},
        {name: pa.concat_tables(tables) for name, tables in late.items()},
        [{name: late[name][n].num_rows for name in times} for n in range(len(batches))],
        watermarks,
    )


def _advanced(
    watermark: int | None,
    greatest: Mapping[str, int],
    times: Mapping[str, str | None],
    delays: Mapping[str, int],
) -> int | None:
    timed = [name for name, time in times.items() if time is not None]
    if not timed or any(name not in greatest for name in timed):
        return watermark
    milliseconds = min(greatest[name] // 1000 - -(-delays[name] // 1000) for name in timed)
    if milliseconds <= 0:
        return watermark
    return max(milliseconds * 1000, watermark or 0)


def _microseconds(rows: pa.Table, time: str | None) -> list[int | None]:
    if time is None:
        return [None] * rows.num_rows
    return rows.column(time).cast(pa.int64()).to_pylist()


def _at_or_behind(instant: int | None, watermark: int | None) -> bool:
    return instant is not None and watermark is not None and instant <= watermark
