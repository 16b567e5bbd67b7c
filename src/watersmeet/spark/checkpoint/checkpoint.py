"""The checkpoint of a stopped query, read by Spark's state reader.

Planning does not know the checkpoint. A query that does not fit it is refused when it starts
(:mod:`watersmeet.spark.checkpoint.start_check`), or else when a shard takes its first step.
:func:`check` finds it out before the start.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.errors import StateError
from watersmeet.spark.jvm.hadoop import HadoopFiles
from watersmeet.spark.query.shards import shard_ids
from watersmeet.state.fingerprint import changed
from watersmeet.state.manifest import Manifest
from watersmeet.state.shard import MANIFEST, refusal

#: The name of the state of an operator of ours, and of the folder with the state of all operators.
STATE = "state"
#: An operator of ours has one state store, of this name.
_STORE = "default"


def check(checkpoint: Checkpoint, fingerprints: Sequence[str]) -> None:
    """Refuse a checkpoint whose state was written by operators with other ``fingerprints``. A
    checkpoint without state of ours fits."""
    if checkpoint.committed is None:
        return
    known = [manifests[0].fingerprint for manifests in checkpoint.states]
    if not known and not checkpoint.operators():
        raise StateError(
            "the checkpoint was written by a query that keeps no state, like an enrichment without "
            "max_wait, refresh and retry. This one does, and Spark refuses to start it there. Give "
            "it a new checkpointLocation."
        )
    for fingerprint in fingerprints:
        if known and fingerprint not in known:
            # A query may have several joins: the one that is meant differs least.
            nearest = min(known, key=lambda one: len(changed(one, fingerprint)))
            raise refusal(nearest, fingerprint)


def check_in_place(checkpoint: Checkpoint, fingerprint: str) -> None:
    """Refuse a checkpoint that has state of the enrichment of this ``fingerprint``, which keeps
    none now. (Of other operators there may be state: of a join that follows, for example.)"""
    if checkpoint.committed is None:
        return
    if any(manifests[0].fingerprint == fingerprint for manifests in checkpoint.states):
        raise StateError(
            "the checkpoint has state of this enrichment, of when it had max_wait, refresh or "
            "retry. With none of them it keeps no state, and Spark refuses to start. Give one of "
            "them, or start the query with a new checkpointLocation."
        )


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a query that does not run."""

    spark: SparkSession
    folder: str

    @cached_property
    def files(self) -> HadoopFiles:
        return HadoopFiles(self.spark)

    def check_begun(self) -> None:
        """Refuse a folder that no query has used as its checkpoint: its name may be wrong."""
        if not self.files.exists(self.folder):
            raise StateError(f"checkpoint={self.folder!r}: there is no such folder.")
        if self.begun is None:
            raise StateError(
                f"checkpoint={self.folder!r}: no query has begun a micro-batch with it."
            )

    def check_readable(self) -> None:
        """Refuse a path that Spark's state reader takes for another one: it escapes the path as a
        URI, and never takes that back."""
        if self.files.is_escaped(self.folder):
            raise StateError(
                f"checkpoint={self.folder!r}: Spark cannot read the state of a checkpoint whose "
                "path has spaces, or others of the characters that a URI escapes. The query itself "
                "can use it."
            )

    @cached_property
    def committed(self) -> int | None:
        """The last micro-batch that was finished, if there is one."""
        return self._latest("commits")

    @cached_property
    def begun(self) -> int | None:
        """The last micro-batch that was begun, if there is one."""
        return self._latest("offsets")

    @property
    def interrupted(self) -> bool:
        """Was a micro-batch begun, and not finished? The next run runs it again."""
        return self.begun is not None and self.begun > self.last

    @property
    def last(self) -> int:
        """The last micro-batch that was finished, or -1."""
        return -1 if self.committed is None else self.committed

    @cached_property
    def partitions(self) -> int | None:
        """How many shuffle partitions the query goes on with; None: it begins with this start."""
        if self.begun is None:
            return None
        text = self.files.read(f"{self.folder}/offsets/{self.begun}") or ""
        # A version; what holds for the micro-batch, as JSON; and a line for each source.
        settings = json.loads(text.splitlines()[1])["conf"]
        return int(settings["spark.sql.shuffle.partitions"])

    @cached_property
    def states(self) -> list[list[Manifest]]:
        """The manifests of each operator of ours, by shard."""
        every = [self.manifests(operator) for operator in self.operators()]
        return [manifests for manifests in every if manifests]

    def slices(self, fingerprint: str) -> int:
        """How many of the first shards have rows, of the operator of that fingerprint."""
        filled = (
            number + 1
            for manifests in self.states
            if manifests[0].fingerprint == fingerprint
            for number, manifest in enumerate(manifests)
            if any(window.entries for window in manifest.windows)
        )
        return max(filled, default=0)

    def operators(self) -> list[int]:
        """The stateful operators of the query that may be ours."""
        return [operator for operator, store in self.stores() if store == _STORE]

    def stores(self) -> list[tuple[int, str]]:
        """The state stores of the query, each with its operator: Spark's own joins have several."""
        rows = self.spark.read.format("state-metadata").load(self.folder)
        return sorted(map(tuple, rows.select("operatorId", "stateStoreName").collect()))

    def values(self, operator: int) -> DataFrame:
        """What an operator of ours has stored: shard, name, value."""
        return self._stored(operator).select(
            "key.shard", "user_map_key.name", F.col("user_map_value.value").alias("value")
        )

    def manifests(self, operator: int) -> list[Manifest]:
        """The manifests of an operator's shards, in the order of the shards; none, if it is not
        one of ours."""
        if not self._is_ours(operator):
            return []
        rows = self.values(operator).where(F.col("name") == MANIFEST).collect()
        found = {row.shard: Manifest.from_bytes(bytes(row.value)) for row in rows}
        return [found[shard] for shard in shard_ids(len(found))]

    def _is_ours(self, operator: int) -> bool:
        """Has an operator a map of that name, of values by shard and name?"""
        rows = self.spark.read.format("state-metadata").load(self.folder)
        rows = rows.where(F.col("operatorId") == operator).select("operatorProperties")
        described = [json.loads(row.operatorProperties or "{}") for row in rows.collect()]
        variables = [each for one in described for each in one.get("stateVariables", ())]
        if not any(each["stateName"] == STATE for each in variables):
            return False
        schema = self._stored(operator).schema
        return _fields(schema, "key") == ["shard"] and _fields(schema, "user_map_key") == ["name"]

    def _stored(self, operator: int) -> DataFrame:
        reader = self.spark.read.format("statestore").option("path", self.folder)
        reader = reader.option("operatorId", operator).option("batchId", self.committed or 0)
        stored: DataFrame = reader.option("stateVarName", STATE).load()
        return stored

    def _latest(self, log: str) -> int | None:
        """The number of the newest file in a log of Spark's, of which each micro-batch has one."""
        numbers = self.files.names(f"{self.folder}/{log}")
        return max((int(name) for name in numbers if name.isdecimal()), default=None)


def _fields(schema: T.StructType, column: str) -> list[str]:
    """The names of the fields of a column that has such."""
    kind = schema[column].dataType if column in schema.names else None
    return kind.fieldNames() if isinstance(kind, T.StructType) else []
