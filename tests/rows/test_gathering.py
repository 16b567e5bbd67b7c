"""Gathering small batches into larger ones."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.rows.gathering import Gathering


def batch(*sizes: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"text": ["x" * size for size in sizes]})


def test_a_large_batch_is_handed_on_as_it_is_and_after_what_waits() -> None:
    gathering, large = Gathering(rows=100, size=1000), batch(5000)
    assert list(gathering.add(batch(1, 2))) == []
    waited, alone = gathering.add(large)
    assert waited == batch(1, 2)
    assert alone is large
    assert list(gathering.rest()) == []


def test_nothing_that_is_gathered_takes_twice_the_limit() -> None:
    gathering = Gathering(rows=1000, size=1000)
    sizes = [900, 990, 1, 2000, 400, 400, 400, 990, 990]
    found = [out for size in sizes for out in gathering.add(batch(size))]
    found += gathering.rest()
    assert all(out.nbytes < 2000 or len(out) == 1 for out in found)
    texts = [len(text) for out in found for text in out.column("text").to_pylist()]
    assert texts == sizes
