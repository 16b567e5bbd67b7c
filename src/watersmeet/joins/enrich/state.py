"""What a semi-stream join remembers in one shard: the rows that wait, which keys are cached, and
where it is in the cycle.

Invariant: what a step emits follows from its arguments and from what is here. What is measured on
the way (costs, how often keys come) decides only what is kept here for the next step.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import asdict, dataclass, fields

import pyarrow as pa

from watersmeet.cost.disk_phase import Reading
from watersmeet.joins.enrich.cache.misses import MissCounts
from watersmeet.joins.enrich.layout import EnrichLayout
from watersmeet.joins.enrich.queue import Queue
from watersmeet.rows.columns import CODE, Ints
from watersmeet.rows.ipc import decode, encode
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.memory import memory_for
from watersmeet.state.shard import ShardState
from watersmeet.state.store import Store

#: What the migration of keys into the cache is doing (paper, algorithm 1, lines 5 to 7).
INCREMENTING, SWITCHING, PHASE_OUT = "incrementing", "switching", "phase-out"

#: The codes that are noted, to be counted, take this part of the memory that rows may wait in: so
#: many as a cycle has rows of 16 bytes, and hardly any row takes less. But at least so many bytes.
_MISSES, _LEAST_MISSES = 2, 1 << 16

#: How much the newest step weighs in the averages of a shard.
WEIGHT = 0.2


@dataclass
class Progress:
    """Where a shard is. All of it is kept from step to step.

    - ``step`` counts the steps. ``version`` is that of the table that the last one has used, and
      ``newer`` the one that the next one uses, if it is to be another. ``table`` is what these are
      versions of (:class:`~watersmeet.table.versions.Versions`), None if that is not known.
    - ``cycle`` counts the cycles that have ended, and ``phase`` is what the migration does.
      ``volume`` is the bytes of rows that the disk phase has answered in this cycle, which ends at
      ``limit`` if it does not end with the table; ``counted`` is the same since the counts of the
      cache began.
    - ``cursor`` is the next partition to read, ``pace`` how many a step reads (None: all that its
      rows need), and ``passed`` the part of the table whose turn it has been in this pass.
    - ``hot`` and ``coming`` name the cache, and the one that takes its place next, and ``room`` is
      the bytes that both may take, each.
    - ``width`` is the mean bytes of a stream row (v_S), ``missed`` the mean rows of a step that are
      not answered from the cache; ``greatest`` is the greatest event time that has come.
      ``began_ms`` is when the last step began, by the clock, and ``interval_ms`` the mean time
      between two.
    - ``visited`` counts the partitions that were read, and ``unexplored`` is the nanoseconds spent
      on reading since one was read in the way that seemed to cost more."""

    step: int = 0
    version: str | None = None
    newer: str | None = None
    table: str | None = None
    cycle: int = 0
    phase: str = INCREMENTING
    cursor: int = 0
    pace: int | None = None
    passed: float = 0.0
    volume: float = 0.0
    counted: float = 0.0
    limit: float = 0.0
    hot: str | None = None
    coming: str | None = None
    room: int | None = None
    width: float = 0.0
    missed: float = 0.0
    greatest: int | None = None
    began_ms: int | None = None
    interval_ms: float = 0.0
    visited: int = 0
    unexplored: float = 0.0


class EnrichState(ShardState):
    """One shard of a semi-stream join. ``progress`` is where it is, ``reading`` what reading has
    cost, ``waiting`` are the rows that wait for their partition, ``retried`` those that wait for
    a newer version of the table, ``cached`` the keys and bytes in the cache of the last
    step."""

    def __init__(
        self, layout: EnrichLayout, store: Store, shard: Shard, cache: SegmentCache
    ) -> None:
        super().__init__(
            store,
            cache,
            shard=shard,
            fingerprint=layout.fingerprint,
            lengths=[None, None],
            memory=memory_for(layout.policy.queue),
            limits=layout.policy.limits,
        )
        known = {field.name for field in fields(Progress)}
        kept = self.section.get("progress", {})
        self.progress = Progress(**{name: kept[name] for name in known & kept.keys()})
        self.reading = Reading(**self.section.get("reading", {}))
        self.name: str = self.section.setdefault("name", uuid.uuid4().hex)
        self.waiting = Queue(self.windows[0])
        self.retried = Queue(self.windows[1])
        self.cached = (0, 0)
        self._misses_limit = max(layout.policy.queue // _MISSES, _LEAST_MISSES)

    @property
    def misses(self) -> MissCounts:
        """How often keys came that are not cached."""
        path = self.cache.counts_path
        came, barren = path(f"{self.name}-came"), path(f"{self.name}-barren")
        return MissCounts(came, barren, self._misses_limit)

    def keys_of(self, name: str) -> tuple[Ints, Ints] | None:
        """The codes in a cache, and how many master rows each has. None: two executions of a step
        have chosen different keys, and Spark has taken the rest of the state from the other."""
        value = self.value(f"hot/{name}")
        if value is None:
            return None
        codes, rows = decode(value).columns
        return codes.to_numpy(zero_copy_only=True), rows.to_numpy(zero_copy_only=True)

    def keep_keys(self, codes: Ints, rows: Ints) -> str:
        """Store which keys are in a cache; its name, which no other cache has."""
        keys = pa.RecordBatch.from_pydict({CODE: pa.array(codes), "rows": pa.array(rows)})
        value = encode(keys)
        whose = f"{self.name} {self.progress.version} ".encode()
        name = hashlib.sha256(whose + value).hexdigest()[:32]
        self.keep(f"hot/{name}", value)
        return name

    def forget_keys(self, name: str) -> None:
        """Remove a cache from the store."""
        self.keep(f"hot/{name}", None)

    def commit(self) -> None:
        self.section.update(progress=asdict(self.progress), reading=asdict(self.reading))
        super().commit()
