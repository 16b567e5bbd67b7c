"""How fast this machine probes: the weights of the cost model, measured.

That takes a fraction of a second, once a host: the figures are kept beside the segment cache. They
decide whether a window gets an index, and never change a result, so a noisy measurement does no
harm.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa

from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.cost.engine import Weights
from watersmeet.cost.slices import SliceWeights
from watersmeet.rows.columns import CODE, TIME
from watersmeet.rows.ipc import from_ipc, write_ipc
from watersmeet.segments.probe import probe
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.state.cache.file import whole_file
from watersmeet.state.cache.folder import cache_folder
from watersmeet.state.shard import ShardState
from watersmeet.state.store import MemoryStore

_STORED = 400_000
_NEW = 20_000
_KEYS = 100_000
#: Raised when something else is measured.
_VERSION = 2
#: How many pairs are compared, and how many rows are sent, to measure their cost.
_PAIRS = 200_000
_SENT = 1_000
#: A measurement runs at least and at most so many times, for so many seconds in all.
_RUNS = (3, 50)
_ENOUGH = 0.03
#: On other systems the clock of a process has ticks of 15 ms, longer than most measurements.
_clock = time.process_time if os.name == "posix" else time.perf_counter

AnyWeights = TypeVar("AnyWeights", Weights, SliceWeights)


_known: list[Weights] = []
_known_of_slices: list[SliceWeights] = []


def weights(configured: str | None = None) -> Weights:
    """This machine's weights: as this process knows them, from the folder of the local cache (see
    :func:`~watersmeet.state.cache.folder.cache_folder`), or measured now and put there."""
    if not _known:
        _known.append(_read_or_measured(cache_folder(configured).path, Weights, measure))
    return _known[0]


def slice_weights(configured: str | None = None) -> SliceWeights:
    """This machine's weights of joins without a key, likewise."""
    if not _known_of_slices:
        folder = cache_folder(configured).path
        _known_of_slices.append(_read_or_measured(folder, SliceWeights, measure_slices))
    return _known_of_slices[0]


def forget() -> None:
    """Have the weights read or measured again."""
    _known.clear()
    _known_of_slices.clear()


def _read_or_measured(
    folder: str | None, kind: Callable[..., AnyWeights], measure: Callable[[], AnyWeights]
) -> AnyWeights:
    if folder is None:
        return measure()
    name = "weights" if kind is Weights else "slice-weights"
    path = os.path.join(folder, f"{name}-{_VERSION}.json")
    with contextlib.suppress(OSError, ValueError, TypeError), open(path) as file:
        return kind(**json.load(file))
    measured = measure()
    with contextlib.suppress(OSError), whole_file(path) as temporary, open(temporary, "w") as file:
        json.dump(asdict(measured), file)
    return measured


def measure() -> Weights:
    """Measure the weights on this machine, with the very functions that a join uses."""
    random = np.random.default_rng(0)
    stored, new, few = (_rows(random, count) for count in (_STORED, _NEW, 1))
    # Codes that no stored row has: a scan that finds nothing.
    strangers = _rows(random, _NEW, first=_KEYS)
    indexed = Segment.of(stored).indexed()
    parts = [Segment.of(stored.slice(i * _NEW, _NEW)).indexed() for i in range(4)]

    def sorted_probe(rows: pa.RecordBatch) -> Callable[[], object]:
        fresh = Segment.of(rows).indexed()
        return lambda: probe(fresh, indexed, None, None)

    def scan(rows: pa.RecordBatch) -> Callable[[], object]:
        fresh = Segment.of(rows).indexed()
        return lambda: probe(fresh, Segment.of(stored), None, None)

    once = _seconds(sorted_probe(few))
    search = _seconds(sorted_probe(new)) - once
    empty = _seconds(scan(strangers)) - once
    full = _seconds(scan(new)) - once
    found = _STORED * (1 - (1 - 1 / _KEYS) ** _NEW)
    return Weights(
        sort=_per_row(_seconds(lambda: Segment.of(new).index), _NEW),
        merge=_per_row(_seconds(lambda: Segment.merge(parts)), 4 * _NEW),
        search=_per_row(search, _NEW),
        scan=_per_row(empty, _STORED),
        hit=_per_row(full - empty, found),
        call=(once + _opening(parts[0])) * 1e9,
    )


def measure_slices() -> SliceWeights:
    """Measure the cost to compare and to send rows, with the very functions that a join uses."""
    random = np.random.default_rng(0)
    narrow, wide = _sent_rows(random, 8), _sent_rows(random, 1_000)
    less = SqlPredicate("a < b", ((0, "a"), (1, "b")), pl.col("0.a") < pl.col("1.b"))
    column, other = (pa.array(random.random(_NEW)) for _ in range(2))
    positions = [pa.array(random.integers(0, _NEW, _PAIRS)) for _ in range(2)]

    def compare() -> object:
        return less.mask([column.take(positions[0]), other.take(positions[1])])

    sent = [_seconds(lambda rows=rows: _send(rows)) for rows in (narrow, wide)]  # type: ignore[misc]
    byte = max(0.0, (sent[1] - sent[0]) * 1e9 / (wide.nbytes - narrow.nbytes))
    return SliceWeights(
        compare=_per_row(_seconds(compare), _PAIRS),
        send=_per_row(sent[0], len(narrow)),
        byte=byte,
        step=_empty_step() * 1e9,
    )


def _sent_rows(random: np.random.Generator, width: int) -> pa.RecordBatch:
    values = pa.array([random.bytes(width) for _ in range(_SENT)], pa.binary())
    return pa.RecordBatch.from_pydict({"value": values})


def _send(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Pack rows, and unpack them."""
    sink = pa.BufferOutputStream()
    write_ipc(rows, sink)
    return from_ipc(sink.getvalue().to_pybytes())


def _empty_step() -> float:
    """Seconds to open the state of a shard, and commit it. That is T_n, what one more slice adds.
    (A task of Spark's takes far more. But each shard has one, whether or not it has a slice; and to
    measure it, planning would have to run a job.)"""
    with tempfile.TemporaryDirectory() as folder:
        cache = SegmentCache(folder, 1 << 20)

        def step() -> None:
            ShardState(MemoryStore(), cache, fingerprint="empty", lengths=[None]).commit()

        return _seconds(step)


def _opening(segment: Segment) -> float:
    """Seconds to open a segment's file."""
    with tempfile.TemporaryDirectory() as folder:
        cache = SegmentCache(folder, 1 << 30)
        cache.save("one", segment)
        return _seconds(lambda: cache.load("one"))


def _rows(random: np.random.Generator, count: int, *, first: int = 0) -> pa.RecordBatch:
    codes = pa.array(random.integers(first, first + _KEYS, count))
    times = pa.array(np.arange(count)).view(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict({CODE: codes, TIME: times})


def _seconds(work: Callable[[], object]) -> float:
    """The least CPU time of several runs. Other processes make single runs slower, but rarely all
    of them; and while a process waits for a core, its own clock stands still."""
    least, total, runs = math.inf, 0.0, 0
    while runs < _RUNS[0] or (runs < _RUNS[1] and total < _ENOUGH):
        began = _clock()
        work()
        took = _clock() - began
        least, total, runs = min(least, took), total + took, runs + 1
    return least


def _per_row(seconds: float, rows: float) -> float:
    return max(seconds * 1e9 / rows, 0.1)
