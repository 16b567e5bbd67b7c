"""Operators that are stepped by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet import durations
from watersmeet.joins.chain import Chain
from watersmeet.joins.operator import (
    END_OF_TIME,
    AnyOperator,
    Chunk,
    Counters,
    Emitted,
    State,
    merged,
)
from watersmeet.rows.columns import TIME, concat
from watersmeet.rows.dealing import Dealer
from watersmeet.rows.inflow import Inflow
from watersmeet.rows.route import Route
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import MemoryStore
from watersmeet.testing.backend import own_folder

_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class LocalInput:
    """One input of a :class:`LocalRun`: where its rows go, and how far the watermark stays
    behind its times, in microseconds; None: it has no time. ``counted``: rows of equal content are
    dealt by count."""

    route: Route
    delay: int | None = None
    counted: bool = False


class LocalRun:
    """An operator that is stepped by hand, over rows as they are stored.

    ``stores`` (one for each shard) and ``folder`` are the durable state and the local cache.
    With ``restart``, it goes on from where another run stands. What the operator emits goes to the
    ``following`` run, if there is one, in the same micro-batch and under the same watermark.
    ``timers``: is there a watermark to wait for?"""

    def __init__(
        self,
        operator: AnyOperator,
        inputs: Sequence[LocalInput],
        *,
        shards: int = 1,
        folder: str | None = None,
        restart: LocalRun | None = None,
        following: LocalRun | None = None,
    ) -> None:
        self.operator = operator
        self.inputs = inputs
        self.following = following
        self.timers = any(given.delay is not None for given in inputs)
        if following is not None:
            following.timers = self.timers
        self.stores: list[MemoryStore] = (
            restart.stores if restart else [MemoryStore() for _ in range(shards)]
        )
        self.folder: str = folder or (restart and restart.folder) or own_folder()
        self.watermark: int | None = restart.watermark if restart else None
        self._greatest: dict[int, int] = dict(restart._greatest) if restart else {}
        self.counters: Any = operator.counters()

    def step(self, rows: Sequence[pa.RecordBatch | None], *, last: bool = False) -> list[Emitted]:
        """One micro-batch: new rows for any of the inputs. The watermark moves after it, as in
        Spark, and takes effect in the next one. After the ``last`` one, no more input comes."""
        emitted: list[Emitted] = []
        counted: list[Counters] = []
        inflows = self._inflows(rows)
        for number, chunk in enumerate(self._dealt(rows)):
            state = self.state(number)
            self.operator.expect(inflows, state)
            emitted += self._step_shard(state, chunk, counted, last=last)
        self.counters = merged(counted)
        if self.following is not None:
            self.following.watermark = self.watermark
            emitted = self.following.step(_by_input(emitted, self.following), last=last)
        self._advance(rows)
        return emitted

    def pause(self) -> list[Emitted]:
        """A micro-batch without data. As on Spark, it steps only the shards whose timer has fired:
        one is set while a shard waits, and fires when the watermark has moved."""
        return self._woken([None] * len(self.inputs), all_shards=False)

    def _woken(self, rows: Sequence[pa.RecordBatch | None], *, all_shards: bool) -> list[Emitted]:
        """Steps the shards that have a reason to take one: rows that came, a timer, or a heartbeat
        that the hop before sends to ``all_shards``."""
        emitted: list[Emitted] = []
        counted = [self.operator.counters()]
        stepped = set()
        for number, chunk in enumerate(self._dealt(rows)):
            state = self.state(number)
            fired = state.timer is not None and state.timer <= self._milliseconds
            if all_shards or fired or any(part is not None for part in chunk):
                emitted += self._step_shard(state, chunk, counted)
                stepped.add(number)
        self.counters = merged(counted)
        if self.following is not None:
            self.following.watermark = self.watermark
            handed = _by_input(emitted, self.following)
            emitted = self.following._woken(handed, all_shards=0 in stepped)
        return emitted

    def finish(self) -> list[Emitted]:
        """Let time pass until nothing is stored any more."""
        self.watermark = END_OF_TIME
        return self.step([None] * len(self.inputs), last=True)

    def state(self, number: int) -> Any:
        """The state of a shard, as it was committed last."""
        cache = SegmentCache(self.folder, _CACHE_BYTES)
        return self.operator.open(self.stores[number], Shard(number, len(self.stores)), cache)

    def _inflows(self, rows: Sequence[pa.RecordBatch | None]) -> list[Inflow]:
        """What the micro-batch brings of each input, over all shards, if the operator asks."""
        inflows = [Inflow() for _ in rows]
        if self.operator.expects:
            for arrived, batch in zip(inflows, rows, strict=True):
                arrived.add(batch)
        return inflows

    def _dealt(self, rows: Sequence[pa.RecordBatch | None]) -> list[Chunk]:
        """The rows of each shard, by input."""
        count = len(self.stores)
        dealt: list[list[list[pa.RecordBatch]]] = [[[] for _ in rows] for _ in range(count)]
        for position, batch in enumerate(rows):
            if batch is not None and len(batch):
                given = self.inputs[position]
                if given.counted:
                    batch = Dealer().dealt(batch)
                for number, part in given.route.deal(batch, count):
                    dealt[number][position].append(part)
        return [[concat(parts) if parts else None for parts in shard] for shard in dealt]

    def _step_shard(
        self, state: State, chunk: Chunk, counted: list[Counters], *, last: bool = False
    ) -> list[Emitted]:
        counters = self.operator.counters()
        emitted = [*self.operator.step([chunk], self.watermark, state, counters)]
        if last:
            emitted += self.operator.finish(state, counters)
        state.timer = self._milliseconds + 1 if self.timers and state.waits else None
        state.commit()
        self.operator.report(state, counters)
        counted.append(counters)
        return emitted

    @property
    def _milliseconds(self) -> int:
        """The watermark, as Spark's timers see it."""
        return (self.watermark or 0) // 1000

    def _advance(self, rows: Sequence[pa.RecordBatch | None]) -> None:
        timed = [i for i, given in enumerate(self.inputs) if given.delay is not None]
        for i in timed:
            batch = rows[i]
            if batch is None or not len(batch):
                continue
            greatest = pc.max(batch.column(TIME)).cast(pa.int64()).as_py()
            if greatest is not None:
                # Spark keeps event times in milliseconds.
                delay = durations.milliseconds(self.inputs[i].delay or 0)
                seen = (greatest // 1000 - delay) * 1000
                self._greatest[i] = max(seen, self._greatest.get(i, seen))
        if timed and len(self._greatest) == len(timed):
            watermark = min(self._greatest.values())
            if watermark > 0:
                self.watermark = max(watermark, self.watermark or 0)


def runs_of(
    chain: Chain, *, shards: int, folder: str, restart: Sequence[LocalRun] = ()
) -> list[LocalRun]:
    """A run for each hop of a chain. With ``restart``, they go on from where others stand."""
    given = [LocalInput(each.route, each.delay, each.counted) for each in chain.inputs]
    inputs = [given, *([LocalInput(route) for route in hop.onward] for hop in chain.hops)]
    runs: list[LocalRun] = []
    for number, hop in reversed([*enumerate(chain.hops)]):
        run = LocalRun(
            hop.operator,
            inputs[number],
            shards=shards,
            folder=folder,
            restart=restart[number] if restart else None,
            following=runs[0] if runs else None,
        )
        runs.insert(0, run)
    return runs


def _by_input(emitted: Sequence[Emitted], run: LocalRun) -> list[pa.RecordBatch | None]:
    """What an operator has handed on, for each input of the next one."""
    handed: list[list[pa.RecordBatch]] = [[] for _ in run.inputs]
    for number, rows in emitted:
        handed[number].append(rows)
    return [concat(batches) if batches else None for batches in handed]
