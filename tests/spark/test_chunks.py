"""Chunks are the same, however the shuffle orders capsules. Without a JVM."""

from __future__ import annotations

import random
import tempfile
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from watersmeet.joins.operator import Chunk
from watersmeet.joins.ring.advice import Measurements
from watersmeet.rows.columns import CODE, TIME
from watersmeet.spark.query.capsule import payloads
from watersmeet.spark.query.chunks import Capsule, chunks


def capsule(stream: int, times: list[int | None], code: int = 0) -> Capsule:
    columns = {
        CODE: pa.array([code] * len(times), pa.int64()),
        TIME: pa.array(times, pa.int64()).view(pa.timestamp("us", "UTC")),
    }
    [payload] = payloads([pa.RecordBatch.from_pydict(columns)])
    return stream, payload.as_py()


#: Two streams; capsules of equal times, and some without any.
CAPSULES = [
    *(capsule(number % 2, [10 * number, 10 * number + 1], number) for number in range(20)),
    *(capsule(number % 2, [500, 400], number) for number in range(5)),
    capsule(0, [None, None]),
    (1, payloads([pa.RecordBatch.from_pydict({CODE: [7]})])[0].as_py()),
]


def taken(
    capsules: list[Capsule], limit: int, *, inputs: int = 2
) -> list[list[dict[str, Any] | None]]:
    def shown(chunk: Chunk) -> list[dict[str, Any] | None]:
        return [None if rows is None else rows.to_pydict() for rows in chunk]

    return [shown(chunk) for chunk in chunks(iter(capsules), inputs=inputs, limit=limit)]


def without_time(capsules: list[Capsule]) -> list[Capsule]:
    return [it for it in capsules if it != CAPSULES[-1]]


@pytest.mark.parametrize("limit", [1, 1_000, 1 << 20], ids=["each", "some", "all"])
def test_the_order_of_capsules_does_not_matter(limit: int) -> None:
    given = without_time(CAPSULES)
    expected = taken(given, limit)
    assert len(expected) == 1 if limit > 1_000 else len(expected) > 3
    for seed in range(10):
        assert taken(random.Random(seed).sample(given, len(given)), limit) == expected


@pytest.mark.parametrize("limit", [1, 1_000, 1 << 20], ids=["each", "some", "all"])
def test_every_row_is_in_one_chunk_for_its_stream(limit: int) -> None:
    given = without_time(CAPSULES)
    found = [[], []]  # type: list[list[int]]
    for chunk in taken(given, limit):
        for stream, rows in enumerate(chunk):
            found[stream] += [] if rows is None else rows[CODE]
    assert sorted(found[0]) == sorted([*range(0, 20, 2)] * 2 + [0, 2, 4] * 2 + [0, 0])
    assert sorted(found[1]) == sorted([*range(1, 20, 2)] * 2 + [1, 3] * 2)


def test_earlier_rows_come_first_whatever_their_stream() -> None:
    later, earlier = capsule(0, [20]), capsule(1, [10])
    times = [
        [None if rows is None else rows.column(TIME).cast(pa.int64()).to_pylist() for rows in chunk]
        for chunk in chunks(iter([later, earlier]), inputs=2, limit=1)
    ]
    assert times == [[None, [10]], [[20], None]]


def test_rows_need_no_time() -> None:
    [[none, rows]] = taken([CAPSULES[-1]], 1 << 20)
    assert none is None
    assert rows == {CODE: [7]}


def test_without_capsules_there_is_one_empty_chunk() -> None:
    assert taken([], 100) == [[None, None]]


def test_a_file_is_made_only_for_more_than_a_chunk() -> None:
    with mock.patch.object(tempfile, "TemporaryFile", wraps=tempfile.TemporaryFile) as made:
        taken(CAPSULES[:3], 1 << 20)
        assert made.call_count == 0
        taken(CAPSULES[:3], 1)
        assert made.call_count == 1


def test_a_chunk_takes_at_most_the_limit_or_is_one_capsule() -> None:
    # Given capsules of both streams, some of them wider than a chunk,
    widths = [10, 70, 500, 20, 20, 500, 500, 1, 1]
    capsules = [capsule(i % 2, [i] * width, code=i) for i, width in enumerate(widths)]
    limit = 2 * len(capsules[0][1]) + 200
    # when they are cut into chunks,
    found = [
        [code for rows in chunk if rows for code in set(rows[CODE].to_pylist())]
        for chunk in chunks(iter(capsules), inputs=2, limit=limit)
    ]
    # then each is a single capsule, or takes no more than the limit.
    sizes = [[len(capsules[code][1]) for code in codes] for codes in found]
    assert sorted(code for codes in found for code in codes) == list(range(len(widths)))
    assert all(len(of_chunk) == 1 or sum(of_chunk) <= limit for of_chunk in sizes)
    assert any(len(of_chunk) > 1 for of_chunk in sizes)


def measurements(seconds: float) -> Capsule:
    """What a hop of a join without a key hands on: another time is measured in every execution."""
    measured = Measurements([10.0, 20.0], {"0": 5.0}, 60.0, {"0": seconds / 2}, {"0": seconds})
    return 0, payloads([measured.to_batch(conditions=1)])[0].as_py()


@pytest.mark.parametrize("limit", [1, 2_000, 4_000, 8_000])
def test_what_is_measured_does_not_decide_how_rows_are_cut(limit: int) -> None:
    # Given partial results, which have no time, of several sizes, and rows that have one,
    partial: list[Capsule] = [
        (1, payloads([pa.RecordBatch.from_pydict({CODE: [n] * (1 + 60 * (n % 5))})])[0].as_py())
        for n in range(20)
    ]
    given = [*partial, *(capsule(2, [10 * n], n) for n in range(10))]
    # when what was measured differs: short numbers, long ones, very small ones,
    found = []
    for seconds in [0.0, 1.0, 1 / 3, 1e-7, *(1 / n for n in range(3, 40))]:
        cut = taken([*given, measurements(seconds)], limit, inputs=3)
        found.append([rows for _, *rows in cut])
    # then the chunks of all others are the same.
    assert len(found[0]) > 1
    assert all(rows == found[0] for rows in found)


def test_what_is_measured_does_not_decide_whether_rows_are_cut() -> None:
    # Given rows that are just a chunk, together with what was measured,
    given = [capsule(1, [n], n) for n in range(3)]
    limit = sum(len(payload) for _, payload in [*given, measurements(0.0)])
    # when other times are measured, then they are one chunk, too.
    assert [len(taken([*given, measurements(s)], limit)) for s in (0.0, 1 / 3, 1e-7)] == [1, 1, 1]
