"""Spark's watermark, and which rows it makes late.

In batch n the watermark is the least, over the streams that have a time, of the
greatest time in batches before n minus the stream's delay, in whole
milliseconds. There is none before every such stream has had a row, nor at or
before 1970. It never goes back. A row is late if its time is at or behind it. A row
of a stream that brings its own watermark is late, as in Spark's own operators, if
its time is at or behind the watermark of the batch before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    delays: Mapping[str, int] | Sequence[Mapping[str, int]],
    own: Collection[str] = (),
) -> Arrivals:
    """The rows that arrive in time and those that do not. Every batch names every stream;
    ``delays`` are in microseconds, for the streams that have a time: those of all batches, or
    one after the other. The streams in ``own`` bring their own watermark."""
    delayed = [delays] * len(batches) if isinstance(delays, Mapping) else delays
    seen: dict[str, int] = {}
    watermarks: list[int | None] = [None]
    accepted: dict[str, list[pa.Table]] = {name: [] for name in times}
    late: dict[str, list[pa.Table]] = {name: [] for name in times}
    for batch, delay in zip(batches, delayed, strict=True):
        for name, rows in batch.items():
            instants = _microseconds(rows, times[name])
            threshold = watermarks[-2:][0] if name in own else watermarks[-1]
            is_late = [_at_or_behind(instant, threshold) for instant in instants]
            accepted[name].append(rows.filter(pa.array([not it for it in is_late], pa.bool_())))
            late[name].append(rows.filter(pa.array(is_late, pa.bool_())))
        for name, rows in batch.items():
            known = [i for i in _microseconds(rows, times[name]) if i is not None]
            if known:
                bound = max(known) // 1000 - -(-delay[name] // 1000)
                seen[name] = max(bound, seen.get(name, bound))
        watermarks.append(_advanced(watermarks[-1], seen, times))
    return Arrivals(
        {name: pa.concat_tables(tables) for name, tables in accepted.items()},
        {name: pa.concat_tables(tables) for name, tables in late.items()},
        [{name: late[name][n].num_rows for name in times} for n in range(len(batches))],
        watermarks,
    )


def _advanced(
    watermark: int | None, seen: Mapping[str, int], times: Mapping[str, str | None]
) -> int | None:
    """The watermark after a batch; ``seen`` is, in milliseconds, the greatest of time - delay."""
    timed = [name for name, time in times.items() if time is not None]
    if not timed or any(name not in seen for name in timed):
        return watermark
    milliseconds = min(seen[name] for name in timed)
    if milliseconds <= 0:
        return watermark
    return max(milliseconds * 1000, watermark or 0)


def _microseconds(rows: pa.Table, time: str | None) -> list[int | None]:
    if time is None:
        return [None] * rows.num_rows
    return rows.column(time).cast(pa.int64()).to_pylist()


def _at_or_behind(instant: int | None, watermark: int | None) -> bool:
    return instant is not None and watermark is not None and instant <= watermark
