"""Generated input for the benchmarks: streams in Parquet files, one file a micro-batch."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = 1_700_000_000_000_000
SECOND = 1_000_000


@dataclass(frozen=True)
class Workload:
    """Streams of equal rate.

    Each file holds ``rows`` rows of one stream, spread evenly over ``seconds``
    of event time; keys are drawn uniformly from ``keys`` integers. The window
    is given in minutes, so that state is about
    ``rows * 60 * minutes / seconds`` rows of each stream.
    """

    name: str
    rows: int
    keys: int
    batches: int
    minutes: int
    seconds: int = 60
    strings: bool = False
    streams: tuple[str, ...] = ("left", "right")

    @property
    def window(self) -> str:
        return f"{self.minutes} minutes"

    def write(self, folder: Path) -> None:
        """Make the files."""
        generator = np.random.default_rng(20240601)
        for stream in self.streams:
            (folder / stream).mkdir(parents=True, exist_ok=True)
            for batch in range(self.batches):
                path = folder / stream / f"{batch:05d}.parquet"
                pq.write_table(self.table(stream, batch, generator), path)
                # Spark takes files in the order of their times of modification.
                os.utime(path, (START // SECOND + batch, START // SECOND + batch))

    def table(self, stream: str, batch: int, generator: np.random.Generator) -> pa.Table:
        """The rows of one file."""
        span = self.seconds * SECOND
        times = START + batch * span + np.sort(generator.integers(0, span, self.rows))
        columns = {
            "key": pa.array(generator.integers(0, self.keys, self.rows)),
            f"{stream}_time": pa.array(times).view(pa.timestamp("us", "UTC")),
            f"{stream}_id": pa.array(np.arange(self.rows) + batch * self.rows),
            f"{stream}_value": pa.array(generator.random(self.rows)),
        }
        if self.strings:
            campaign = generator.integers(0, 10_000, self.rows).astype(str)
            page = generator.integers(0, 10**9, self.rows).astype(str)
            columns[f"{stream}_campaign"] = pa.array(np.char.add("campaign-", campaign))
            columns[f"{stream}_page"] = pa.array(np.char.add("https://example.org/", page))
        return pa.table(columns)
