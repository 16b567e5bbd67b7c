"""One step's load: how many rows come, how fast, and what follows from it.

At the start of a step it is fixed which windows get an index, from what the steps before have
measured; and before its first row, which share of each stream's rows is kept, from that and from
what the micro-batch brings to all shards (:mod:`watersmeet.joins.equi.traffic`). So a step that is
run again does the same. At its end the step enters the averages
(:mod:`watersmeet.joins.equi.flow`).

**Index or plain.** After every micro-batch with data the cost model is asked what each window would
cost either way, for the averages of the streams. A window switches when the other way has been
clearly cheaper for several micro-batches in a row. Existing segments stay as they are, and every
segment is probed by its index, or scanned if it has none: so a switch costs nothing and changes no
result.

**Example.** A window is stored with an index, which costs 2.0 ms a micro-batch; plain it would cost
1.5 ms, less than 0.8 of that. If that is so for three micro-batches in a row, new segments are
plain from then on. With one micro-batch of 1.7 ms among them, the counting begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet import sizes
from watersmeet.cost import calibration
from watersmeet.cost.averages import moving_average
from watersmeet.cost.engine import Direction, Weights, indexed_cost, plain_cost
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.flow import Flow
from watersmeet.joins.equi.limits.shedding import Shedding
from watersmeet.state.window import Window

#: How much the newest step weighs in the average of the rows a second that steps manage.
_WEIGHT = 0.3
#: The other way is clearly cheaper if it costs less than this share of the present one.
CLEARLY = 0.8
#: A state so many times as large as the memory of a step makes that far too small.
CRAMPED = 16
#: A window switches when that was so for this many micro-batches in a row.
PATIENCE = 3


@dataclass
class Brought:
    """How many rows of a stream a step has brought, and how many of them are joined."""

    rows: int = 0
    joined: int = 0


class Load:
    """What a step brings, and the averages that it enters."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._began = time.perf_counter()
        self._results_before = context.counters.results
        self._brought = [Brought() for _ in context.layout.inputs]
        self._adaptive = any(index.adaptive for index in context.layout.policy.index)
        self._choose_indexes()
        shed = any(flow.shed_until is not None for flow in context.state.flows)
        self._shedding = Shedding(context) if shed or context.layout.policy.expects else None

    @property
    def paused(self) -> bool:
        """Has the step brought no rows?"""
        return not any(brought.rows for brought in self._brought)

    def probed(self, stream: int) -> bool:
        """Have rows come that probe the stream's window?"""
        return any(brought.rows for i, brought in enumerate(self._brought) if i != stream)

    def arrive(self, stream: int, rows: pa.RecordBatch) -> None:
        """Note rows that come, late or not: they are this shard's part of all that come."""
        if self._context.layout.policy.expects:
            self._context.state.traffic[stream].own += rows.nbytes

    def admit(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The new rows that are not shed."""
        brought = self._brought[stream]
        brought.rows += len(rows)
        rows = rows if self._shedding is None else self._shedding.admit(stream, rows)
        brought.joined += len(rows)
        return rows

    def fit(self) -> None:
        """Let the state keep to its budget, once new rows are stored."""
        if self._shedding is not None:
            self._shedding.fit()

    def learn(self) -> None:
        """Let the step enter the averages, and make the choices for the next steps."""
        state, counters = self._context.state, self._context.counters
        if not self.paused:
            self._average()
            if self._adaptive:
                weights = calibration.weights(state.cache.folder)
                counters.notes += switch_indexes(
                    self._context.names, state.flows, state.windows, weights
                )
        if not state.cramped:
            found = cramped(self._context)
            state.cramped = found is not None
            counters.notes += [] if found is None else [found]
        results = counters.results - self._results_before
        share = 1.0 if self._shedding is None else self._shedding.remaining()
        counters.full_results += round(results / share) if share else results

    def _average(self) -> None:
        state = self._context.state
        for flow, brought in zip(state.flows, self._brought, strict=True):
            flow.arrive(brought.joined)
        seconds = max(time.perf_counter() - self._began, 1e-6)
        served = sum(brought.rows for brought in self._brought) / seconds
        state.service = moving_average(state.service, served, weight=_WEIGHT)

    def _choose_indexes(self) -> None:
        """Fix which windows' new segments get an index: as the policy says; if it may change,
        as the steps before have chosen."""
        layout, state = self._context.layout, self._context.state
        for index, flow, window in zip(
            layout.policy.index, state.flows, state.windows, strict=True
        ):
            if not index.adaptive or flow.steps == 0:
                flow.indexed = index.indexed
            window.indexed = flow.indexed


def cramped(context: StepContext) -> str | None:
    """A note, if the memory is so small that steps mostly read again what they had to put away."""
    policy, state = context.layout.policy, context.state
    if policy.budget is None or policy.memory is None:
        return None
    if state.shard.number == 0 and policy.too_little_memory is not None:
        return policy.too_little_memory
    stored = sum(window.memory for window in state.windows)
    if policy.budget.bounds_state or stored <= CRAMPED * policy.memory:
        return None
    least = stored * policy.side_by_side // CRAMPED
    return (
        f"budget: a shard stores {sizes.format(stored)}, and {sizes.format(policy.memory)} of it "
        f"at a time may be in memory: steps mostly read the rest again. Give at least "
        f"memory={sizes.format(least)!r}"
    )


def measured_workload(own: Flow, others: Sequence[Flow], stored: float) -> Direction:
    """What a window has to do: new rows of the other streams probe the stream's own window."""
    return Direction(
        probes=sum(flow.rows for flow in others),
        probing=max((flow.present for flow in others), default=0.0),
        rows=own.rows,
        stored=stored,
        keys=own.keys or 1.0,
    )


def switch_indexes(
    names: Sequence[str], flows: Sequence[Flow], windows: Sequence[Window], weights: Weights
) -> list[str]:
    """Switch each window for which the other way has been clearly cheaper long enough. Returns
    notes that say what changed, and why."""
    notes = []
    for position, (name, flow, window) in enumerate(zip(names, flows, windows, strict=True)):
        others = [other for i, other in enumerate(flows) if i != position]
        workload = measured_workload(flow, others, window.rows)
        indexed, plain = indexed_cost(workload, weights), plain_cost(workload, weights)
        present, other = (indexed, plain) if flow.indexed else (plain, indexed)
        flow.switch_votes = flow.switch_votes + 1 if other < CLEARLY * present else 0
        if flow.switch_votes >= PATIENCE:
            flow.indexed, flow.switch_votes = not flow.indexed, 0
            way = "with an index" if flow.indexed else "plain"
            notes.append(
                f"{name} is stored {way} from now on: {other / 1e6:.2f} ms a micro-batch instead "
                f"of {present / 1e6:.2f} ms, for {workload}"
            )
    return notes
