"""Value-oriented processing: rows with a key that a punctuation is about come first.

A punctuation of a micro-batch, or one that waits, is then handed on, and what it closes is purged,
before the other rows are processed (metadata paper, section 4.2). A punctuation takes effect after
all rows of its micro-batch that it is about: so these rows must be in one chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from watersmeet.joins.operator import Chunk
from watersmeet.rows.columns import Bools


def punctuated_first(
    rows: Chunk, is_punctuated: Callable[[int, pa.RecordBatch], Bools]
) -> tuple[Chunk, Chunk]:
    """Two groups of each stream's new rows: those with a key that a punctuation is about, and
    the others."""
    first: list[pa.RecordBatch | None] = [None] * len(rows)
    later: list[pa.RecordBatch | None] = [None] * len(rows)
    for stream, batch in enumerate(rows):
        if batch is not None:
            punctuated = is_punctuated(stream, batch)
            first[stream] = batch.filter(pa.array(punctuated))
            later[stream] = batch.filter(pa.array(~punctuated))
    return first, later


def with_only(chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bool]]:
    """Each chunk, and whether it is the only one of its micro-batch.

    >>> list(with_only([[None]])), list(with_only([[None], [None]]))
    ([([None], True)], [([None], False), ([None], False)])
    """
    first = True
    waiting: Chunk | None = None
    for chunk in chunks:
        if waiting is not None:
            yield waiting, False
            first = False
        waiting = chunk
    if waiting is not None:
        yield waiting, first
