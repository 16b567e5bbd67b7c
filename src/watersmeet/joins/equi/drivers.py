"""Which stream's new rows drive the join next (multiway paper, section 3.2).

New rows of a micro-batch may be processed in any order: the result is the same, and each
combination is emitted with the last of its rows. The order decides how much work there is, which
results are emitted first, and which stream's rows are processed first.

Two policies interleave the streams, in short runs:

- ``timestamp``: all streams in order of time;
- ``round-robin``: a run of each stream in turn.

Three process all new rows of a stream at once, and order the streams:

- ``consumption-rate``: first the stream that usually brings most rows;
- ``initial-output-size``: first the stream whose new rows are expected to make most results:
  their number times the rows stored of every other stream (equation 1; the join's selectivity
  is common to all streams, and does not change the order);
- ``output-rate``: first the stream of which one row is expected to make most results.

**Example.** Stream a brings 30 new rows and has 100 stored; it usually brings 3. Stream b brings 2
new rows and has 10 stored; it usually brings 8::

                           score of a      score of b       first
    consumption-rate       3               8                b
    initial-output-size    30 * 10 = 300   2 * 100 = 200    a
    output-rate            10              100              b
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.joins.operator import Chunk
from watersmeet.rows.columns import times_of

Run = tuple[int, pa.RecordBatch]
#: The stream with the highest score comes next. A score is computed from: a stream, the new rows of
#: each stream, the stored rows of each, and the rows that each usually brings.
Score = Callable[[int, Sequence[int], Sequence[int], Sequence[float]], float]

#: The interleaving policies cut a micro-batch into about this many runs of each stream.
RUNS = 16


def _others(stored: Sequence[int], stream: int) -> float:
    """The number of combinations of stored rows, one of every other stream."""
    return math.prod(float(rows) for i, rows in enumerate(stored) if i != stream)


_SCORES: dict[str, Score] = {
    "consumption-rate": lambda s, _new, _stored, usual: usual[s],
    "initial-output-size": lambda s, new, stored, _usual: new[s] * _others(stored, s),
    "output-rate": lambda s, _new, stored, _usual: _others(stored, s),
}


def driven(
    policy: str,
    rows: Chunk,
    stored: Callable[[], Sequence[int]],
    usual: Sequence[float],
) -> Iterator[Run]:
    """New rows of all streams, run by run, each with its stream. ``stored`` returns how many
    rows are stored of each stream now; ``usual`` is how many each brings on average.

    >>> a, b = (pa.RecordBatch.from_pydict({"n": values}) for values in ([1, 2, 3], [4, 5]))
    >>> runs = driven("initial-output-size", [a, b], lambda: [100, 10], usual=[3, 2])
    >>> [stream for stream, _ in runs]  # 3 * 10 results of a, 2 * 100 of b
    [1, 0]
    """
    if policy == "timestamp":
        return _in_time(rows)
    if policy == "round-robin":
        return _in_turn(rows)
    return _by_score(_SCORES[policy], rows, stored, usual)


def _by_score(
    score: Score, rows: Chunk, stored: Callable[[], Sequence[int]], usual: Sequence[float]
) -> Iterator[Run]:
    new = [0 if batch is None else len(batch) for batch in rows]
    left = [stream for stream, count in enumerate(new) if count]
    while left:
        now = stored()
        best = max(left, key=lambda stream: score(stream, new, now, usual))
        left.remove(best)
        batch = rows[best]
        assert batch is not None, "a stream with new rows has a batch"
        yield best, batch


def _in_turn(rows: Chunk) -> Iterator[Run]:
    ordered = {s: by_time(batch) for s, batch in enumerate(rows) if batch is not None}
    total = sum(len(batch) for batch in ordered.values())
    size = max(1, -(-total // (RUNS * max(len(ordered), 1))))
    longest = max((len(batch) for batch in ordered.values()), default=0)
    for start in range(0, longest, size):
        for stream, batch in ordered.items():
            if start < len(batch):
                yield stream, batch.slice(start, size)


def _in_time(rows: Chunk) -> Iterator[Run]:
    ordered = {s: by_time(b) for s, b in enumerate(rows) if b is not None and len(b)}
    if not ordered:
        return
    times = {stream: times_of(batch) for stream, batch in ordered.items()}
    every = np.sort(np.concatenate(list(times.values())))
    size = max(1, -(-len(every) // RUNS))
    ends = [int(every[end]) for end in range(size, len(every), size)]
    starts = dict.fromkeys(ordered, 0)
    for end in [*ends, None]:
        runs = []
        for stream, batch in ordered.items():
            first = starts[stream]
            last = len(batch) if end is None else int(np.searchsorted(times[stream], end))
            if last > first:
                runs.append((int(times[stream][first]), stream, batch.slice(first, last - first)))
                starts[stream] = last
        for _, stream, run in sorted(runs, key=lambda run: run[:2]):
            yield stream, run


def by_time(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in order of time."""
    times = times_of(rows)
    if (times[1:] >= times[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(times, kind="stable")))
