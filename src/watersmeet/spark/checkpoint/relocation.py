"""Relocation of a checkpoint: a new one, in which the rows of joins without a key have new homes.

::

    checkpoint ──► rows of every shard ──► rows by their new homes ──► target
       read by Spark's state reader    Python workers    written by Spark's state rewriter

The checkpoint is only read. The target is a copy of it, with another state after the last
micro-batch. (A micro-batch of its own would be a gap in the log of a sink that has never seen it.)
It is written under another name, and gets its own name when it is complete: so, where a folder is
renamed at once, it is there as a whole, or not at all, whenever this is interrupted. (An object
store copies file by file.)

Timers stay where they were. A shard that had no rows has none, and needs none: the first
micro-batch after a start has rows, with which every shard takes a step and sets its timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet.errors import PlanError, SessionError, StateError
from watersmeet.joins.ring.relocation import Moved, Relocation, hop_of
from watersmeet.rows.ipc import decode, encode
from watersmeet.spark.checkpoint.checkpoint import STATE, Checkpoint
from watersmeet.spark.checkpoint.copy import copy_without_state, rename_in_descriptions
from watersmeet.spark.checkpoint.note import NOTE
from watersmeet.spark.checkpoint.unsafe_rows import unsafe_key, unsafe_row
from watersmeet.spark.jvm.rewriting import rewrite_state
from watersmeet.spark.query.shards import shard_ids
from watersmeet.state.manifest import Manifest
from watersmeet.state.shard import MANIFEST
from watersmeet.state.store import MemoryStore

_MOVED = "hop int, number int, window int, rows binary, marks binary"
_STORED = "hop int, shard int, key_bytes binary, value_bytes binary"
#: Rows that move are handled in pieces of about this many bytes.
_PIECE_BYTES = 16 << 20


def relocate(
    checkpoint: str, target: str, *, slices: int, order: Sequence[str] | None = None
) -> None:
    """Give the stored rows of joins without a key new homes, of a query that is stopped.

    Parameters
    ----------
    checkpoint
        The query's ``checkpointLocation``. It is not changed.
    target
        The new one: start the query with it, and with the same ``slices`` in its tuning. It must
        not exist. It is there as a whole or not at all, where a folder is renamed at once: not in
        an object store.
    slices
        Over how many shards the rows are dealt.
    order
        The order of the hops, of a join of three and more streams; as it is, if not given.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:
        raise SessionError("relocate: there is no Spark session. Make one: wm.local_session().")
    _check_version(spark)
    before = RingCheckpoint(spark, checkpoint)
    before.check_readable()
    if before.files.is_escaped(target):
        raise PlanError(
            f"target={target!r}: Spark cannot write state to a path that has spaces, or others of "
            "the characters that a URI escapes. Give another one."
        )
    if before.files.exists(target):
        raise PlanError(f"target={target!r} is there already. Give a new place, or remove it.")
    hops = before.hops()
    shards = len(hops[0].manifests)
    if isinstance(slices, bool) or not isinstance(slices, int) or not 1 <= slices <= shards:
        raise PlanError(
            f"slices={slices!r} must be a whole number from 1 to {shards}, the shuffle partitions "
            "that the query has."
        )
    plan = Relocation.of([hop.manifests for hop in hops], slices=slices, order=order)
    state = before.relocated(plan, hops).persist()
    try:
        before.rewrite(target, hops, state)
    finally:
        state.unpersist()


def _check_version(spark: SparkSession) -> None:
    """Refuse a Spark that has no rewriter of state."""
    if tuple(int(part) for part in spark.version.split(".")[:2]) < (4, 2):
        raise SessionError(f"relocate: it needs Spark 4.2 or newer; this is {spark.version}.")


@dataclass(frozen=True)
class StoredHop:
    """A hop as it is in a checkpoint: its operator there, and the manifests of its shards."""

    operator: int
    manifests: list[Manifest]


