"""Late rows by Spark's own watermark, and which watermarks it may have."""

from __future__ import annotations

import pyarrow as pa
import pytest

from soak.case import MicroBatch
from soak.lateness import accepted, check_watermarks

SECOND = 1_000_000
TIMES = {"a": "t", "b": "t"}


def at(*seconds: int | None) -> pa.Table:
    micros = [None if second is None else second * SECOND for second in seconds]
    return pa.table({"t": pa.array(micros, pa.int64()).cast(pa.timestamp("us", "UTC"))})


def batch(watermark: int | None, a: pa.Table, b: pa.Table) -> MicroBatch:
    return MicroBatch({"a": a, "b": b}, None if watermark is None else watermark * SECOND)


BATCHES = [
    batch(None, at(100), at(110)),
    batch(90, at(89, 90, 91, None), at()),
    batch(90, at(91), at(85)),
]


def times(tables: list[pa.Table]) -> list[list[int | None]]:
    return [
        [None if t is None else t // SECOND for t in table.column("t").cast(pa.int64()).to_pylist()]
        for table in tables
    ]


def test_a_row_at_the_watermark_is_late_and_one_without_a_time_is_not() -> None:
    assert times(accepted(BATCHES, "a", "t")) == [[100], [91, None], [91]]
    assert times(accepted(BATCHES, "a", None)) == [[100], [89, 90, 91, None], [91]]


def test_a_stream_with_its_own_watermark_is_judged_by_the_one_before() -> None:
    assert times(accepted(BATCHES, "a", "t", own_watermark=True)) == [
        [100],
        [89, 90, 91, None],
        [91],
    ]
    assert times(accepted(BATCHES, "b", "t", own_watermark=True)) == [[110], [], []]


def check(*batches: MicroBatch, least: int = 10, most: int = 20) -> None:
    delays = [dict.fromkeys(TIMES, delay * SECOND) for delay in (least, most)]
    check_watermarks(batches, times=TIMES, least=delays[0], most=delays[1])


def test_a_watermark_may_be_that_of_any_delay() -> None:
    for watermark in (80, 85, 90):
        check(batch(None, at(100), at(110)), batch(watermark, at(), at()))


def test_a_restart_may_forget_how_far_a_stream_has_come() -> None:
    first = [batch(None, at(100), at()), batch(None, at(), at(100))]
    check(*first, batch(90, at(), at()))
    check(*first, batch(None, at(), at()))


@pytest.mark.parametrize("watermark", [None, 79, 91])
def test_a_watermark_that_spark_cannot_have_is_told(watermark: int | None) -> None:
    with pytest.raises(AssertionError, match="micro-batch 1 had the watermark"):
        check(batch(None, at(100), at(110)), batch(watermark, at(), at()))


def test_a_watermark_never_goes_back() -> None:
    with pytest.raises(AssertionError, match="micro-batch 2"):
        check(batch(None, at(100), at(100)), batch(90, at(), at()), batch(85, at(), at()))
