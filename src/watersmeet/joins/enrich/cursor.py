"""The cursor: whose turn it is. Which of the rows that wait are answered in a step, and how much of
the table the next step reads.

The cursor goes round the partitions of the table. In each step it is the turn of the next few
partitions that any row waits for; how many these are is the *pace*. The rows of these partitions
are answered, whenever they have come. So a row waits for one pass through the table at most.

Take a shard of four partitions, 0 to 3, at a pace of one. Rows are named after their partition, and
a step's new rows may have their turn in it:

    step   new rows   waiting    turn   answered   still waiting   cursor   passed
    1      1, 3       1, 3       1      1          3               2        1/4
    2      0          0, 3       3      3          0               0        2/4
    3      0, 2       0, 0, 2    0      0, 0       2               1        3/4
    4      1          1, 2       1      1          2               2        4/4
    5      none       2          -      2          none            2

A partition that no row waits for is left out, like 0 in the first step. But it has had its turn:
with the fourth step, one pass through the table has ended, and with it a cycle. In the fifth step
no rows come, so all that wait are answered.

**No row is left behind.** A row may wait only if the shard is sure to take another step: it has
seen a row that will move the watermark, and Spark then runs another micro-batch, with data or
without. A step without new rows answers all that wait: the stream has paused, or ended. A row
that the watermark has reached waits no longer, lest it be late for what follows in the query; nor
does one that has waited for as many steps as it may.
"""

from __future__ import annotations

import math
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.cost.averages import moving_average
from watersmeet.cost.disk_phase import pace
from watersmeet.durations import milliseconds
from watersmeet.joins.enrich.cache.hot_keys import HotKeys
from watersmeet.joins.enrich.layout import EnrichLayout
from watersmeet.joins.enrich.queue import Choice, arrived_of, every_row
from watersmeet.joins.enrich.state import WEIGHT, EnrichState
from watersmeet.rows.columns import TIME, Bools, Ints, codes_of, times_of
from watersmeet.table.shard import TableShard

#: Of the mean time between two steps and that between the last two, neither counts as more than so
#: many times the other: a stream may have paused, or the query been stopped for days.
_OUTLIER = 4


class Cursor:
    """The cursor in one step. ``expected_ns`` is what it would take to answer its rows at once,
    ``wrapped`` whether a pass through the table has ended with it."""

    def __init__(self, layout: EnrichLayout, table: TableShard, state: EnrichState) -> None:
        self._layout = layout
        self._table = table
        self._state = state
        self._greatest: int | None = None
        self.expected_ns = 0.0
        self.wrapped = False

    @property
    def may_wait(self) -> bool:
        """May any row of this query wait?"""
        return self._layout.max_wait is not None and self._layout.policy.wakes

    def note(self, rows: pa.RecordBatch) -> None:
        """Note the times of new rows."""
        if TIME in rows.schema.names:
            latest = pc.max(rows.column(TIME).view(pa.int64())).as_py()
            if latest is not None:
                self._greatest = max(latest, self._greatest or latest)

    def due(
        self,
        watermark: int | None,
        hot: HotKeys | None,
        *,
        leaving: Ints,
        paused: bool,
        renewed: bool,
    ) -> Choice:
        """Which rows wait no longer; ``leaving`` are keys that were cached until now; ``paused``:
        no rows have come in this step; ``renewed``: the table is another one than that of the step
        before."""
        progress = self._state.progress
        if paused or progress.pace is None or not self._wakes_again(watermark):
            self.wrapped, progress.passed = True, 0.0
            return every_row
        # Partitions that no row waits for take their turn as well, or else a cache that answers
        # all rows would make a cycle so short that its keys seem rare.
        progress.passed += progress.pace / max(len(self._table), 1)
        self.wrapped = progress.passed > 1 - 1e-9
        progress.passed -= self.wrapped
        spans = self._table.spans(np.sort(self._next_partitions()))
        oldest = progress.step - self._max_batches

        def due(rows: pa.RecordBatch) -> Bools:
            codes = codes_of(rows)
            chosen: Bools = arrived_of(rows) <= oldest
            for least, greatest in spans:
                chosen |= (codes >= least) & (codes <= greatest)
            if renewed:
                # A newer version of the table may have a key no more.
                chosen |= self._table.home(codes) < 0
            if watermark is not None:
                chosen |= times_of(rows) <= watermark
            if hot is not None:
                chosen |= hot.find(codes)[0]
            if len(leaving):
                chosen |= np.isin(codes, leaving)
            return chosen

        return due

    def end(self) -> None:
        """Decide how much the next step reads."""
        progress, now = self._state.progress, time.time_ns() // 1_000_000
        if self._greatest is not None:
            progress.greatest = max(self._greatest, progress.greatest or self._greatest)
        if progress.began_ms is not None:
            between = now - progress.began_ms
            progress.interval_ms = _interval(progress.interval_ms, between)
        progress.began_ms = now
        progress.pace = self._pace()

    # -- inside ---------------------------------------------------------------------

    def _next_partitions(self) -> Ints:
        """Of the partitions that rows wait for, the next ones, from the cursor on; it moves."""
        progress, window = self._state.progress, self._state.waiting.window
        held = [self._table.holding(window.open(entry).index.codes) for entry in window.entries]
        wanted = np.unique(np.concatenate(held)) if held else np.empty(0, np.int64)
        ahead, behind = wanted[wanted >= progress.cursor], wanted[wanted < progress.cursor]
        chosen = np.concatenate([ahead, behind])[: progress.pace]
        if len(chosen):
            progress.cursor = int(chosen[-1] + 1) % len(self._table)
        return chosen

    def _wakes_again(self, watermark: int | None) -> bool:
        """Is the shard sure to take another step, whatever comes? A row of this step will move
        the watermark; and nothing else in the query has held it back so far."""
        before, delay = self._state.progress.greatest, self._layout.delay
        if self._greatest is None or delay is None:
            return False
        now = (watermark or 0) // 1000
        held_back = before is not None and before // 1000 - milliseconds(delay) > now
        return not held_back and self._greatest // 1000 - milliseconds(delay) > now

    @property
    def _max_batches(self) -> int:
        """For how many steps a row may wait."""
        wait, interval = self._layout.max_wait, self._state.progress.interval_ms
        if wait is None:
            return 0
        if wait.batches is not None:
            return wait.batches
        assert wait.microseconds is not None, "a wait is a number of batches or a duration"
        return math.floor(wait.microseconds / 1000 / interval) if interval else 0

    def _pace(self) -> int | None:
        """How many partitions the next step reads."""
        progress = self._state.progress
        measured = self._state.reading.known or self._layout.access != "auto"
        if not self.may_wait or not measured:
            return None
        return pace(
            len(self._table),
            cheap=self.expected_ns <= self._layout.policy.at_once,
            max_wait=self._max_batches,
            rows=progress.missed,
            v_S=progress.width,
            room=self._layout.policy.queue,
        )


def _interval(before: float, now: int) -> float:
    """The mean time between two steps, with the last one; 0 if there was none before.

    >>> [_interval(before, now) for before, now in ((0.0, 50), (50.0, 100), (50.0, 10**9))]
    [50, 60.0, 80.0]

    If the first of all was a pause, that does not count for long either.

    >>> _interval(1e9, 50)
    170.0
    """
    now = max(now, 1)
    if not before:
        return now
    mean = min(before, _OUTLIER * now)
    return moving_average(mean, min(now, _OUTLIER * before), weight=WEIGHT)
