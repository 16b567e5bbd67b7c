"""What an equality join remembers in one shard: a window for each stream, measurements, closed keys
and deferred probes."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.joins.equi.flow import Flow
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.traffic import Traffic
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.shard import ShardState
from watersmeet.state.store import Store


@dataclass(frozen=True)
class Debt:
    """A probe that was put off: the rows of a ``new`` segment of a ``stream`` have yet to probe an
    ``old`` segment of the other stream. Both segments are given by their ids."""

    stream: int
    new: str
    old: str


class EquiState(ShardState):
    """One shard of an equality join.

    ``watermark`` is that of the last step, in microseconds. ``flows[i]`` has the measurements of
    stream i, and ``traffic[i]`` what it brings to all shards, if a budget needs that. ``cramped``:
    has it been noted that the memory is too small? ``service`` is the rows a second that steps have
    managed. ``promises[i]`` has numbers about stream i's closed keys. ``debts`` are the probes of
    stored segments that were put off, oldest first."""

    def __init__(self, layout: EquiLayout, store: Store, shard: Shard, cache: SegmentCache) -> None:
        super().__init__(
            store,
            cache,
            shard=shard,
            fingerprint=layout.fingerprint,
            lengths=layout.kept,
            delay=layout.delay,
            memory=layout.policy.memory,
            limits=layout.limits,
        )
        self._own_watermarks = any(stream.own_watermark for stream in layout.inputs)
        kept, streams = self.section, len(layout.inputs)
        self.watermark: int | None = kept.get("watermark")
        self.flows = [Flow(**flow) for flow in kept.get("flows", [{}] * streams)]
        self.traffic = [Traffic(**each) for each in kept.get("traffic", [{}] * streams)]
        self.cramped: bool = kept.get("cramped", False)
        self.service: float | None = kept.get("service")
        self.promises: list[dict[str, int]] = kept.get("promises", [{}] * streams)
        self.debts = [Debt(**debt) for debt in kept.get("debts", [])]
        for window, flow in zip(self.windows, self.flows, strict=True):
            window.indexed = flow.indexed

    @property
    def waits(self) -> bool:
        """Rows of a stream with its own watermark are late by the watermark of the step before
        (see :mod:`.step`), and all shards must judge by the same one. So each takes a step
        whenever the watermark has moved, also if it stores nothing."""
        return self._own_watermarks or super().waits

    def stored_rows(self) -> list[int]:
        """How many rows are stored of each stream now."""
        return [window.rows for window in self.windows]

    @property
    def owing(self) -> set[str]:
        """The ids of the segments that have debts, new or old."""
        return {segment for debt in self.debts for segment in (debt.new, debt.old)}

    def commit(self) -> None:
        owing = self.owing
        self.section.update(
            watermark=self.watermark,
            flows=[vars(flow) for flow in self.flows],
            traffic=[vars(each) for each in self.traffic],
            cramped=self.cramped,
            service=self.service,
            promises=self.promises,
            debts=[vars(debt) for debt in self.debts],
        )
        self.write(fixed=owing)
        stored = {entry.id for window in self.windows for entry in window.entries}
        assert owing <= stored, "a segment with debts stays as it is"
