"""A store in Spark's state store: every value commits with its micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as T
from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle

from watersmeet.spark.session.worker_object import by_value

_NAME = T.StructType([T.StructField("name", T.StringType())])
_VALUE = T.StructType([T.StructField("value", T.BinaryType())])


@by_value
def declared(handle: StatefulProcessorHandle) -> MapState:
    """The state, as Spark knows it."""
    return handle.getMapState("state", _NAME, _VALUE)


@dataclass(frozen=True)
class SparkStore:
    """A map from names to bytes, one for each shard."""

    values: MapState

    @classmethod
    def of(cls, handle: StatefulProcessorHandle) -> SparkStore:
        return cls(declared(handle))

    def get(self, name: str) -> bytes | None:
        row = self.values.getValue((name,))
        return None if row is None else bytes(row[0])

    def put(self, name: str, value: bytes) -> None:
        self.values.updateValue((name,), (value,))

    def delete(self, name: str) -> None:
        self.values.removeKey((name,))

    def at_hand(self, name: str) -> bool:
        return False
