"""Shedding: which rows to discard when they come too fast, or do not fit into memory.

**The rule.** What remains is always a part of the full result, and as large a part as possible
(window paper, sections 4.2 and 4.3): a service rate is divided evenly over the streams, memory
goes to the stream whose rows are cheapest to keep for a second.

A row is shed if the hash of its key and time exceeds a share, which was fixed by the micro-batches
before: so a micro-batch that is run again sheds the same rows.

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
from watersmeet.joins.equi.state import EquiState
from watersmeet.rows.columns import codes_or_zero, times_of
from watersmeet.spec.budget import ShardBudget
from watersmeet.state.window import Window

_SECOND = 1e6


class Shedding:
    """What a step sheds; lives for the step."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._shares = kept_shares(context.layout.policy.budget, context.state, self._row_width)

    def admit(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The new rows that are not shed."""
        kept = sample(rows, self._shares[stream])
        self._context.counters.streams[stream].shed += len(rows) - len(kept)
        return kept

    def remaining(self) -> float:
        """An estimate of the share of the full result that is left."""
        lengths = [stream.window for stream in self._context.layout.inputs]
        return remaining(self._shares, self._context.state.flows, lengths)

    @property
    def _row_width(self) -> float:
        """About how many bytes a row takes in memory: eight a column, and some for the index."""
        layout = self._context.layout
        return 8.0 * len(layout.output.schema) / len(layout.inputs) + 36.0


def kept_shares(budget: ShardBudget | None, state: EquiState, width: float) -> list[float]:
    """For each stream, the share of its new rows that is kept. ``width`` is an estimate of the
    bytes of a row in memory, for a window that is still empty."""
    flows = state.flows
    served = None if budget is None else _served(budget, state)
    rates = [flow.rate or 0.0 for flow in flows]
    if budget is None or served is None or not all(rates):
        return [1.0] * len(flows)
    if budget.memory is None:
        kept = shares(rates[0], rates[1], served)
    else:
        widths = [_width(window, width) for window in state.windows]
        seconds = [(window.length or 0) / _SECOND for window in state.windows]
        kept = rates_within(
            (rates[0], rates[1]), (seconds[0], seconds[1]), served, budget.memory, widths
        )
    return [min(1.0, part / rate) for part, rate in zip(kept, rates, strict=True)]


def _served(budget: ShardBudget, state: EquiState) -> float | None:
    """The rows a second that the shard can process; None: nothing limits them."""
    if budget.rate is not None:
        return budget.rate
    if budget.speed is None or state.service is None:
        return None
    return state.service * budget.speed


def _width(window: Window, default: float) -> float:
    """The bytes that a row of the window takes, on average."""
    return window.memory / window.rows if window.rows else default


def sample(rows: pa.RecordBatch, share: float) -> pa.RecordBatch:
    """About that share of the rows: the same ones each time."""
    if share >= 1.0:
        return rows
    codes = codes_or_zero(rows).view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = codes ^ (times_of(rows).view(np.uint64) * np.uint64(0xD6E8FEB86659FD93))
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
    return rows.filter(pa.array((mixed >> np.uint64(11)) < np.uint64(share * 2**53)))


def fit(budget: ShardBudget, state: EquiState, names: Sequence[str]) -> None:
    """If the state exceeds its memory, drop its oldest rows, or fail."""
    memory = budget.memory
    if memory is None or budget.overflow == "spill":
        return
    total = sum(window.memory for window in state.windows)
    if total <= memory:
        return
    if budget.overflow == "fail":
        stored = ", ".join(
            f"{window.rows:,} rows of {name} in {sizes.format(window.memory)}"
            for name, window in zip(names, state.windows, strict=True)
        )
        raise OverBudgetError(
            f"the state of a shard would take {sizes.format(total)}, and the budget leaves it "
            f"{sizes.format(memory)} (the query's memory divided by the shards). It stores "
            f"{stored}. Give more memory, shorter windows, or overflow='spill' or 'shed'."
        )
    _shrink(memory, state)


def _shrink(memory: int, state: EquiState) -> None:
    """Drop segments until all fit: each time the oldest one of the stream that exceeds its part
    by most."""
    flows = state.flows
    seconds = [((window.length or 0) + (window.slot or 0)) / _SECOND for window in state.windows]
    widths = [_width(window, 1.0) for window in state.windows]
    each = [(flow.rate or flow.rows) * width for flow, width in zip(flows, widths, strict=True)]
    kept = windows_within(memory, each, seconds)
    parts = [flow * time for flow, time in zip(each, kept, strict=True)]
    while sum(window.memory for window in state.windows) > memory:
        excess = [window.memory - part for window, part in zip(state.windows, parts, strict=True)]
        stream = max(range(len(excess)), key=excess.__getitem__)
        dropped = state.windows[stream].drop_oldest()
        assert dropped is not None, "a window over its part holds something"
        flow = flows[stream]
        flow.shed_until = max(dropped.max_time, flow.shed_until or dropped.max_time)


def remaining(
    shares: Sequence[float], flows: Sequence[Flow], lengths: Sequence[int | None]
) -> float:
    """An estimate of the share of the full result that is left (equation 9): a result needs a row
    of every stream, none of which was shed, and shorter windows make fewer results."""
    share = float(np.prod(shares))
    if all(flow.shed_until is None for flow in flows):
        return share
    full = sum(length or 0 for length in lengths)
    kept = sum(_kept(flow, length or 0) for flow, length in zip(flows, lengths, strict=True))
    return share * kept / full if full else share


def _kept(flow: Flow, length: int) -> int:
    """How much of a window's length is left after its oldest rows were dropped."""
    if flow.shed_until is None or flow.newest is None:
        return length
    return min(length, max(flow.newest - flow.shed_until, 0))
