"""The equality join of streams, one step at a time.

**Result.** Rows a and b match if their keys are equal, the predicate holds, and the earlier one is
at most its stream's window older than the later one:

    -W_b <= time(b) - time(a) <= W_a

Rows of three and more streams match if each two of them do.

**Each pair once.** A step processes the streams in some order (:mod:`.drivers`). A stream's
new rows first probe the stored rows of the others: rows of earlier batches, and new rows that were
processed before in this one. Then they are stored themselves. So of two rows the one that is
stored later probes the other, and no pair is found twice; of many, the one that is stored last
probes all others (:mod:`.match.combinations`).

**What expires.** Row a is useless when time(a) + W_a <= watermark: every later b is further away.
That same moment proves an outer or anti join's unmatched row (:mod:`watersmeet.joins.watermark`).
A row's *mark* says that it has matched. A row of a semi or anti join is discarded when it has
matched.

**Which watermark.** Rows of a stream that brought its own watermark may come out of another
stateful operator of the same query. That operator emits the rows that the new watermark closes:
they are behind it, but never behind the watermark of the step before. So such rows are late by the
previous watermark, as in Spark's own operators, and no row expires before all new rows have probed
it.

**Promises about keys.** A stream may promise that a key comes once, or comes no more
(:mod:`.promises.closed_keys`). Rows that cannot match any more are then discarded
(:mod:`.promises.purge`), or not stored at all, with or without a window.

**What may vary.** Whether a window has an index (:mod:`.limits.load`), and when its
expired rows leave: *actively*, whenever the watermark moves, or *lazily*, when the window is
probed, which takes more memory and less work. Neither changes the result. Rows that do not fit into
a budget are shed (:mod:`.limits.shedding`), or stay on disk. Those on disk are probed at once, or
later for the sake of early results (:mod:`.limits.debts`).

**Phases.** A step has only the phases that its plan needs. Promises (:mod:`.promises.phase`),
deferred probes and budgets have no part in the step of a join without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.limits.load import Load
from watersmeet.joins.equi.match.combinations import CombinationMatcher
from watersmeet.joins.equi.match.pairs import PairMatcher, PairProbe
from watersmeet.joins.equi.promises.phase import PromisePhase
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.joins.equi.state import EquiState
from watersmeet.joins.operator import END_OF_TIME, Chunk
from watersmeet.joins.watermark import matchable, newly_useless, on_time, proven_unmatched
from watersmeet.rows.columns import Bools, codes_of
from watersmeet.rows.widths import sliced
from watersmeet.segments.segment import Segment
from watersmeet.state.window import Window


class Matcher(Protocol):
    """Matches new rows with stored ones, in pairs or in combinations. It lives for a step."""

    def arrive(self, stream: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows of one stream make with stored rows of the others; then the
        new rows are stored."""

    def unmatched(self, stream: int, rows: pa.RecordBatch, due: Bools) -> Iterator[pa.RecordBatch]:
        """The results for those of a stored segment's rows that are ``due``: of a preserved
        stream, not marked as matched, and expired."""


