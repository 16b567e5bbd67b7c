"""An enrichment as the tests describe it, what it must give, and random ones."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import watersmeet as wm
from tests.conformance.join import START, Condition, table
from tests.conformance.strategies import INSTANT, KEY_KINDS, PAYLOADS, KeyKind
from tests.conformance.ways import Disturbance, spoil_cache
from tests.oracle import Stream, assert_same_rows, sql_join
from watersmeet.joins.enrich.counters import EnrichCounters
from watersmeet.joins.enrich.spec import ACCESSES, EnrichTuning
from watersmeet.spec.limits import Limits
from watersmeet.state.store import MemoryStore
from watersmeet.table.staged_table import StagedTable, combine
from watersmeet.testing import LocalEnrich, LocalStream


def less(a: pa.Table, b: pa.Table) -> pa.ChunkedArray:
    return pc.less(a["n"], b["n"])


LESS = Condition("a.n < b.n", wm.predicate(less, "a", "b", columns={"a": ["n"], "b": ["n"]}))


#: Keys that are more than the cache has room for.
MANY_KEYS = [
    KeyKind(([pa.int32()], [pa.int64()]), ((*range(24), None),)),
    KeyKind(([pa.string()], [pa.string()]), ((*map(str, range(24)), None),)),
]


@dataclass(frozen=True)
class Enrichment:
    """What ``wm.enrich`` is called with: the stream ``a`` and the table ``b``. ``policy`` has
    what is smaller than planned, so that little data shows what much data does."""

    stream: LocalStream
    master: pa.Table
    on: Any
    how: str = "inner"
    where: Condition | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    further: Mapping[str, Any] = field(default_factory=dict)

    def start(
        self,
        folder: str,
        *,
        shards: int = 1,
        restart: LocalEnrich | None = None,
        staged: StagedTable | None = None,
    ) -> LocalEnrich:
        return LocalEnrich(
            "a",
            self.stream,
            self.master,
            table_name="b",
            on=self.on,
            how=self.how,
            where=self.where.predicate if self.where else None,
            shards=shards,
            folder=folder,
            restart=restart,
            staged=staged,
            policy=self.policy,
            **self.further,
        )

    def expected(self, batches: Sequence[pa.Table]) -> pa.Table:
        keys = [self.on] if isinstance(self.on, str) else list(self.on)
        rows = pa.concat_tables(batches)
        streams = {"a": Stream(rows, keys), "b": Stream(self.master, keys)}
        return sql_join(streams, how=self.how, where=self.where.sql if self.where else None)


@dataclass(frozen=True)
class Outcome:
    """The results of each batch, and what was counted."""

    results: list[pa.Table]
    counters: list[EnrichCounters]
    phases: set[str]

    @property
    def result(self) -> pa.Table:
        return pa.concat_tables(self.results)

    def total(self, name: str) -> int:
        return sum(getattr(counted, name) for counted in self.counters)

    def most(self, name: str) -> int:
        return max(getattr(counted, name) for counted in self.counters)


def run(
    enrichment: Enrichment,
    batches: Sequence[pa.Table],
    *,
    shards: int = 1,
    before: Mapping[int, Disturbance] | None = None,
    cuts: Sequence[int] = (),
    staged_for: int | None = None,
) -> Outcome:
    """Run all batches, and one without rows, as Spark does when a stream pauses; ``before[n]``
    happens before batch n. The table is cut into layers, before the rows at ``cuts``, and
    staged for another number of shards, if one is given."""
    results, counters, phases = [], [], set()
    with tempfile.TemporaryDirectory() as folder:
        local = enrichment.start(folder, shards=staged_for or shards)
        if cuts or staged_for:
            local = enrichment.start(
                folder, shards=shards, staged=in_layers(local, enrichment, cuts)
            )
        for number, batch in enumerate([*batches, None]):
            local = disturbed(local, enrichment, batch, (before or {}).get(number))
            results.append(local.batch(batch))
            counters.append(local.counters)
            for shard in range(shards):
                phases.add(local.run.state(shard).progress.phase)
        assert local.waiting() == 0, "a stream that pauses leaves no row waiting"
    return Outcome(results, counters, phases)


def in_layers(local: LocalEnrich, enrichment: Enrichment, cuts: Sequence[int]) -> StagedTable:
    """The table, staged in layers that begin with its first row and with the rows at ``cuts``."""
    master, bounds = enrichment.master, sorted({0, *cuts, enrichment.master.num_rows})
    parts = [master.slice(low, high - low) for low, high in pairwise(bounds)] or [master]
    return combine(tempfile.mkdtemp(dir=local.folder), [local.stage(part) for part in parts])


def disturbed(
    local: LocalEnrich,
    enrichment: Enrichment,
    batch: pa.Table | None,
    disturbance: Disturbance | None,
) -> LocalEnrich:
    """What may happen between two batches, and must not be seen in any result."""
    shards = len(local.run.stores)
    if disturbance is Disturbance.RESTART:
        return enrichment.start(local.folder, shards=shards, restart=local)
    if disturbance in (Disturbance.CRASH, Disturbance.TWICE):
        lost = enrichment.start(local.folder, shards=shards, restart=local)
        lost.run.stores = [_copy(store) for store in local.run.stores]
        first = lost.batch(batch)
        again = enrichment.start(local.folder, shards=shards, restart=local)
        again.run.stores = [_copy(store) for store in local.run.stores]
        assert_same_rows(again.batch(batch), first)  # a step that is run again gives the same
    spoil_cache(local.run.folder, disturbance)
    return local


def _copy(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    copy.values = dict(store.values)
    return copy


#: No reading is so cheap that it is done at once, if rows may wait.
UNHURRIED = {"at_once": -1.0}


@dataclass(frozen=True)
class Run:
    """An enrichment, the batches it gets, and what happens to it meanwhile."""

    enrichment: Enrichment
    batches: list[pa.Table]
    shards: int
    before: dict[int, Disturbance]
    cuts: list[int]
    staged_for: int | None


@st.composite
def runs(draw: st.DrawFn, how: str) -> Run:
    """Few keys, so that they match and become frequent; times out of order and null. The rows
    follow from a seed: as many as it takes for a cycle would be slow to draw one by one."""
    kind = draw(st.one_of(st.sampled_from(MANY_KEYS), st.sampled_from([*KEY_KINDS.values()])))
    keys = [list(zip(kind.names, types, strict=True)) for types in kind.types]
    extra = draw(st.sampled_from(sorted(PAYLOADS)).filter(lambda column: column != "n"))
    timed = draw(st.sampled_from([True, True, False]))
    stream = pa.schema([*keys[0], ("n", pa.int64()), *([("at", INSTANT)] if timed else [])])
    master = pa.schema([*keys[1], ("n", pa.int64()), (f"b_{extra}", PAYLOADS[extra][0])])
    pools = dict(zip(kind.names, kind.values, strict=True))
    pools |= {"n": PAYLOADS["n"][1], f"b_{extra}": PAYLOADS[extra][1]}
    dice = random.Random(draw(st.integers(0, 2**32)))

    def one(pool: Sequence[Any], skew: int) -> Any:
        return pool[min(dice.randrange(len(pool)) for _ in range(skew))]

    def rows(schema: pa.Schema, count: int, second: int = 0, *, skew: int) -> pa.Table:
        known = pools | {"at": _times(second)}
        skews = [(name, skew if name in kind.names else 1) for name in schema.names]
        return table(
            schema,
            [tuple(one(known[name], skew) for name, skew in skews) for _ in range(count)],
        )

    step, count = draw(st.sampled_from([0, 1, 5])), draw(st.integers(1, 14))
    batches = [rows(stream, dice.randrange(24), number * step, skew=4) for number in range(count)]
    wait = draw(st.sampled_from([None, "1 batch", "3 batches", "1 hour"])) if timed else None
    return Run(
        Enrichment(
            LocalStream(
                stream,
                time="at" if timed else None,
                delay=timedelta(seconds=draw(st.sampled_from([0, 2, 60]))) if timed else None,
            ),
            rows(master, draw(st.sampled_from([40, 20, 3, 0])), skew=1),
            on=kind.names,
            how=how,
            where=LESS if draw(st.booleans()) else None,
            policy={
                **UNHURRIED,
                "cache": draw(st.sampled_from([300, 100, 0])),
                "queue": draw(st.sampled_from([1 << 20, 300])),
                "resident": draw(st.sampled_from([0, 0, 0, 1 << 20])),
                "partition": draw(st.sampled_from([100, 1, 1 << 20])),
                "copies": draw(st.booleans()),
                "limits": Limits(piece_rows=draw(st.sampled_from([1 << 18, 1, 3]))),
            },
            further={
                "max_wait": wait,
                "tuning": EnrichTuning(
                    cache=draw(st.integers(0, 4)) < 4, access=draw(st.sampled_from(ACCESSES))
                ),
            },
        ),
        batches,
        shards=draw(st.integers(1, 3)),
        before=draw(
            st.dictionaries(st.integers(1, count), st.sampled_from(Disturbance), max_size=4)
        ),
        cuts=draw(st.lists(st.integers(0, 40), max_size=3)),
        staged_for=draw(st.sampled_from([None, None, None, 1, 2, 4, 6])),
    )


def _times(second: int) -> Sequence[Any]:
    seconds = [START + timedelta(seconds=second + offset) for offset in range(-6, 7)]
    return [*seconds, None]
