"""One hop of a ring join, one step at a time.

**Result.** Rows of all streams match if the predicates hold and, with T the greatest of their
times, T - time <= W for each of them, W its stream's window.

**Slices.** The stored rows of a stream are cut into disjoint slices, one a shard. A row is stored
in one of them, its *home*, by a hash of its content; rows of equal content are dealt by count
(:mod:`watersmeet.rows.dealing`). So slices are even, whatever the times, and a step that is run
again stores the same rows. Rows that probe go to all slices. A slice is one window of
:mod:`watersmeet.state`: it expires segment by segment.

**Each combination once.** :mod:`.hops` says which rows see new rows of other streams. Within a
step, rows that see no new rows of a stream probe the segments that were there before the step. Rows
that see them wait (:mod:`watersmeet.rows.spill`) until the step has stored all of its new rows.

**Which rows are late** is decided in the first hop alone, by the watermark of the micro-batch,
which all shards know. Rows of a stream that brought its own watermark are judged by that of the
step before: so every shard of the first hop takes a step whenever the watermark moves, even if it
stores nothing.

**What expires.** As in any join: a row is useless when time + W <= watermark, after all new rows of
the micro-batch have probed it. That same moment proves a preserved row unmatched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.joins.operator import Emitted
from watersmeet.joins.ring.advice import Measurements, advise
from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.hops import RESULTS, HopLayout, Inlet
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.marks import NewRows, finds, found_rows
from watersmeet.joins.ring.search.probe import Matches, Probe
from watersmeet.joins.ring.search.probing_rows import ProbingRows
from watersmeet.joins.ring.state import RingState
from watersmeet.joins.watermark import matchable, newly_useless, on_time, proven_unmatched
from watersmeet.rows.columns import HOME, TIME
from watersmeet.rows.output import Side
from watersmeet.rows.spill import WaitingRows
from watersmeet.rows.widths import sliced
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry


class HopStep:
    """One step of a hop in one shard."""

    def __init__(
        self, layout: RingLayout, hop: HopLayout, state: RingState, counters: RingCounters
    ) -> None:
        self._layout = layout
        self._hop = hop
        self._state = state
        self._counters = counters
        self._probe = Probe(layout, state, counters)
        windows = list(zip(hop.holds, state.windows, strict=True))
        self._older: dict[int, list[Entry]] = {s: list(window.entries) for s, window in windows}
        self._stored: dict[int, list[Entry]] = {stream: [] for stream in hop.holds}
        limit = layout.limits.waiting_bytes if layout.piece is None else layout.piece
        self._waiting = [WaitingRows(limit) for _ in hop.inlets]
        self._arrived = [0] * len(layout.streams)
        self._received = self._bytes = 0
        self._measured: Measurements | None = None

    def results(
        self, chunks: Iterable[Sequence[pa.RecordBatch | None]], watermark: int | None
    ) -> Iterator[Emitted]:
        """The results of the step, or the rows that it hands on."""
        self._state.check_reach(watermark)
        for chunk in chunks:
            for number, rows in enumerate(chunk):
                if rows is not None and len(rows):
                    yield from self._take(number, rows, watermark)
        for inlet, waiting in zip(self._hop.inlets, self._waiting, strict=True):
            for rows in waiting.leave():
                if inlet.marks:
                    yield from self._mark(inlet, rows)
                elif inlet.probes is not None:
                    entries = self._older[inlet.probes] + self._stored[inlet.probes]
                    yield from self._probed(inlet, rows, entries)
        self._probe.finish()
        yield from self._advised()
        if watermark is not None:
            yield from self.advance(watermark)
            self._state.watermark = watermark

    # -- rows that come in ------------------------------------------------------------

    def _take(self, number: int, rows: pa.RecordBatch, watermark: int | None) -> Iterator[Emitted]:
        """Store rows, hand them on and let them probe, as their input says."""
        inlet, home = self._hop.inlets[number], rows
        if inlet.measurements:
            self._measured = Measurements.from_batch(rows)
        if inlet.new:
            rows, home = self._admitted(inlet.streams[0], rows, watermark)
        if inlet.stored:
            yield from self._store(inlet.streams[0], home)
        if inlet.onward is not None:
            yield from self._pass_on(inlet, home)
        if inlet.new:
            rows = self._matchable(rows)
        if inlet.sees_new or inlet.marks:
            self._waiting[number].add(rows)
        elif inlet.probes is not None:
            yield from self._probed(inlet, rows, self._older[inlet.probes])

    def _admitted(
        self, stream: int, rows: pa.RecordBatch, watermark: int | None
    ) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The new rows that are not late, and those of them whose home is here. A row is counted at
        home, late or not."""
        given, count = self._layout.streams[stream], self._counters.streams[stream]
        judged = self._state.watermark if given.own_watermark else watermark
        kept = on_time(rows, judged)
        timely = pa.array(np.ones(len(rows), dtype=np.bool_)) if kept is None else kept
        home = pa.array(np.ones(len(rows), dtype=np.bool_))
        slices = self._layout.policy.slices
        if HOME in rows.schema.names:
            home, slices = rows.column(HOME), 1
            rows = rows.drop_columns([HOME])
        self._arrived[stream] += len(rows) * slices
        self._received, self._bytes = self._received + len(rows), self._bytes + rows.nbytes
        count.rows += _true(home)
        count.late += _true(pc.and_(home, pc.invert(timely)))
        here = rows.filter(pc.and_(home, timely))
        count.unmatchable += len(here) - len(self._matchable(here))
        return rows if kept is None else rows.filter(kept), here

    def _matchable(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that can match: where times decide, the rows that have a time."""
        kept = matchable(rows, [TIME]) if self._layout.windowed else None
        return rows if kept is None else rows.filter(kept)

    def _store(self, stream: int, rows: pa.RecordBatch) -> Iterator[Emitted]:
        """Store rows; those that can match nothing are emitted at once, if they are preserved."""
        matchable = self._matchable(rows)
        if len(matchable) < len(rows) and self._layout.preserved[stream]:
            alone = np.flatnonzero(rows.column(TIME).is_null().to_numpy(zero_copy_only=False))
            yield from self._emitted(self._layout.output.alone(stream, rows, alone))
        for part in self._parts(matchable):
            entry = self._state.slice_of(stream).add(Segment.of(part))
            if entry is not None:
                self._stored[stream].append(entry)
            self._state.check_memory()

    def _parts(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows, in parts that a memory budget has room for."""
        limit = self._layout.piece
        return iter([rows]) if limit is None else sliced(rows, limit)

    def _pass_on(self, inlet: Inlet, rows: pa.RecordBatch) -> Iterator[Emitted]:
        """Rows and partial results on their way to a later hop, or to the result."""
        if inlet.new and not self._layout.preserved[inlet.streams[0]]:
            rows = self._matchable(rows)
        if inlet.onward == RESULTS:
            sides, at = ProbingRows.of(rows, inlet.streams, None).sides, np.arange(len(rows))
            yield from self._combined({stream: (side, at) for stream, side in sides.items()})
        elif len(rows):
            yield inlet.onward, rows

    # -- matches ----------------------------------------------------------------------

    def _probed(
        self, inlet: Inlet, rows: pa.RecordBatch, entries: Sequence[Entry]
    ) -> Iterator[Emitted]:
        """The matches of probing rows in stored segments."""
        assert inlet.probes is not None, f"{inlet.name} probes nothing"
        probing = ProbingRows.of(rows, inlet.streams, self._layout.streams[inlet.streams[0]].window)
        matched = None
        if inlet.reports_back and not self._layout.how.combines:
            matched = np.zeros(len(rows), dtype=np.bool_)
        for matches in self._probe.matches(probing, inlet.probes, entries, once=matched):
            if matched is not None:
                matched[matches.mine] = True
            elif inlet.found == RESULTS:
                yield from self._matched(probing, inlet.probes, matches)
            else:
                yield from self._handed_on(inlet, probing, inlet.probes, matches)
        if matched is not None and matched.any():
            yield inlet.found, finds(probing, inlet.streams[0], np.flatnonzero(matched))

    def _handed_on(
        self, inlet: Inlet, probing: ProbingRows, stream: int, matches: Matches
    ) -> Iterator[Emitted]:
        """Partial results, for the next hop."""
        window, rows = self._layout.streams[stream].window, matches.stored.rows
        for piece in self._layout.output.pieces(matches.sides(probing, stream)):
            mine, theirs = piece[inlet.streams[0]][1], piece[stream][1]
            self._counters.partial += len(mine)
            if inlet.reports_back:
                yield inlet.found, finds(probing, inlet.streams[0], mine, rows, theirs)
            else:
                yield inlet.found, probing.joined(mine, stream, rows, theirs, window)

    def _matched(self, probing: ProbingRows, stream: int, matches: Matches) -> Iterator[Emitted]:
        """Results; their stored rows are marked or discarded, if the join needs that."""
        window, rows = self._state.slice_of(stream), matches.stored.rows
        if not self._layout.how.combines:
            first = np.unique(matches.theirs)
            if self._layout.how.emits_first_match:
                yield from self._emitted(self._layout.output.alone(stream, rows, first))
            window.discard(matches.entry, first)
            return
        yield from self._combined(matches.sides(probing, stream))
        if stream == self._layout.marked:
            window.mark(matches.entry, matches.theirs)

    def _mark(self, inlet: Inlet, batch: pa.RecordBatch) -> Iterator[Emitted]:
        """Results of the finds from the hop before; their new rows are marked or discarded."""
        marked, other = inlet.streams
        window, output, new = self._state.slice_of(marked), self._layout.output, self._new_rows
        if not self._layout.how.combines:
            for entry, positions in new.marked(batch):
                if self._layout.how.emits_first_match:
                    rows, gone = window.open(entry).rows, window.gone(entry)
                    first = positions[~gone[positions]]
                    yield from self._emitted(output.alone(marked, rows, first))
                window.discard(entry, positions)
            return
        found = found_rows(batch)
        for side, at in new.sides(batch):
            yield from self._combined({marked: side, other: (found, at)})
        for entry, positions in new.marked(batch):
            window.mark(entry, positions)

    @cached_property
    def _new_rows(self) -> NewRows:
        """The rows of the marked stream that the step has stored: all of them, by then."""
        [marked] = self._hop.holds
        return NewRows(self._state.slice_of(marked), self._stored[marked])

    def _combined(self, sides: dict[int, Side]) -> Iterator[pa.RecordBatch]:
        """Results, in pieces."""
        for piece in self._layout.output.pieces(sides):
            yield from self._emitted(self._layout.output.rows(piece))

    def _emitted(self, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same results, counted as they pass."""
        for batch in results:
            self._counters.results += len(batch)
            yield batch

    # -- measurements -----------------------------------------------------------------

    def _advised(self) -> Iterator[Emitted]:
        """Hand on the measurements; in the last hop, note whether another order or another number
        of slices would be much better."""
        state, measured = self._state, self._measured
        if state.shard.number:
            return
        if self._hop.number == 0 and any(self._arrived):
            rows = state.learn_rows(self._arrived)
            measured = Measurements(rows, row_bytes=self._bytes / max(1, self._received))
        if measured is None:
            return
        measured.add(state, self._hop.holds, self._layout.policy.slices)
        if self._hop.advised is not None:
            conditions = len(self._layout.conditions.streams)
            yield self._hop.advised, measured.to_batch(conditions)
            return
        self._counters.notes += advise(measured, self._layout, state)

    # -- what the watermark proves ----------------------------------------------------

    def advance(self, watermark: int) -> Iterator[Emitted]:
        """Emit the rows that the watermark proves unmatched, and drop expired segments."""
        for stream, window in zip(self._hop.holds, self._state.windows, strict=True):
            until = newly_useless(window, watermark)
            if until is None:
                continue
            if self._layout.preserved[stream]:
                for rows, proven in proven_unmatched(window, until):
                    alone = self._layout.output.alone(stream, rows, np.flatnonzero(proven))
                    yield from self._emitted(alone)
            window.expire(until)


def _true(flags: pa.Array) -> int:
    return int(pc.sum(flags).as_py() or 0)
