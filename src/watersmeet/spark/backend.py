"""Spark as the place where a join is planned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from watersmeet.conditions.terms import Term
from watersmeet.cost import calibration
from watersmeet.cost.engine import Weights
from watersmeet.cost.slices import SliceWeights
from watersmeet.spark.query.query import shard_count
from watersmeet.spark.session.master import cores
from watersmeet.spark.sql import translate


@dataclass(frozen=True)
class SparkBackend:
    """The session of the streams of a join, given by name and DataFrame."""

    streams: Sequence[tuple[str, DataFrame]]

    @property
    def spark(self) -> SparkSession:
        return self.streams[0][1].sparkSession

    @property
    def shards(self) -> int:
        return shard_count(self.spark)

    @property
    def cores(self) -> int | None:
        return cores(self.spark)

    def weights(self) -> Weights:
        """This machine's. The driver's host stands for those of the executors. They are kept in
        the temporary directory: the driver must not make the folder that is configured for the
        executors, whose user may be another one."""
        return calibration.weights()

    def slice_weights(self) -> SliceWeights:
        """This machine's, likewise."""
        return calibration.slice_weights()

    def translate(self, sql: str) -> tuple[Term, ...]:
        return translate(self.spark, sql, self.streams)
