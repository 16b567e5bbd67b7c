"""Shedding: which rows to discard when they come too fast, or do not fit into memory.

**The rule.** What remains is always a part of the full result, and as large a part as possible
(window paper, sections 4.2 and 4.3): a service rate is divided evenly over the streams, memory
goes to the stream whose rows are cheapest to keep for a second.

**Shards share a budget as they share the rows.** Every shard knows the rates of all rows
(:mod:`watersmeet.joins.equi.traffic`). So all of them keep the same share of a stream's new rows,
that which keeps the query to its rate, wherever the rows are. And of the memory a shard has the
part that it has of the rows.

A row is shed if a hash of its content exceeds the share of its stream. The share follows from the
state and from what the micro-batch brings, so a micro-batch that is run again sheds the same rows.

**Example.** Streams a and b bring 80 and 20 rows a second, and 50 can be served. Half of that is
more than b brings, so all of b is kept. Stream a gets the other 30 rows a second: the share 30 / 80
of its rows is kept, and as large a share of the full result is left.

Another shard has room for 1,000 bytes, and windows of 60 seconds. A second of a takes 10 bytes, a
second of b takes 50. So a keeps all of its 60 seconds, in 600 bytes, and b keeps 8 seconds in the
rest: its older segments are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet import sizes
from watersmeet.cost.window import rates_within, shares, windows_within
from watersmeet.errors import OverBudgetError
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.flow import Flow
from watersmeet.joins.equi.policy import EquiPolicy
from watersmeet.joins.equi.state import EquiState
from watersmeet.joins.equi.traffic import own_share, rates
from watersmeet.rows.codes import content_hash
from watersmeet.rows.groups import groups
from watersmeet.state.window import Window

_SECOND = 1e6
#: This part of the memory is divided evenly: a shard with hardly any rows also needs some.
_EVEN = 0.1
_MIX = np.uint64(0xD6E8FEB86659FD93)


class Shedding:
    """What a step sheds; lives for the step."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._shares: list[float] | None = None

    @property
    def shares(self) -> list[float]:
        """For each stream, the share of its new rows that is kept. It is fixed before the first
        row, when it is known what the micro-batch brings."""
        if self._shares is None:
            context = self._context
            self._shares = kept_shares(context.layout.policy, context.state, self._row_width)
        return self._shares

    def admit(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The new rows that are not shed."""
        kept = sample(rows, self.shares[stream], seed=stream)
        self._context.counters.streams[stream].shed += len(rows) - len(kept)
        return kept

    def fit(self) -> None:
        """If the state exceeds the shard's part of the memory, drop its oldest rows, or fail."""
        budget, state = self._context.layout.policy.budget, self._context.state
        if budget is None or budget.total is None or budget.overflow == "spill":
            return
        memory, total = shard_part(budget.total, state), _stored(state)
        if total <= memory:
            return
        if budget.overflow == "shed":
            self._shrink(memory)
            return
        stored = ", ".join(
            f"{window.rows:,} rows of {name} in {sizes.format(window.memory)}"
            for name, window in zip(self._context.names, state.windows, strict=True)
        )
        share = own_share(state.traffic, state.shard.count)
        raise OverBudgetError(
            f"the state of a shard would take {sizes.format(total)}, and the budget leaves it "
            f"{sizes.format(memory)} (it gets {share:.1%} of all rows). It stores {stored}. Give "
            "more memory, shorter windows, or overflow='spill' or 'shed'."
        )

    def remaining(self) -> float:
        """An estimate of the share of the full result that is left."""
        lengths = [stream.window for stream in self._context.layout.inputs]
        state = self._context.state
        stored = [entry.max_time for window in state.windows for entry in window.entries]
        return remaining(self.shares, state.flows, lengths, max(stored, default=None))

    def _shrink(self, memory: float) -> None:
        """Drop the oldest segments, each time of the stream that exceeds its part by most."""
        state = self._context.state
        parts = self._memory_parts(memory)
        while _stored(state) > memory:
            excess = [
                window.memory - part for window, part in zip(state.windows, parts, strict=True)
            ]
            stream = max(range(len(excess)), key=excess.__getitem__)
            dropped = state.windows[stream].drop_oldest()
            assert dropped is not None, "a window over its part holds something"
            self._context.counters.streams[stream].shed += dropped.rows - dropped.gone
            flow = state.flows[stream]
            flow.shed_until = max(dropped.max_time, flow.shed_until or dropped.max_time)

    def _memory_parts(self, memory: float) -> list[float]:
        """How much of a shard's memory each stream gets (section 4.3), by the rates at which its
        rows come there after shedding."""
        state = self._context.state
        seconds = [((each.length or 0) + (each.slot or 0)) / _SECOND for each in state.windows]
        each = [
            rate * share * (own.own / own.size if own.size else 0.0) * _width(window, 1.0)
            for rate, share, own, window in zip(
                rates(state.traffic), self.shares, state.traffic, state.windows, strict=True
            )
        ]
        kept = windows_within(memory, each, seconds)
        return [flow * time for flow, time in zip(each, kept, strict=True)]

    @property
    def _row_width(self) -> float:
        """About how many bytes a row takes in memory: eight a column, and some for the index."""
        layout = self._context.layout
        return 8.0 * len(layout.output.schema) / len(layout.inputs) + 36.0


def shard_part(total: int, state: EquiState) -> float:
    """A shard's part of the bytes that the state of all shards may take: mostly as large as its
    part of the rows."""
    shards = state.shard.count
    return total * (_EVEN / shards + (1 - _EVEN) * own_share(state.traffic, shards))


def kept_shares(policy: EquiPolicy, state: EquiState, width: float) -> list[float]:
    """For each stream, the share of its new rows that is kept; ``width`` is an estimate of what
    a row takes in memory, for a window that is still empty."""
    coming, served = rates(state.traffic), _served(policy, state)
    if policy.budget is None or served is None:
        return [1.0] * len(coming)
    if policy.budget.total is None:
        kept = shares(coming[0], coming[1], served)
    else:
        widths = [_width(window, width) for window in state.windows]
        seconds = [(window.length or 0) / _SECOND for window in state.windows]
        kept = rates_within(
            (coming[0], coming[1]), (seconds[0], seconds[1]), served, policy.budget.total, widths
        )
    return [min(1.0, part / rate) if rate else 1.0 for part, rate in zip(kept, coming, strict=True)]


def _served(policy: EquiPolicy, state: EquiState) -> float | None:
    """The rows a second that the query can process; None: nothing limits them. As measured, a
    shard does for its part of the rows what the query does for all, on as many cores at most as are
    at work side by side."""
    budget = policy.budget
    if budget is None or budget.rate is not None or not budget.measured or state.service is None:
        return None if budget is None else budget.rate
    share = own_share(state.traffic, state.shard.count)
    return state.service * min(policy.side_by_side, 1 / share if share else policy.side_by_side)


def _stored(state: EquiState) -> int:
    return sum(window.memory for window in state.windows)


def _width(window: Window, default: float) -> float:
    """The bytes that a row of the window takes, on average."""
    return window.memory / window.rows if window.rows else default


def sample(rows: pa.RecordBatch, share: float, *, seed: int) -> pa.RecordBatch:
    """About that share of the rows: the same ones each time, in whatever order they come. Of k
    equal rows about that share of k. Another ``seed``, as another stream has, gives other rows."""
    if share >= 1.0 or not len(rows):
        return rows
    hashes = content_hash(rows, seed=seed).to_numpy().view(np.uint64)
    order, first, counts = groups(hashes)
    numbers = np.empty(len(rows), dtype=np.uint64)
    numbers[order] = (np.arange(len(rows)) - np.repeat(first, counts)).view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = hashes + (numbers + np.uint64(seed)) * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX
        mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX
        mixed ^= mixed >> np.uint64(32)
    return rows.filter(pa.array((mixed >> np.uint64(11)) < np.uint64(share * 2**53)))


def remaining(
    shares: Sequence[float], flows: Sequence[Flow], lengths: Sequence[int | None], now: int | None
) -> float:
    """An estimate of the share of the full result that is left (equation 9): a result needs a row
    of every stream, none of which was shed, and shorter windows make fewer results. ``now`` is the
    greatest time that is stored."""
    share = float(np.prod(shares))
    if all(flow.shed_until is None for flow in flows):
        return share
    full = sum(length or 0 for length in lengths)
    kept = sum(_kept(flow, length or 0, now) for flow, length in zip(flows, lengths, strict=True))
    return share * kept / full if full else share


def _kept(flow: Flow, length: int, now: int | None) -> int:
    """How much of a window's length is left after its oldest rows were dropped."""
    if flow.shed_until is None or now is None:
        return length
    return min(length, max(now - flow.shed_until, 0))
