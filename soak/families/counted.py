"""What may follow a case in the same query: its results are counted for every so many seconds. That
relies on event time: no result may be late for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from soak.case import Case, MicroBatch, Start
from tests.conformance.strategies import INSTANT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Counted:
    """The results of a case, counted by their ``time``."""

    first: Case
    seconds: int
    time: str

    @property
    def title(self) -> str:
        return f"count every {self.seconds} s; {self.first.title}"

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        return self.first.schemas

    def files(self) -> Mapping[str, Sequence[pa.Table]]:
        return self.first.files()

    def closing(self) -> Mapping[str, pa.Table]:
        return self.first.closing()

    def query(self, frames: Mapping[str, DataFrame], start: Start) -> DataFrame:
        results = self.first.query(frames, start)
        since = F.window(self.time, f"{self.seconds} seconds").alias("window")
        counted = results.groupBy(since).agg(F.count("*").alias("results"))
        return counted.select(F.col("window.start").alias("since"), "results")

    def expected(self, batches: Sequence[MicroBatch]) -> pa.Table:
        instants = self.counted(self.first.expected(batches)).column(self.time).cast(pa.int64())
        length = self.seconds * 1_000_000
        counts = Counter(instant // length * length for instant in instants.to_pylist())
        return pa.table(
            {
                "since": pa.array(list(counts), pa.int64()).cast(INSTANT),
                "results": pa.array(list(counts.values()), pa.int64()),
            }
        )

    def counted(self, results: pa.Table) -> pa.Table:
        """The results whose windows have ended when the query does: all, unless a case says
        otherwise."""
        return results
