"""Joins of two streams: new rows of one probe the other's window, then are stored.

A pair *matches* if keys are equal, times are close enough, and the predicate holds. What a match
adds to the result depends on the join: inner and outer joins emit the pair; a semi join emits the
row of the first stream at its first match; an anti join emits nothing. Stored rows of which the
join must know whether they have matched are marked.

**Stored or not.** A new row is not stored if it cannot match any more: it has found its only
match, its key is closed in the other stream, or a semi or anti join needs only its first match.
Such a row of a preserved stream that has not matched is emitted at once.

**Example.** Views wait 10 seconds and clicks 2, so a view and a click of one ad match if
``-2 <= click - view <= 10``. Three views are stored, and two clicks come::

    stored views        ad 1 at 0     ad 3 at 9     ad 3 at 15
    click, ad 1 at 14   14: too far   another key   another key
    click, ad 3 at 16   another key   7: a match    1: a match

    inner   emits both pairs; stores both clicks
    left    the same; marks both views of ad 3
    semi    emits both views of ad 3 and discards them; stores both clicks
    anti    discards both views of ad 3; stores both clicks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext, other_stream
from watersmeet.joins.equi.limits.fan_out import EquiFanOut
from watersmeet.joins.equi.match.discard import discard
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.rows.columns import Bools, Positions
from watersmeet.rows.output import Sides, satisfying, where
from watersmeet.rows.stored_keys import same_keys
from watersmeet.segments.probe import probe
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry

if TYPE_CHECKING:
    from watersmeet.joins.equi.limits.debts import Debts


class PairProbe:
    """Probes segments, and emits and records what matches."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._emits_pairs = context.layout.how.combines

    def overlapping(self, stream: int, fresh: Segment) -> list[Entry]:
        """The other stream's stored segments that are close enough in time."""
        before, after = self._reach(stream)
        earliest = None if before is None else fresh.min_time - before
        latest = None if after is None else fresh.max_time + after
        window = self._context.state.windows[other_stream(stream)]
        return list(window.overlapping(earliest, latest))

    def results(
        self,
        stream: int,
        fresh: Segment,
        entries: Sequence[Entry],
        matched: Bools,
        only_match: Bools,
    ) -> Iterator[pa.RecordBatch]:
        """The results of probing stored segments of the other stream. For each fresh row, this sets
        whether it has ``matched``, and whether it has found its ``only_match``: a row whose key is
        unique in the other stream."""
        layout, other = self._context.layout, other_stream(stream)
        fan_out = EquiFanOut(self._context, stream, fresh)
        for entry, candidates in self._candidates(stream, fresh, entries):
            mine, theirs = candidates[stream][1], candidates[other][1]
            sides = satisfying(layout, candidates)
            if self._emits_pairs:
                sides = where(sides, fan_out.admit(sides[stream][1]))
            yield from self._emit(stream, sides, matched, entry)
            matched[sides[stream][1]] = True
            self.record_matches(other, entry, sides[other][1])
            if layout.inputs[other].unique:
                only_match[mine] = True
            if layout.inputs[stream].unique and len(theirs):
                yield from discard(self._context, other, entry, theirs)
        fan_out.finish()

    def record_matches(self, stream: int, entry: Entry, positions: Positions) -> None:
        """Mark or discard stored rows that have matched, whichever the join needs."""
        window = self._context.state.windows[stream]
        if self._context.layout.leave_when_matched[stream]:
            window.discard(entry, positions)
        elif self._context.layout.marked_when_matched[stream]:
            window.mark(entry, positions)

    def _reach(self, stream: int) -> tuple[int | None, int | None]:
        """How much earlier and how much later than a row of a stream its match may be."""
        inputs = self._context.layout.inputs
        return inputs[other_stream(stream)].window, inputs[stream].window

    def _candidates(
        self, stream: int, fresh: Segment, entries: Sequence[Entry]
    ) -> Iterator[tuple[Entry, Sides]]:
        """Pairs of fresh and stored rows with equal keys and close in time, segment by segment, in
        pieces."""
        layout, output, other = self._context.layout, self._context.output, other_stream(stream)
        window = self._context.state.windows[other]
        before, after = self._reach(stream)
        for entry in entries:
            stored = window.open(entry)
            self._context.counters.probes += len(fresh)
            widest = fresh.widest + stored.widest
            for mine, theirs in probe(fresh, stored, before, after).pieces(output.piece_rows):
                if not layout.exact:
                    equal = same_keys(layout, fresh.rows, stored.rows, mine, theirs, widest=widest)
                    mine, theirs = mine[equal], theirs[equal]
                pairs = {stream: (fresh.rows, mine), other: (stored.rows, theirs)}
                for piece in output.pieces(pairs, widest=widest):
                    # Rows that the piece before has matched may be gone by now.
                    if entry.gone:
                        piece = where(piece, ~window.gone(entry)[piece[other][1]])
                    yield entry, piece

    def _emit(
        self, stream: int, sides: Sides, matched: Bools, entry: Entry
    ) -> Iterator[pa.RecordBatch]:
        """What matching pairs add to the result."""
        context = self._context
        if self._emits_pairs:
            yield from context.output.rows(sides)
        elif context.layout.how.emits_first_match:
            rows, positions = sides[0]
            before = matched if stream == 0 else context.state.windows[0].marks(entry)
            first = positions[~before[positions]]
            yield from context.output.alone(0, rows, np.unique(first))


class PairMatcher:
    """Matches rows of two streams; lives for a step. ``promised`` is what is known of keys, if a
    stream promises anything; ``debts`` are the probes that are put off, if any are."""

    def __init__(
        self,
        context: StepContext,
        probe: PairProbe,
        promised: PromisedKeys | None,
        debts: Debts | None,
    ) -> None:
        self._context = context
        self._probe = probe
        self._promised = promised
        self._debts = debts

    def arrive(self, stream: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows make with stored ones; then the new rows are stored."""
        context, probe = self._context, self._probe
        present, deferred = self._now_and_later(probe.overlapping(stream, fresh))
        matched, useless = (np.zeros(len(fresh), dtype=np.bool_) for _ in range(2))
        yield from probe.results(stream, fresh, present, matched, useless)
        if self._promised is not None and not deferred:
            useless |= self._promised.closed_in_other(stream, fresh)
        if context.layout.leave_when_matched[stream]:
            useless |= matched
        if context.layout.preserved[stream]:
            unmatched = np.flatnonzero(useless & ~matched)
            yield from context.output.alone(stream, fresh.rows, unmatched)
        if useless.any():
            context.counters.streams[stream].dropped += int(useless.sum())
            fresh, matched = Segment.of(fresh.rows.filter(pa.array(~useless))), matched[~useless]
        marks = matched if context.layout.marked_when_matched[stream] else None
        entry = context.state.windows[stream].add(fresh, marks)
        if self._debts is not None:
            yield from self._debts.defer(stream, entry, deferred)

    def unmatched(self, stream: int, rows: pa.RecordBatch, due: Bools) -> Iterator[pa.RecordBatch]:
        """The results for the rows that are due. They have no mark, so they have no match."""
        return self._context.output.alone(stream, rows, np.flatnonzero(due))

    def _now_and_later(self, entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """Of stored segments that new rows may match, those to probe now and those to defer."""
        return (entries, ()) if self._debts is None else self._debts.split(entries)
