"""In which order a step processes new rows.

Any order gives the same result: of two rows that match, the later one probes the earlier. The
order decides how much has to be stored meanwhile, and which results are emitted first (metadata
paper, sections 4.1 and 4.2).

**Streams.** *Priority*: a stream with unique keys first, up to a quota of rows, then the other up
to the same quota, and so on. Rows of the many side then find their only match at once, and are
not stored. *Random*: a run of either stream. (For other orders see :mod:`.drivers`.)

**Rows of a stream.** *Sequential*: as they came. *Value-oriented*: first the rows with a key that
a punctuation of this micro-batch, or a waiting one, is about. So punctuations are handed on, and
what they close is purged, before the other rows are processed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.policy import Schedule
from watersmeet.rows.columns import Bools

#: New rows of each stream; None where there are none.
Rows = Sequence[pa.RecordBatch | None]

#: The orders of streams that :func:`runs` knows.
STREAM_ORDERS = ("priority", "random")
#: A random schedule takes runs of this many rows, unless a quota is given.
_RUN = 1024


def runs(
    rows: Rows, unique: Sequence[bool], schedule: Schedule
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The new rows of all streams, run by run, each with its stream.

    >>> a, b = (pa.RecordBatch.from_pydict({"n": values}) for values in ([1, 2, 3], [4, 5]))
    >>> ordered = runs([a, b], [False, True], Schedule(quota=2))
    >>> [(stream, run.column("n").to_pylist()) for stream, run in ordered]
    [(1, [4, 5]), (0, [1, 2]), (0, [3])]
    """
    lengths = [0 if batch is None else len(batch) for batch in rows]
    starts = [0] * len(rows)
    order = sorted(range(len(rows)), key=lambda stream: not unique[stream])
    dice = np.random.default_rng(sum(lengths))  # the same each time the batch is run
    while any(start < length for start, length in zip(starts, lengths, strict=True)):
        open_ = [stream for stream in order if starts[stream] < lengths[stream]]
        if schedule.streams == "random":
            open_ = [open_[int(dice.integers(len(open_)))]]
        for stream in open_:
            batch = rows[stream]
            assert batch is not None, "an open stream has rows"
            limit = schedule.quota or (_RUN if schedule.streams == "random" else lengths[stream])
            yield stream, batch.slice(starts[stream], limit)
            starts[stream] += limit


def punctuated_first(
    rows: Rows, is_punctuated: Callable[[int, pa.RecordBatch], Bools]
) -> tuple[Rows, Rows]:
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


def with_only(chunks: Iterable[Rows]) -> Iterator[tuple[Rows, bool]]:
    """Each chunk, and whether it is the only one of its micro-batch.

    >>> list(with_only([[None]])), list(with_only([[None], [None]]))
    ([([None], True)], [([None], False), ([None], False)])
    """
    first = True
    waiting: Rows | None = None
    for chunk in chunks:
        if waiting is not None:
            yield waiting, False
            first = False
        waiting = chunk
    if waiting is not None:
        yield waiting, first
