"""Master rows are copied out of partitions, and answered together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.joins.enrich.disk_phase import MasterBuffer
from watersmeet.rows.columns import CODE
from watersmeet.segments.segment import Segment


def partition(*codes: int) -> Segment:
    return Segment(
        pa.RecordBatch.from_pydict({CODE: pa.array(codes), "value": pa.array(codes)}), 0, 0
    )


def found(buffer: MasterBuffer, *, rest: bool) -> list[tuple[int, list[int]]]:
    """Each key that was fetched, with the values of its rows."""
    return [
        (int(key), master.rows.column("value")[int(start) : int(stop)].to_pylist())
        for master, keys, low, high in (buffer.rest() if rest else buffer.full())
        for key, start, stop in zip(keys, low, high, strict=True)
    ]


def test_rows_of_several_partitions_are_held_together() -> None:
    # Given rows of two partitions, one key in both of them,
    buffer = MasterBuffer(1000)
    buffer.add(partition(4, 4, 5), np.array([0, 1]), np.array([0, 2]), np.array([2, 3]))
    buffer.add(partition(5, 6, 9), np.array([1, 3]), np.array([0, 2]), np.array([1, 3]))
    # when there are not many yet, then they wait,
    assert found(buffer, rest=False) == []
    # and then come together, once.
    assert found(buffer, rest=True) == [(0, [4, 4]), (1, [5]), (1, [5]), (3, [9])]
    assert found(buffer, rest=True) == []


def test_no_more_is_held_than_twice_the_limit() -> None:
    buffer, wide = MasterBuffer(160), partition(*range(20))
    low = np.arange(20)
    assert not buffer.takes(wide, low, low + 1)
    held = []
    for key in range(20):
        there = np.array([key])
        assert buffer.takes(wide, there, there + 1)
        buffer.add(wide, there, there, there + 1)
        held.append(len(found(buffer, rest=False)))
    assert set(held) == {0, 10}