class EquiStep:
    """One step of one shard. ``matcher`` is always there; ``promises`` and ``debts`` only if the
    plan needs them."""

    def __init__(
        self,
        layout: EquiLayout,
        ordered: Callable[[Chunk, EquiState], Iterator[tuple[int, pa.RecordBatch]]],
        state: EquiState,
        counters: EquiCounters,
    ) -> None:
        self._layout = layout
        self._ordered = ordered
        self._state = state
        self._counters = counters
        self._context = context = StepContext(layout, state, counters)
        self.promises: PromisePhase | None = None
        self.debts: Debts | None = None
        if len(layout.inputs) > 2:
            self.matcher: Matcher = CombinationMatcher(context)
            return
        promised, probe = PromisedKeys(context) if layout.closes else None, PairProbe(context)
        if layout.policy.in_stages or state.debts:
            self.debts = Debts(context, promised, probe)
        if promised is not None:
            self.promises = PromisePhase(context, promised, self.debts)
        self.matcher = PairMatcher(context, probe, promised, self.debts)

    def results(self, chunks: Iterable[Chunk], watermark: int | None) -> Iterator[pa.RecordBatch]:
        """The results of the step, under a watermark in microseconds (None before there is one).
        The state changes as results are taken; commit it when they are all taken."""
        load = Load(self._context)
        if self.debts is not None:
            yield from self.debts.begin()
        for chunk, by_value in self._flagged(chunks):
            rows: Chunk = [self._accepted(i, rows, watermark, load) for i, rows in enumerate(chunk)]
            if by_value and self.promises is not None:
                first, rows = self.promises.groups(rows)
                yield from self._processed(first, load)
                yield from self.promises.take_effect(paused=False)
            yield from self._processed(rows, load)
        if self.debts is not None:
            yield from self.debts.finish(watermark, paused=load.paused)
        if self.promises is not None:
            yield from self.promises.finish(watermark, paused=load.paused)
        if watermark is not None:
            yield from self._advance(watermark, load)
            self._state.watermark = watermark
        load.learn()

    def end_of_time(self) -> Iterator[pa.RecordBatch]:
        """The results that are left when no rows come any more."""
        return self._advance(END_OF_TIME, load=None)

    # -- new rows -------------------------------------------------------------------

    def _flagged(self, chunks: Iterable[Chunk]) -> Iterable[tuple[Chunk, bool]]:
        """The chunks, and whether some of their rows are to be processed before the others."""
        if self.promises is None:
            return ((chunk, False) for chunk in chunks)
        return self.promises.flagged(chunks)

    def _accepted(
        self, stream: int, rows: pa.RecordBatch | None, watermark: int | None, load: Load
    ) -> pa.RecordBatch | None:
        """The new rows to join: neither late nor shed, and as promised. Punctuations among them
        are collected."""
        if rows is None or not len(rows):
            return rows
        load.arrive(stream, rows)
        if self.promises is not None:
            rows = self.promises.collect(stream, rows)
        own = self._layout.inputs[stream].own_watermark
        rows = self._without_late(stream, rows, self._state.watermark if own else watermark)
        if self.promises is not None:
            rows = self.promises.accepted(stream, rows)
        return load.admit(stream, rows)

    def _without_late(
        self, stream: int, rows: pa.RecordBatch, watermark: int | None
    ) -> pa.RecordBatch:
        """The rows that are not late; the others are dropped, and counted."""
        count, kept = self._counters.streams[stream], on_time(rows, watermark)
        count.rows += len(rows)
        if kept is None:
            return rows
        if self.promises is not None:
            self.promises.note_late(stream, rows.filter(pc.invert(kept)))
        before, rows = len(rows), rows.filter(kept)
        count.late += before - len(rows)
        return rows

    def _processed(self, rows: Chunk, load: Load) -> Iterator[pa.RecordBatch]:
        """Join new rows of all streams, in the order of the schedule, in parts that a memory
        budget has room for."""
        for stream, run in self._ordered(rows, self._state):
            limit = self._layout.piece
            for part in [run] if limit is None else sliced(run, limit):
                yield from self._arrive(stream, part)
                load.fit()

    def _arrive(self, stream: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """New rows of one stream probe the stored rows of the others, then are stored."""
        kept = matchable(rows, self._layout.needed)
        if kept is not None:
            unmatchable, rows = rows.filter(pc.invert(kept)), rows.filter(kept)
            self._counters.streams[stream].unmatchable += len(unmatchable)
            if self._layout.preserved[stream]:
                every = np.arange(len(unmatchable))
                yield from self._layout.output.alone(stream, unmatchable, every)
        if not len(rows):
            return
        self._state.flows[stream].sample_keys(codes_of(rows))
        yield from self.matcher.arrive(stream, Segment.of(rows))

    # -- what the watermark proves --------------------------------------------------

    def _advance(self, watermark: int, load: Load | None) -> Iterator[pa.RecordBatch]:
        """Emit the rows that the watermark proves unmatched, and drop expired segments."""
        for stream, window in enumerate(self._state.windows):
            until = newly_useless(window, watermark)
            if until is None or not self._expires_now(stream, window, until, load):
                continue
            if self._layout.preserved[stream]:
                for rows, proven in proven_unmatched(window, until):
                    yield from self.matcher.unmatched(stream, rows, proven)
            window.expire(until)

    def _expires_now(self, stream: int, window: Window, until: int, load: Load | None) -> bool:
        """Shall expired rows leave now? With lazy invalidation, if the window has been probed, or
        if most of its rows have expired."""
        preserved = self._layout.preserved[stream]
        if self._layout.policy.invalidation == "active" or preserved or load is None:
            return True
        expired = sum(entry.rows for entry in window.entries if entry.max_time <= until)
        return load.probed(stream) or 2 * expired > window.rows
