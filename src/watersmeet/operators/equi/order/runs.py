"""In which order a step takes new rows.

Any order gives the same result: of two rows that match, the one that comes later meets the
other. What differs is how much has to be stored meanwhile, and what comes out first
(metadata paper, sections 4.1 and 4.2).

**Streams.** *Priority*: a stream with unique keys first, up to a quota of rows, then the
other up to the same quota, and so on. Rows of the many side then find their one, and are
not stored. *Random*: either, a run at a time.

**Rows of a stream.** *Sequential*: as they came. *Value-oriented*: those first whose key a
punctuation of this micro-batch, or one that waits, is about; the others wait. So
punctuations leave, and what they close is purged, before the rest comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.spec.policy import Schedule

STREAM_ORDERS = ("priority", "random")
ROW_ORDERS = ("sequential", "value")
#: A random schedule takes runs of so many rows, unless a quota is given.
_RUN = 1024


def runs(
    rows: Sequence[pa.RecordBatch | None], unique: Sequence[bool], schedule: Schedule
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The new rows of all streams, run by run, each with its stream.

    >>> a, b = (pa.RecordBatch.from_pydict({"n": values}) for values in ([1, 2, 3], [4, 5]))
    >>> taken = runs([a, b], [False, True], Schedule(quota=2))
    >>> [(stream, run.column("n").to_pylist()) for stream, run in taken]
    [(1, [4, 5]), (0, [1, 2]), (0, [3])]
    """
    lengths = [0 if batch is None else len(batch) for batch in rows]
    taken = [0] * len(rows)
    order = sorted(range(len(rows)), key=lambda stream: not unique[stream])
    chance = np.random.default_rng(sum(lengths))  # the same each time the batch is run
    while any(done < length for done, length in zip(taken, lengths, strict=True)):
        open_ = [stream for stream in order if taken[stream] < lengths[stream]]
        if schedule.streams == "random":
            open_ = [open_[int(chance.integers(len(open_)))]]
        for stream in open_:
            batch = rows[stream]
            assert batch is not None, "an open stream has rows"
            limit = schedule.quota or (_RUN if schedule.streams == "random" else lengths[stream])
            yield stream, batch.slice(taken[stream], limit)
            taken[stream] += limit


def by_value(
    rows: Sequence[pa.RecordBatch | None],
    awaited: Callable[[int, pa.RecordBatch], npt.NDArray[np.bool_]],
) -> tuple[list[pa.RecordBatch | None], list[pa.RecordBatch | None]]:
    """The rows that a punctuation is about, and those that wait for it."""
    first: list[pa.RecordBatch | None] = [None] * len(rows)
    later: list[pa.RecordBatch | None] = [None] * len(rows)
    for stream, batch in enumerate(rows):
        if batch is not None:
            about = awaited(stream, batch)
            first[stream] = batch.filter(pa.array(about))
            later[stream] = batch.filter(pa.array(~about))
    return first, later


def only_one(
    chunks: Iterable[Sequence[pa.RecordBatch | None]],
) -> Iterator[tuple[Sequence[pa.RecordBatch | None], bool]]:
    """Each chunk, and whether it is the only one: a punctuation takes effect when all rows
    of its micro-batch have been taken."""
    first = True
    waiting: Sequence[pa.RecordBatch | None] | None = None
    for chunk in chunks:
        if waiting is not None:
            yield waiting, False
            first = False
        waiting = chunk
    if waiting is not None:
        yield waiting, first
