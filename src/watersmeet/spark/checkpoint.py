"""What a stopped query has left in its checkpoint, read by Spark's state reader.

Planning does not know the checkpoint. A query that does not fit it is refused when it starts
(:mod:`watersmeet.spark.start_check`), or else when a shard takes its first step. :func:`check`
finds it out before the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.errors import SessionError, StateError
from watersmeet.spark.shards import shard_ids
from watersmeet.state.fingerprint import changed
from watersmeet.state.manifest import Manifest
from watersmeet.state.shard import MANIFEST, refusal

#: The name of the state of an operator of ours, and of the folder with the state of all operators.
STATE = "state"
#: An operator of ours has one state store, of this name.
_STORE = "default"


def check(checkpoint: Checkpoint, fingerprints: Sequence[str]) -> None:
    """Refuse a checkpoint whose state was written by other operators than those of these
    ``fingerprints``. One without state of ours fits."""
    check_version(checkpoint.spark, "check")
    if checkpoint.committed is None:
        return
    known = [manifests[0].fingerprint for manifests in checkpoint.states]
    for fingerprint in fingerprints:
        if known and fingerprint not in known:
            # A query may have several joins: the one that is meant differs least.
            nearest = min(known, key=lambda one: len(changed(one, fingerprint)))
            raise refusal(nearest, fingerprint)


def check_version(spark: SparkSession, call: str) -> None:
    """Refuse a Spark that cannot read the state of our operators."""
    if tuple(int(part) for part in spark.version.split(".")[:2]) < (4, 2):
        raise SessionError(f"{call}: it needs Spark 4.2 or newer; this is {spark.version}.")


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a query that does not run."""

    spark: SparkSession
    folder: str

    @cached_property
    def files(self) -> Files:
        return Files(self.spark)

    @cached_property
    def logs(self) -> Any:
        """The logs of offsets and of commits."""
        return logs_of(self.spark, self.files.resolved(self.folder))

    @cached_property
    def committed(self) -> int | None:
        """The last micro-batch that was finished, if there is one."""
        if not self.files.exists(self.files.path(f"{self.folder}/commits")):
            return None
        committed = self.logs.commitLog().getLatestBatchId()
        return None if committed.isEmpty() else int(committed.get())

    @cached_property
    def interrupted(self) -> bool:
        """Was a micro-batch begun, and not finished? The next run runs it again."""
        if not self.files.exists(self.files.path(f"{self.folder}/offsets")):
            return False
        begun = self.logs.offsetLog().getLatestBatchId()
        return not begun.isEmpty() and int(begun.get()) > self.last

    @property
    def last(self) -> int:
        """The last micro-batch that was finished, or -1."""
        return -1 if self.committed is None else self.committed

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
            if any(manifest.windows)
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
        stored: DataFrame = self._reader(operator).option("stateVarName", STATE).load()
        return stored.select(
            "key.shard", "user_map_key.name", F.col("user_map_value.value").alias("value")
        )

    def _reader(self, operator: int) -> Any:
        reader = self.spark.read.format("statestore").option("path", self.folder)
        return reader.option("operatorId", operator).option("batchId", self.committed)

    def manifests(self, operator: int) -> list[Manifest]:
        """The manifests of an operator's shards, in the order of the shards; none, if it is not
        one of ours."""
        raw = self._reader(operator).option("_readAllColumnFamilies", "true").load()
        names = raw.schema["partition_key"].dataType.fieldNames()
        ours = raw.where(F.col("column_family_name") == STATE)
        if names != ["shard"] or ours.isEmpty():
            return []
        rows = self.values(operator).where(F.col("name") == MANIFEST).collect()
        found = {row.shard: Manifest.from_bytes(bytes(row.value)) for row in rows}
        return [found[shard] for shard in shard_ids(len(found))]


def logs_of(spark: SparkSession, folder: str) -> Any:
    """The logs of offsets and of commits."""
    jvm: Any = spark._jvm
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
    read_only = False
    return runtime.StreamingQueryCheckpointMetadata(spark._jsparkSession, folder, read_only)


class Files:
    """Folders of checkpoints, by Hadoop's file systems."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        self._conf = session.sessionState().newHadoopConf()

    def path(self, name: str) -> Any:
        path = self._jvm.org.apache.hadoop.fs.Path(name)
        return path.getFileSystem(self._conf).makeQualified(path)

    def resolved(self, name: str) -> str:
        """The full name of a folder."""
        return str(self.path(name).toString())

    def exists(self, path: Any) -> bool:
        return bool(path.getFileSystem(self._conf).exists(path))

    def read(self, name: str) -> str | None:
        """The text of a file; None, if there is none."""
        file = self.path(name)
        return self._text(file) if self.exists(file) else None

    def write(self, name: str, text: str) -> None:
        """Make a file with a text, or replace it."""
        self._write(self.path(name), text)

    def copy_without_state(self, source: str, target: str) -> None:
        """Copy all of a checkpoint but what is stored; what was there is removed."""
        goal = self.path(target)
        goal.getFileSystem(self._conf).delete(goal, True)
        for child in self._children(self.path(source)):
            if child.getName() != STATE:
                self._copy(child, self.path(f"{target}/{child.getName()}"))
        self._copy_metadata(self.path(f"{source}/{STATE}"), f"{target}/{STATE}")

    def replace_in_metadata(self, folder: str, before: str, after: str) -> None:
        """Spark notes absolute names of the files that describe state: let them be those of
        another folder."""
        for operator in self._children(self.path(f"{folder}/{STATE}")):
            versions = self.path(f"{operator.toString()}/_metadata/v2")
            for file in self._children(versions) if self.exists(versions) else []:
                text = self._text(file).replace(f'"{before}/', f'"{after}/')
                self._write(file, text)

    def rename(self, source: str, target: str) -> None:
        path = self.path(source)
        if not path.getFileSystem(self._conf).rename(path, self.path(target)):
            raise StateError(f"{source} is complete, but could not be renamed to {target}: do it.")

    def _copy_metadata(self, source: Any, target: str) -> None:
        """Copy what describes state: of an operator; or, for operators that have their schemas
        there, of its first shard or of the stores in it."""
        for status in source.getFileSystem(self._conf).listStatus(source):
            child = status.getPath()
            name = child.getName()
            if name.startswith("_"):
                self._copy(child, self.path(f"{target}/{name}"))
            elif status.isDirectory():
                self._copy_metadata(child, f"{target}/{name}")

    def _children(self, path: Any) -> list[Any]:
        return [status.getPath() for status in path.getFileSystem(self._conf).listStatus(path)]

    def _copy(self, source: Any, target: Any) -> None:
        systems = [path.getFileSystem(self._conf) for path in (source, target)]
        copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
        copy(systems[0], source, systems[1], target, False, self._conf)

    def _text(self, file: Any) -> str:
        stream = file.getFileSystem(self._conf).open(file)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return str(text)

    def _write(self, file: Any, text: str) -> None:
        stream = file.getFileSystem(self._conf).create(file, True)
        stream.write(bytearray(text.encode()))
        stream.close()