class RingCheckpoint(Checkpoint):
    """The checkpoint of a stopped query with a join without a key, whose rows get new homes."""

    @cached_property
    def batch(self) -> int:
        """The last micro-batch, which must be complete."""
        if self.committed is None:
            there = self.files.exists(self.folder)
            what = "no micro-batch of a query is in it" if there else "there is no such folder"
            raise StateError(f"checkpoint={self.folder!r}: {what}.")
        if self.begun != self.committed:
            raise StateError(
                f"checkpoint={self.folder!r}: the last micro-batch was not finished. Start the "
                "query once more, and stop it when it has finished one."
            )
        return self.committed

    def hops(self) -> list[StoredHop]:
        """The hops of the join without a key that the query has."""
        assert self.batch >= 0, "there is one, and it is complete"
        found: dict[int, StoredHop] = {}
        expected = 0
        for operator in self.operators():
            manifests = self.manifests(operator)
            place = hop_of(manifests[0].fingerprint) if manifests else None
            if place is None:
                continue
            if place[0] in found:
                raise StateError(
                    f"checkpoint={self.folder!r}: the query has several joins without a key, and "
                    "it is not clear which of them is meant."
                )
            found[place[0]], expected = StoredHop(operator, manifests), place[1]
        if not found or len(found) != expected:
            raise StateError(f"checkpoint={self.folder!r}: the query has no join without a key.")
        return [found[number] for number in range(expected)]

    def relocated(self, plan: Relocation, hops: Sequence[StoredHop]) -> DataFrame:
        """The new values of each hop, as Spark stores them."""
        ids = shard_ids(len(hops[0].manifests))
        numbers = F.create_map(*(F.lit(x) for n, shard in enumerate(ids) for x in (shard, n)))
        values = None
        for number, hop in enumerate(hops):
            stored = self.values(hop.operator).select(
                F.lit(number).alias("hop"), numbers[F.col("shard")].alias("number"), "name", "value"
            )
            values = stored if values is None else values.union(stored)
        assert values is not None, "a join has a hop"
        place = ("hop", "number")
        moved = values.groupBy(*place).applyInArrow(leaving(plan), _MOVED)
        manifests = values.where(F.col("name") == MANIFEST)
        return (
            manifests.groupBy(*place)
            .cogroup(moved.groupBy(*place))
            .applyInArrow(arriving(plan, ids), _STORED)
        )

    def rewrite(self, target: str, hops: Sequence[StoredHop], state: DataFrame) -> None:
        """Write the new checkpoint, with that ``state`` of the hops."""
        files = self.files
        source, goal = files.resolved(self.folder), files.resolved(target)
        building = f"{goal}.incomplete"
        copy_without_state(files, source, building)
        new = NewState(
            stores=iter([operator for operator, _ in self.stores()]),
            hops={hop.operator: number for number, hop in enumerate(hops)},
            shards=len(hops[0].manifests),
            rows=state,
        )
        if not rewrite_state(
            self.spark, source=source, target=building, batch=self.batch, change=new.of_next
        ):
            raise StateError(f"target={target!r}: somebody else writes it.")
        rename_in_descriptions(files, building, source, goal)
        # The note is out of date: a query that starts from here looks at the state.
        files.write(f"{building}/{NOTE}", "")
        if not files.rename(building, goal):
            raise StateError(f"{building} is complete, but could not be renamed to {goal}: do it.")


@dataclass(frozen=True)
class NewState:
    """The new state of a query, store by store. ``stores`` has the operator of each store; ``hops``
    are the hops of these operators, and ``rows`` the new values of each hop."""

    stores: Iterator[int]
    hops: Mapping[int, int]
    shards: int
    rows: DataFrame

    def of_next(self, stored: DataFrame) -> DataFrame | None:
        """The new state of the next store, of the schema and in the partitions of what is stored;
        None: it stays as it is."""
        hop = self.hops.get(next(self.stores))
        if hop is None:
            return None
        new = self.rows.where(F.col("hop") == hop).select(
            F.struct("shard").alias("partition_key"),
            "key_bytes",
            "value_bytes",
            F.lit(STATE).alias("column_family_name"),
        )
        timers = stored.where(F.col("column_family_name") != STATE)
        nothing = stored.sparkSession.createDataFrame([], stored.schema)
        return nothing.union(new).union(timers).repartition(self.shards, "partition_key")


def leaving(plan: Relocation) -> Callable[..., pa.Table]:
    """All values of one shard, to the rows that leave it. (A function, not an object that is
    called: Spark counts the arguments of a function.)"""

    def leave(key: tuple[pa.Scalar, ...], values: pa.Table) -> pa.Table:
        parts = [
            (part.hop, part.shard, part.window, encode(rows), np.packbits(marks).tobytes())
            for part in plan.leaving(_store(values), key[0].as_py())
            for rows, marks in _pieces(part)
        ]
        columns = list(zip(*parts, strict=True)) if parts else [()] * 5
        types = pa.int32(), pa.int32(), pa.int32(), pa.binary(), pa.binary()
        arrays = [pa.array(list(c), kind) for c, kind in zip(columns, types, strict=True)]
        return pa.table(arrays, names=["hop", "number", "window", "rows", "marks"])

    return leave


def arriving(plan: Relocation, ids: Sequence[int]) -> Callable[..., pa.Table]:
    """The manifest of a shard and the rows that go there, to all values that are then stored."""

    def arrive(key: tuple[pa.Scalar, ...], manifests: pa.Table, moved: pa.Table) -> pa.Table:
        hop, number = (part.as_py() for part in key)
        parts = (_moved(row) for row in moved.to_pylist())
        values = plan.arriving(_store(manifests), hop, parts)
        shard = ids[number]
        return pa.table(
            {
                "hop": pa.array([hop] * len(values), pa.int32()),
                "shard": pa.array([shard] * len(values), pa.int32()),
                "key_bytes": pa.array([unsafe_key(shard, name) for name in values], pa.binary()),
                "value_bytes": pa.array([unsafe_row(v) for v in values.values()], pa.binary()),
            }
        )

    return arrive


def _store(values: pa.Table) -> MemoryStore:
    store = MemoryStore()
    named = zip(values["name"].to_pylist(), values["value"].to_pylist(), strict=True)
    store.values = dict(named)
    return store


def _pieces(part: Moved) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    count = max(1, -(-part.rows.nbytes // _PIECE_BYTES))
    size = max(1, -(-len(part.rows) // count))
    for start in range(0, len(part.rows), size):
        yield part.rows.slice(start, size), part.marks[start : start + size]


def _moved(row: dict[str, Any]) -> Moved:
    rows = decode(row["rows"])
    bits = np.unpackbits(np.frombuffer(row["marks"], np.uint8), count=len(rows))
    return Moved(row["hop"], row["number"], row["window"], rows, bits.view(np.bool_))
