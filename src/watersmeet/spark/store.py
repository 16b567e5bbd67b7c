"""A store in Spark's state store: every value commits with its micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

_NAME = T.StructType([T.StructField("name", T.StringType())])
_VALUE = T.StructType([T.StructField("value", T.BinaryType())])


@dataclass(frozen=True)
class SparkStore:
    """A map from names to bytes, one for each shard."""

    values: MapState

    @classmethod
    def of(cls, handle: StatefulProcessorHandle) -> SparkStore:
        return cls(handle.getMapState("state", _NAME, _VALUE))

    def get(self, name: str) -> bytes | None:
        row = self.values.getValue((name,))
        return None if row is None else bytes(row[0])

    def put(self, name: str, value: bytes) -> None:
        self.values.updateValue((name,), (value,))

    def delete(self, name: str) -> None:
        self.values.removeKey((name,))
