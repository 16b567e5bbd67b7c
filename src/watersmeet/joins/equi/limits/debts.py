"""Deferred probes: early results for a state that is larger than its memory.

A join of two streams with ``goal="early"`` and a memory budget that spills works in stages
(metadata paper, section 5.2; the policy is XJoin's):

1. **In memory.** New rows probe the *resident* segments: the newest of both windows, as many as
   fit into the memory that a shard has for open segments. For every other segment that they may
   match, a *debt* is recorded: (the new segment, the old one).
2. **Memory and disk.** When a step brings no rows, debts are settled: the rows of the new segment
   probe the old one.
3. **Clean-up.** A debt is settled before rows of its segments are discarded, expire, or are
   called unmatched; and before the input ends.

**Each pair once.** Of two rows that match, the one that is stored later either probes the other
at once or has a debt with its segment. A debt is settled once, and until then neither segment is
merged, rewritten or dropped.

**By when.** A pair's event time is at least the greater of both segments' least times. So after a
step under watermark w no debt remains for which

    max(min_time(new), min_time(old)) <= w

and no result is older than the watermark of the step before. Nor does a debt remain with a
segment whose rows expire or are proven unmatched under w. Where no watermark ever moves, no step
would settle a debt: it is settled at the end of its own step. A query that was started again with
another goal or budget, and works in stages no more, settles what it finds before anything else.

**Rows of a segment with debts.** A row that has found its only match (unique keys), or needs only
its first one (semi, anti), is discarded all the same: it will match nothing else. A row whose key
is closed in the other stream may still match rows that its segment has yet to probe: it is stored,
and discarded when its segment has no debts any more.

**Example.** Of the stored clicks, the segment D with times from 60 is resident, and C with times
from 10 is on disk. New views become the segment V, with times from 65::

    step 1   watermark 50   V probes D: results at once; the debt (views, V, C) is recorded
    step 2   no new rows    V probes C: the other results; the debt is settled

If step 2 has new rows, the debt waits, but not longer than the step under watermark 65: that is the
greater of 65 and 10, the least times of V and of C.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.joins.equi.context import StepContext, other_stream
from watersmeet.joins.equi.match.discard import discard
from watersmeet.joins.equi.match.pairs import PairProbe
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.joins.equi.state import Debt
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry
from watersmeet.state.memory import resident_of


class Debts:
    """Decides, in one step, which segments are probed at once; records and settles the debts with
    the others."""

    def __init__(
        self, context: StepContext, promised: PromisedKeys | None, probe: PairProbe
    ) -> None:
        self._context = context
        self._promised = promised
        self._probe = probe

    def begin(self) -> Iterator[pa.RecordBatch]:
        """If the join worked in stages before it was started again, and does so no more, settle its
        debts: then the rest of this step need not know of any."""
        if self._context.layout.policy.in_stages:
            return iter(())
        return self._settle(list(self._context.state.debts))

    def split(self, entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """Of stored segments that new rows may match, those to probe now and those to defer."""
        if not self._context.layout.policy.in_stages:
            return entries, ()
        resident = self._resident()
        deferred = [e for e in entries if e.id not in resident and e.gone < e.rows]
        return [e for e in entries if e.id in resident], deferred

    def defer(
        self, stream: int, new: Entry | None, deferred: Iterable[Entry]
    ) -> Iterator[pa.RecordBatch]:
        """Record a new segment's debts with the deferred ones; settle the oldest, if there are
        too many."""
        debts = self._context.state.debts
        if new is not None:
            recorded = [Debt(stream, new.id, old.id) for old in deferred]
            debts += recorded
            self._context.counters.deferred += len(recorded)
        yield from self._settle(debts[: max(0, len(debts) - self._context.layout.limits.debts)])

    def settle(self, entry: Entry) -> Iterator[pa.RecordBatch]:
        """Settle all debts of a segment, new or old."""
        debts = self._context.state.debts
        return self._settle([debt for debt in debts if entry.id in (debt.new, debt.old)])

    def finish(self, watermark: int | None, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """Settle what is due at the end of the step: all debts if the step brought no rows, or
        if no timer would start another one; else those that the watermark makes due."""
        debts = self._context.state.debts
        if paused or not self._context.layout.timers:
            due = list(debts)
        elif watermark is not None:
            entries = self._entries()
            due = [debt for debt in debts if self._is_due(debt, entries, watermark)]
        else:
            due = []
        # Segments on disk are opened one after the other, each once.
        yield from self._settle(sorted(due, key=lambda debt: debt.old))

    def _resident(self) -> set[str]:
        """The newest segments of both windows that fit into memory together."""
        limit = resident_of(self._context.layout.policy.memory, self._context.layout.limits)
        aged = [
            (entry.max_time, age, entry)
            for window in self._context.state.windows
            for age, entry in enumerate(window.entries, start=-len(window.entries))
        ]
        newest = [entry for *_, entry in sorted(aged, key=lambda it: it[:2], reverse=True)]
        sizes = np.cumsum([entry.memory for entry in newest])
        return {entry.id for entry in newest[: int(np.searchsorted(sizes, limit, side="right"))]}

    def _entries(self) -> dict[str, Entry]:
        windows = self._context.state.windows
        return {entry.id: entry for window in windows for entry in window.entries}

    def _is_due(self, debt: Debt, entries: dict[str, Entry], watermark: int) -> bool:
        both = _both(debt, entries)
        if max(entry.min_time for _, entry in both) <= watermark:
            return True
        for stream, entry in both:
            length = self._context.state.windows[stream].length
            preserved = self._context.layout.preserved[stream]
            ends = entry.min_time if preserved else entry.max_time
            if length is not None and ends + length <= watermark:
                return True
        return False

    def _settle(self, debts: Sequence[Debt]) -> Iterator[pa.RecordBatch]:
        entries, state = self._entries(), self._context.state
        for debt in debts:
            state.debts.remove(debt)
            both = _both(debt, entries)
            yield from self._probe_deferred(debt.stream, *(entry for _, entry in both))
            owing = state.owing
            for stream, entry in both:
                if entry.id not in owing:
                    yield from self._discard_closed(stream, entry)

    def _probe_deferred(self, stream: int, new: Entry, old: Entry) -> Iterator[pa.RecordBatch]:
        """The new segment's rows probe the old one, as if they had just come."""
        window = self._context.state.windows[stream]
        fresh, present = window.open(new), np.flatnonzero(~window.gone(new))
        if new.gone:
            fresh = Segment.of(fresh.rows.take(pa.array(present)))
        matched, only_match = window.marks(new)[present], np.zeros(len(present), dtype=np.bool_)
        yield from self._probe.results(stream, fresh, [old], matched, only_match)
        self._probe.record_matches(stream, new, present[matched])
        if only_match.any():
            yield from discard(self._context, stream, new, present[only_match])

    def _discard_closed(self, stream: int, entry: Entry) -> Iterator[pa.RecordBatch]:
        """Discard rows that were stored only because their segment had debts."""
        if self._promised is None:
            return
        window = self._context.state.windows[stream]
        closed = self._promised.closed_in_other(stream, window.open(entry))
        if closed.any():
            yield from discard(self._context, stream, entry, np.flatnonzero(closed))


def _both(debt: Debt, entries: dict[str, Entry]) -> tuple[tuple[int, Entry], tuple[int, Entry]]:
    """The new and the old segment of a debt, each with its stream."""
    return (debt.stream, entries[debt.new]), (other_stream(debt.stream), entries[debt.old])
