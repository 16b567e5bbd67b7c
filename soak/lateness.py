"""Which rows are late, by the watermark that Spark wrote down for each micro-batch.

Spark forgets at a restart how far each stream has come, and keeps only the watermark. So after a
restart the watermark may stand still for longer than without one, and what is late depends on when
a query was killed. The oracle therefore takes Spark's own watermark, and :func:`check_watermarks`
makes sure that it is one Spark may have: not above that of a run without restarts, and not below
that of a run that is restarted before every micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from soak.case import MicroBatch
from tests.oracle import split_late


def accepted(
    batches: Sequence[MicroBatch], stream: str, time: str | None, *, own_watermark: bool = False
) -> list[pa.Table]:
    """The rows of a stream that are not late, for each micro-batch. A stream that brings its own
    watermark is judged by that of the micro-batch before."""
    watermarks = [batch.watermark for batch in batches]
    if own_watermark:
        watermarks = [None, *watermarks[:-1]]
    return [
        _above(batch.rows[stream], time, watermark)
        for batch, watermark in zip(batches, watermarks, strict=True)
    ]


def _above(rows: pa.Table, time: str | None, watermark: int | None) -> pa.Table:
    if time is None or watermark is None:
        return rows
    above = pc.greater(rows.column(time).cast(pa.int64()), watermark)
    return rows.filter(pc.fill_null(above, True))


def check_watermarks(
    batches: Sequence[MicroBatch],
    *,
    times: Mapping[str, str | None],
    least: Mapping[str, int],
    most: Mapping[str, int],
) -> None:
    """Fail if Spark cannot have had these watermarks; ``least`` and ``most`` are the bounds, in
    microseconds, of the delays that the streams have had."""
    arrived = [batch.rows for batch in batches]
    highest = split_late(arrived, times=times, delays=least).watermarks
    lowest = 0
    for number, batch in enumerate(batches):
        bounds = lowest, highest[number] or 0
        assert bounds[0] <= (batch.watermark or 0) <= bounds[1], (
            f"micro-batch {number} had the watermark {batch.watermark}, not one within {bounds}"
        )
        alone = split_late([batch.rows], times=times, delays=most).watermarks[1]
        lowest = max(batch.watermark or 0, alone or 0)
