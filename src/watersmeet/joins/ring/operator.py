"""The operator of one hop of a ring join, as backends see it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from watersmeet.joins.operator import END_OF_TIME, Emitted, Operator, count_windows
from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.hops import HopLayout
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.state import RingState
from watersmeet.joins.ring.step import HopStep
from watersmeet.joins.watermark import unproven
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.store import Store


class RingHop(Operator[RingState, RingCounters, Emitted]):
    """The operator of one hop. It holds no state of its own: see :class:`RingState`."""

    def __init__(self, layout: RingLayout, hop: HopLayout) -> None:
        self.layout = layout
        self.hop = hop
        self.inputs = [inlet.name for inlet in hop.inlets]
        self.output = layout.output.schema

    @property
    def counted(self) -> list[str]:
        return [stream.name for stream in self.layout.streams]

    @property
    def chunk_bytes(self) -> int | None:
        return self.layout.piece

    def counters(self) -> RingCounters:
        return RingCounters.zero(len(self.layout.streams))

    def open(self, store: Store, shard: Shard, cache: SegmentCache) -> RingState:
        return RingState(self.layout, self.hop, store, shard, cache)

    def step(
        self,
        chunks: Iterable[Sequence[pa.RecordBatch | None]],
        watermark: int | None,
        state: RingState,
        counters: RingCounters,
    ) -> Iterator[Emitted]:
        """Results of one micro-batch, or what goes to the inputs of the next hop."""
        step = HopStep(self.layout, self.hop, state, counters)
        yield from step.results(chunks, watermark)

    def finish(self, state: RingState, counters: RingCounters) -> Iterator[Emitted]:
        """Time ends: emit what is unmatched."""
        yield from HopStep(self.layout, self.hop, state, counters).advance(END_OF_TIME)

    def report(self, state: RingState, counters: RingCounters) -> None:
        count_windows(state, counters, self.hop.holds)
        for stream, window in zip(self.hop.holds, state.windows, strict=True):
            if self.layout.preserved[stream]:
                counters.streams[stream].unproven = unproven(window)
