"""How fast this machine probes: the weights of the cost model, measured.

A fraction of a second, once a host: the figures are kept beside the segment cache. They decide
whether a window gets an index, never what a join gives, so a noisy measurement does no harm.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from watersmeet.cost.engine import Weights
from watersmeet.rows.columns import CODE, TIME
from watersmeet.state.cache import SegmentCache
from watersmeet.state.cache.file import whole_file
from watersmeet.state.cache.folder import cache_folder
from watersmeet.state.probe import probe
from watersmeet.state.segment import Segment

_STORED = 400_000
_NEW = 20_000
_KEYS = 100_000
#: Raised when what is measured changes.
_VERSION = 1


_known: list[Weights] = []


def weights(configured: str | None = None) -> Weights:
    """This machine's weights: as this process knows them, from the folder of the local cache (see
    :func:`~watersmeet.state.cache.folder.cache_folder`), or measured now and put there."""
    if not _known:
        _known.append(_read_or_measured(cache_folder(configured).path))
    return _known[0]


def forget() -> None:
    """Have the weights read or measured again."""
    _known.clear()


def _read_or_measured(folder: str | None) -> Weights:
    if folder is None:
        return measure()
    path = os.path.join(folder, f"weights-{_VERSION}.json")
    with contextlib.suppress(OSError, ValueError, TypeError), open(path) as file:
        return Weights(**json.load(file))
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
    """The least of three times."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _per_row(seconds: float, rows: float) -> float:
    return max(seconds * 1e9 / rows, 0.1)
