"""Sinks that are exactly-once, if the join is: Spark's file sink, and a function of ours that
writes each micro-batch to a folder of its own and fails now and then."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from soak.history import written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: What a failure on purpose says.
ON_PURPOSE = "the soak makes this sink fail"


class FileSink:
    """Spark's own sink of Parquet files, which knows by its log which of them count."""

    name = "Parquet sink"

    def writer(self, df: DataFrame, folder: Path, dice: random.Random) -> DataStreamWriter:
        return df.writeStream.format("parquet").option("path", str(folder))

    def read(self, folder: Path) -> list[pa.Table]:
        return [pq.read_table(path) for path in written(folder)]


class BatchSink:
    """A function that is called with each micro-batch, again if it has not returned. It replaces
    what it had written, so each counts once. Now and then it has the micro-batch executed twice,
    or fails, before it writes or after."""

    name = "foreachBatch"

    def writer(self, df: DataFrame, folder: Path, dice: random.Random) -> DataStreamWriter:
        return df.writeStream.foreachBatch(_write(folder, dice))

    def read(self, folder: Path) -> list[pa.Table]:
        return [pq.read_table(path) for path in sorted(folder.glob("*/*.parquet"))]


def _write(folder: Path, dice: random.Random) -> Callable[[DataFrame, int], None]:
    def write(rows: DataFrame, batch: int) -> None:
        chance = dice.random()
        if chance < 0.07:
            raise RuntimeError(f"{ON_PURPOSE} before it writes micro-batch {batch}")
        if chance < 0.3:
            rows.count()
        rows.write.mode("overwrite").parquet(str(folder / str(batch)))
        if chance > 0.93:
            raise RuntimeError(f"{ON_PURPOSE} after it wrote micro-batch {batch}")

    return write


SINKS = {sink.name: sink for sink in (FileSink(), BatchSink())}
