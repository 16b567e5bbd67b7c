"""What a hop of a ring join remembers in one shard: its slices, one window for each stream that it
holds, and measurements."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet import sizes
from watersmeet.conditions.cascade import PredicateStatistics
from watersmeet.cost.averages import moving_average
from watersmeet.errors import OverBudgetError, StateError
from watersmeet.joins.ring.hops import HopLayout
from watersmeet.joins.ring.layout import RingLayout, of_hop
from watersmeet.rows.shard import Shard
from watersmeet.state.cache import SegmentCache
from watersmeet.state.shard import ShardState
from watersmeet.state.store import Store
from watersmeet.state.window import Window

#: How much the newest micro-batch weighs in the averages of new rows.
_WEIGHT = 0.1


class RingState(ShardState):
    """One shard of a hop.

    ``watermark`` is that of the last step, in microseconds. ``measured[n]`` has the measurements of
    condition n; ``rows[i]`` is the average number of new rows of stream i in a micro-batch.
    ``advised`` is the order of hops that was found to be better, ``advised_slices`` the number of
    slices."""

    def __init__(
        self, layout: RingLayout, hop: HopLayout, store: Store, shard: Shard, cache: SegmentCache
    ) -> None:
        super().__init__(
            store,
            cache,
            shard=shard,
            fingerprint=of_hop(layout.fingerprint, hop.number, hop.count),
            lengths=[layout.streams[stream].window for stream in hop.holds],
            delay=layout.delay,
            memory=layout.policy.memory,
            limits=layout.limits,
        )
        kept, self._layout, self._holds = self.section, layout, hop.holds
        self._judges = hop.number == 0 and layout.own_watermarks
        self.watermark: int | None = kept.get("watermark")
        known = [PredicateStatistics(*numbers) for numbers in kept.get("measured", [])]
        count = len(layout.conditions.streams)
        self.measured = (
            known if len(known) == count else [PredicateStatistics() for _ in range(count)]
        )
        self.rows: list[float] = kept.get("rows", [0.0] * len(layout.streams))
        self.advised: list[int] | None = kept.get("advised")
        self.advised_slices: int | None = kept.get("advised_slices")
        for window in self.windows:
            window.indexed = False

    def slice_of(self, stream: int) -> Window:
        """The rows of a stream that are stored here."""
        return self.windows[self._holds.index(stream)]

    @property
    def waits(self) -> bool:
        """Rows of a stream with its own watermark are late by the watermark of the step before, and
        all shards must judge by the same one. So each shard of the first hop takes a step whenever
        the watermark has moved, even if it stores nothing."""
        return self._judges or super().waits

    def learn_rows(self, arrived: Sequence[int]) -> list[float]:
        """The averages of the new rows of a micro-batch, with the present one."""
        weight = 1.0 if not any(self.rows) else _WEIGHT
        pairs = zip(self.rows, arrived, strict=True)
        self.rows = [moving_average(before, now, weight=weight) for before, now in pairs]
        return self.rows

    def check_reach(self, watermark: int | None) -> None:
        """Stop if new rows are not sent here, although they may match rows that are stored here.
        (Where a stream has its own watermark, rows are late by that of the step before.)"""
        policy = self._layout.policy
        if self.shard.number < policy.reach:
            return
        if self._layout.own_watermarks:
            watermark = self.watermark
        for window in self.windows:
            for entry in window.entries:
                expired = None not in (watermark, window.length) and (
                    entry.max_time + (window.length or 0) <= (watermark or 0)
                )
                if not expired:
                    raise StateError(
                        f"slice {self.shard.number + 1} still holds rows of an earlier run, but "
                        f"new rows are sent to {policy.reach} slices only. Say how many slices "
                        f"there were: tuning=wm.Tuning(slices={policy.slices}, draining=...), at "
                        f"least {self.shard.number + 1}, until those rows have expired. Nothing is "
                        "lost."
                    )

    def check_memory(self) -> None:
        """Stop if the state exceeds a budget with ``overflow="fail"``."""
        budget = self._layout.policy.budget
        if budget is None or budget.memory is None or budget.overflow != "fail":
            return
        total = sum(window.memory for window in self.windows)
        if total > budget.memory:
            stored = ", ".join(
                f"{window.rows:,} rows of {self._layout.streams[stream].name}"
                for stream, window in zip(self._holds, self.windows, strict=True)
            )
            raise OverBudgetError(
                f"the state of a shard would take {sizes.format(total)}, and the budget leaves it "
                f"{sizes.format(budget.memory)} (the query's memory divided by the shards of all "
                f"hops). It stores {stored}. Give more memory, shorter windows, or "
                "overflow='spill'."
            )

    def commit(self) -> None:
        self.section.update(
            watermark=self.watermark,
            rows=self.rows,
            advised=self.advised,
            advised_slices=self.advised_slices,
            measured=[[m.pairs, m.passed, m.seconds] for m in self.measured],
        )
        self.write()
