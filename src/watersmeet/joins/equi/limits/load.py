"""One step's load: how many rows come, how fast, and what follows from it.

At the start of a step it is fixed which windows get an index, and which share of each stream's
rows is kept: both from what the steps before have measured, so a step that is run again does the
same. At its end the step enters the averages, and windows may switch (:mod:`.index_choice`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.cost import calibration
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.limits import index_choice
from watersmeet.joins.equi.limits.shedding import Shedding
from watersmeet.rows.columns import TIME

#: How much the newest step weighs in the average of the rows a second that steps manage.
_WEIGHT = 0.3


@dataclass
class Arrivals:
    """What a step has brought of one stream so far: rows, and the bounds of their times."""

    rows: int = 0
    oldest: int | None = None
    newest: int | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        self.rows += len(rows)
        if TIME not in rows.schema.names:
            return
        bounds = pc.min_max(rows.column(TIME).view(pa.int64())).as_py()
        if bounds["min"] is not None:
            self.oldest = min(bounds["min"], bounds["min"] if self.oldest is None else self.oldest)
            self.newest = max(bounds["max"], bounds["max"] if self.newest is None else self.newest)


class Load:
    """What a step brings, and the averages that it enters."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._began = time.perf_counter()
        self._results_before = context.counters.results
        self._arrivals = [Arrivals() for _ in context.layout.inputs]
        self._adaptive = any(index.adaptive for index in context.layout.policy.index)
        self._choose_indexes()
        self._shedding = Shedding.of(context)

    @property
    def paused(self) -> bool:
        """Has the step brought no rows?"""
        return not any(arrived.rows for arrived in self._arrivals)

    def probed(self, stream: int) -> bool:
        """Have rows come that probe the stream's window?"""
        return any(arrived.rows for i, arrived in enumerate(self._arrivals) if i != stream)

    def admit(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The new rows that are not shed."""
        self._arrivals[stream].add(rows)
        return rows if self._shedding is None else self._shedding.admit(stream, rows)

    def learn(self) -> None:
        """Let the step enter the averages, and make the choices for the next ones."""
        state, counters = self._context.state, self._context.counters
        if not self.paused:
            self._average()
            if self._adaptive:
                weights = calibration.weights(state.cache.folder)
                counters.notes += index_choice.switch_indexes(
                    self._context.names, state.flows, state.windows, weights
                )
        results = counters.results - self._results_before
        share = 1.0 if self._shedding is None else self._shedding.remaining()
        counters.full_results += round(results / share) if share else results

    def _average(self) -> None:
        state = self._context.state
        for flow, arrived in zip(state.flows, self._arrivals, strict=True):
            flow.arrive(arrived.rows, arrived.oldest, arrived.newest)
        seconds = max(time.perf_counter() - self._began, 1e-6)
        served = sum(arrived.rows for arrived in self._arrivals) / seconds
        before = served if state.service is None else state.service
        state.service = before + _WEIGHT * (served - before)

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
