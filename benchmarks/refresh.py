"""A table to which a file was added: staged with what is there, against staged as a whole.

    python -m benchmarks.refresh

The table has a million rows of about 120 bytes in twenty files; a file of a hundredth of it is
added. Both ways take turns; what counts is the median.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from rich.console import Console

import watersmeet as wm
from benchmarks.enrich import write_table
from watersmeet.rows.layout import row_layout
from watersmeet.spark.query.inputs import describe
from watersmeet.spark.query.query import shard_count
from watersmeet.spark.tables.identity import relisted
from watersmeet.spark.tables.staging import Staging
from watersmeet.table.staged_table import StagedTable

ROWS, FILES, ADDED = 1_000_000, 20, 10_000
PASSES = 3
console = Console(width=110)


def staging(df: DataFrame, folder: Path) -> Staging:
    """As ``wm.enrich`` stages the table, with all of its columns."""
    described = describe(df, "table", time=None, delay=None)
    layout = row_layout(described, ["key"], ["bigint"], needed={*df.columns})
    shards = shard_count(df.sparkSession)
    return Staging(
        layout, str(folder), shards, partition=32 << 20, in_layers=True, owner="benchmark"
    )


def seconds(tables: Staging, df: DataFrame, before: StagedTable | None) -> float:
    began = time.perf_counter()
    staged = tables.stage(df, before=before)
    took = time.perf_counter() - began
    size = staged.size()
    assert size is not None
    assert size.rows == ROWS + ADDED, "both ways stage the same rows"
    assert len(staged.layers) == (1 if before is None else 2)
    return took


def main() -> None:
    spark = wm.local_session(name="benchmark of refreshing")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_table(folder / "whole", ROWS)
        rows = pq.read_table(folder / "whole")
        (folder / "table").mkdir()
        for number in range(FILES):
            part = rows.slice(number * ROWS // FILES, ROWS // FILES)
            pq.write_table(part, folder / "table" / f"{number:03}.parquet")
        df = spark.read.parquet(str(folder / "table"))
        added, whole = [], []
        for number in range(PASSES + 1):
            tables = staging(df, folder / f"beside-{number}")
            before = tables.stage(df)
            pq.write_table(rows.slice(number, ADDED), folder / "table" / "added.parquet")
            df = relisted(df)
            added.append(seconds(tables, df, before))
            whole.append(seconds(staging(df, folder / f"whole-{number}"), df, None))
            (folder / "table" / "added.parquet").unlink()
            df = relisted(df)
    # The first time, Spark and its workers start.
    beside, anew = statistics.median(added[1:]), statistics.median(whole[1:])
    console.print(f"one file of {FILES + 1} staged: {beside:.2f} s; all of them: {anew:.2f} s")
    console.print(f"whole / added, time: {anew / beside:.1f}")
    spark.stop()


if __name__ == "__main__":
    main()
