"""What it costs to check the files of the local cache, and what other checksums would cost.

    python -m benchmarks.cache_checksum            # about a minute

First the candidates, over one cached segment, mapped from its file: bytes a second. Then the
window join's micro-batches of :mod:`benchmarks.window_join`, through the operator alone, two
shards, in three ways that take the same micro-batches in turn. All times are CPU time.

- unchecked: nothing is summed up, neither when a file is written nor when it is read
- shared: every file is summed up when it is written, and checked once, as by the other one of two
  workers
- cold: every file is checked in every micro-batch, as if a new process took each one
"""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.harness import DELAY
from benchmarks.workload import Workload
from watersmeet.state.cache import file
from watersmeet.state.cache.checksum import CHECKSUM_BYTES, checksum
from watersmeet.testing import LocalJoin, LocalStream

LOAD = Workload("numeric", rows=200_000, keys=1_000_000, batches=30, minutes=5)
#: Until then the windows fill.
WARM_UP = 6
console = Console(width=110)


def words(content: pa.Buffer) -> np.ndarray:
    return np.frombuffer(content, np.uint64, content.size // 8)


CANDIDATES: dict[str, Callable[[pa.Buffer], object]] = {
    "sums of blocks and of half words (ours)": lambda content: checksum(content, ""),
    "one sum of all words (NumPy)": lambda content: words(content).sum(),
    "hashes of words (Polars), summed up": lambda content: pl.Series(words(content)).hash().sum(),
    "zlib.crc32": zlib.crc32,
    "zlib.adler32": zlib.adler32,
    "SHA-1": lambda content: hashlib.sha1(content).digest(),
    "BLAKE2b": lambda content: hashlib.blake2b(content).digest(),
}


def candidates(path: Path) -> None:
    with path.open("rb") as opened:
        content = file._mapped(opened.fileno())
    table = Table("checksum", "GB/s", "ms a segment", title=f"{content.size / 1e6:.1f} MB")
    seconds: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    for turn in range(35):
        for name in np.roll(list(CANDIDATES), turn):
            began = time.process_time()
            CANDIDATES[name](content)
            seconds[name].append(time.process_time() - began)
    for name, times in seconds.items():
        median = statistics.median(times)
        table.add_row(name, f"{content.size / median / 1e9:.1f}", f"{median * 1e3:.2f}")
    console.print(table)


def none(_content: pa.Buffer, _label: str) -> bytes:
    return bytes(CHECKSUM_BYTES)


def unchecked(run: LocalJoin, batch: dict[str, pa.Table]) -> float:
    with mock.patch.object(file, "checksum", none):
        return step(run, batch)


def shared(run: LocalJoin, batch: dict[str, pa.Table]) -> float:
    began = time.time_ns()
    seconds = step(run, batch)
    for identity in [known for known in file._checked if known[2] >= began]:
        del file._checked[identity]  # another worker will read what was written now
    return seconds


def cold(run: LocalJoin, batch: dict[str, pa.Table]) -> float:
    for identity in [known for known in file._checked if known[0].startswith(run.folder)]:
        del file._checked[identity]
    return step(run, batch)


def step(run: LocalJoin, batch: dict[str, pa.Table]) -> float:
    began = time.process_time()
    run.batch(**batch)
    return time.process_time() - began


WAYS = {"unchecked": unchecked, "shared": shared, "cold": cold}


def main() -> None:
    random = np.random.default_rng(1)
    batches = [
        {name: LOAD.table(name, number, random) for name in LOAD.streams}
        for number in range(LOAD.batches)
    ]
    streams = {
        name: LocalStream(table.schema, time=f"{name}_time", delay=DELAY)
        for name, table in batches[0].items()
    }
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="watersmeet-bench-") as folder:
        runs = {
            way: LocalJoin(
                streams, on="key", within=LOAD.window, shards=2, folder=str(Path(folder, way))
            )
            for way in WAYS
        }
        for number, batch in enumerate(batches):
            # Each way is first, second and third equally often.
            for way in np.roll(list(WAYS), number):
                seconds[way].append(WAYS[way](runs[way], batch))
        candidates(max(Path(folder).glob("*/*/*.segment"), key=lambda path: path.stat().st_size))
    table = Table("way", "CPU ms a micro-batch", "to unchecked", title="a step of the window join")
    times = {way: np.array(taken[WARM_UP:]) for way, taken in seconds.items()}
    for way, taken in times.items():
        ratio = float(np.median(taken / times["unchecked"]))
        table.add_row(way, f"{np.median(taken) * 1e3:.1f}", f"{ratio:.3f}")
    console.print(table)


if __name__ == "__main__":
    main()
