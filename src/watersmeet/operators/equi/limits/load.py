"""How much comes, how fast, and what follows from it: one step's part of that.

A :class:`Pacing` lives for a step. At its start windows are told how to hold new rows, and
it is fixed which share of each stream's rows is let in: by what the steps before have
measured, so that a step that is run again does the same. At its end the step is taken into
the averages, and windows may change their way (:mod:`.index_choice`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.cost import calibration
from watersmeet.cost.engine import keeping_indexed, keeping_plain
from watersmeet.operators.base import Counters
from watersmeet.operators.equi.layout import JoinLayout
from watersmeet.operators.equi.limits import index_choice, shedding
from watersmeet.operators.equi.state import EquiState
from watersmeet.rows.columns import TIME
from watersmeet.state.cache import default_folder

#: How much the newest step weighs in the average of what a step serves.
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


class Pacing:
    """What a step knows of its streams' pace."""

    def __init__(self, layout: JoinLayout, state: EquiState, counters: Counters) -> None:
        self._layout = layout
        self._state = state
        self._counters = counters
        self._began = time.perf_counter()
        self._results = counters.results
        self._arrivals = [Arrivals() for _ in layout.inputs]
        self._hold()
        self._shares = shedding.kept_shares(layout.budget, state, self._row_width)

    @property
    def paused(self) -> bool:
        """Has the step brought no rows?"""
        return not any(arrived.rows for arrived in self._arrivals)

    def probed(self, stream: int) -> bool:
        """Have rows come that probe the stream's window?"""
        return any(arrived.rows for i, arrived in enumerate(self._arrivals) if i != stream)

    def let_in(self, stream: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The new rows that are not shed."""
        self._arrivals[stream].add(rows)
        kept = shedding.sample(rows, self._shares[stream])
        self._counters.streams[stream].shed += len(rows) - len(kept)
        return kept

    def learn(self) -> None:
        """Take the step into the averages, and decide by them about the next ones."""
        if not self.paused:
            self._average()
            if "auto" in self._layout.index:
                names = [stream.name for stream in self._layout.inputs]
                weights = calibration.weights(default_folder())
                flows, windows = self._state.flows, self._state.windows
                self._counters.notes += index_choice.switch_indexes(names, flows, windows, weights)
        lengths = [stream.window for stream in self._layout.inputs]
        share = shedding.remaining(self._shares, self._state.flows, lengths)
        made = self._counters.results - self._results
        self._counters.full_results += round(made / share) if share else made

    def _average(self) -> None:
        state = self._state
        for flow, arrived in zip(state.flows, self._arrivals, strict=True):
            flow.arrive(arrived.rows, arrived.oldest, arrived.newest)
        seconds = max(time.perf_counter() - self._began, 1e-6)
        served = sum(arrived.rows for arrived in self._arrivals) / seconds
        before = served if state.service is None else state.service
        state.service = before + _WEIGHT * (served - before)

    def _hold(self) -> None:
        """Hold the windows as the plan says, where it says so; at first, as the declared
        rates say."""
        for index, expected, flow, window in zip(
            self._layout.index,
            self._layout.expected,
            self._state.flows,
            self._state.windows,
            strict=True,
        ):
            if index != "auto":
                flow.indexed = index == "always"
            elif expected is not None and flow.steps == 0:
                weights = calibration.weights(default_folder())
                plain = keeping_plain(expected, weights)
                flow.indexed = keeping_indexed(expected, weights) <= plain
            window.indexed = flow.indexed

    @property
    def _row_width(self) -> float:
        """About what a row takes in memory: eight bytes a column and some for the index."""
        return 8.0 * len(self._layout.output) / len(self._layout.inputs) + 36.0
