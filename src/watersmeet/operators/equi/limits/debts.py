"""Three stages, for a state that is larger than its memory: early results first.

A join of two streams with ``goal="early"`` and a budget of memory whose overflow is spilled
answers in stages (metadata paper, section 5.2; the policy is XJoin's):

1. **In memory.** New rows meet the *resident* segments: the newest of both windows, as many
   as fit into the memory that a shard has for open segments. For every other segment that
   they may match, a *debt* is noted: (the new segment, the old one).
2. **Memory and disk.** When a step brings no rows, debts are worked off: both segments are
   opened, and what had to meet meets.
3. **Clean-up.** Whatever would make a debt's rows leave, or call one of them unmatched,
   waits until the debt is worked off; so does the end of the input.

**Each pair once.** Of two rows that match, the one that is stored later either meets the
other at once or has a debt with its segment; a debt is worked off once, and until then
neither segment is merged, written anew or dropped.

**By when.** A pair's event time is at least the greater of both segments' least times. So
after a step under watermark w no debt remains for which

    max(min_time(new), min_time(old)) <= w

and no result is ever older than the watermark of the step before. Nor does a debt remain
with a segment whose rows expire or are proven unmatched under w. Where no watermark ever
moves, nobody would come back for a debt: it is worked off at the end of its step.

**What need not wait.** A row that has met its one (unique keys), or is done with when it
has matched (semi, anti), leaves whatever its segment owes: it will match nothing else. A
row whose key is over in the other stream may still match what it owes: it is stored, and
let go when its segment owes nothing any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.equi.counters import EquiCounters
from watersmeet.operators.equi.layout import EquiLayout
from watersmeet.operators.equi.pairs import Pairing
from watersmeet.operators.equi.promises.purging import Purging
from watersmeet.operators.equi.state import Debt, EquiState
from watersmeet.state.manifest import Entry
from watersmeet.state.memory import resident_of
from watersmeet.state.segment import Segment

#: No shard has more debts than this; the oldest are worked off first.
MOST_DEBTS = 256


class Overflow:
    """One step's part of the stages: what is probed at once, and what is owed."""

    def __init__(
        self,
        layout: EquiLayout,
        state: EquiState,
        purging: Purging,
        pairing: Pairing,
        counters: EquiCounters,
    ) -> None:
        self._layout = layout
        self._state = state
        self._purging = purging
        self._pairing = pairing
        self._counters = counters

    def split(self, entries: Sequence[Entry]) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """Of stored segments that new rows may match, those to probe now and those to owe."""
        if not self._layout.policy.in_stages:
            return entries, ()
        resident = self._resident()
        far = [e for e in entries if e.id not in resident and e.gone < e.rows]
        return [e for e in entries if e.id in resident], far

    def note(
        self, stream: int, new: Entry | None, far: Iterable[Entry]
    ) -> Iterator[pa.RecordBatch]:
        """Owe a new segment's probes of the far ones; what is too much is worked off."""
        debts = self._state.debts
        if new is not None:
            noted = [Debt(stream, new.id, old.id) for old in far]
            debts += noted
            self._counters.deferred += len(noted)
        yield from self._work_off(debts[: max(0, len(debts) - MOST_DEBTS)])

    def settle(self, entry: Entry) -> Iterator[pa.RecordBatch]:
        """Work off what a segment owes, or is owed."""
        return self._work_off([d for d in self._state.debts if entry.id in (d.new, d.old)])

    def finish(self, watermark: int | None, *, paused: bool) -> Iterator[pa.RecordBatch]:
        """Work off what the end of the step asks for: everything in a pause, or if no timer
        would come back for it; else what the watermark asks for."""
        debts = self._state.debts
        if paused or not (self._layout.policy.in_stages and self._layout.timers):
            due = list(debts)
        elif watermark is not None:
            entries = self._entries()
            due = [debt for debt in debts if self._is_due(debt, entries, watermark)]
        else:
            due = []
        # Segments on disk are opened one after the other, each once.
        yield from self._work_off(sorted(due, key=lambda debt: debt.old))

    def _resident(self) -> set[str]:
        """The newest segments of both windows that fit into memory together."""
        limit = resident_of(self._layout.policy.memory)
        assert limit is not None, "a join in stages has a budget of memory"
        aged = [
            (entry.max_time, age, entry)
            for window in self._state.windows
            for age, entry in enumerate(window.entries, start=-len(window.entries))
        ]
        newest = [entry for *_, entry in sorted(aged, key=lambda it: it[:2], reverse=True)]
        sizes = np.cumsum([entry.memory for entry in newest])
        return {entry.id for entry in newest[: int(np.searchsorted(sizes, limit, side="right"))]}

    def _entries(self) -> dict[str, Entry]:
        return {entry.id: entry for window in self._state.windows for entry in window.entries}

    def _is_due(self, debt: Debt, entries: dict[str, Entry], watermark: int) -> bool:
        both = ((debt.stream, entries[debt.new]), (1 - debt.stream, entries[debt.old]))
        if max(entry.min_time for _, entry in both) <= watermark:
            return True
        for stream, entry in both:
            length = self._state.windows[stream].length
            ends = entry.min_time if self._layout.preserved[stream] else entry.max_time
            if length is not None and ends + length <= watermark:
                return True
        return False

    def _work_off(self, debts: Sequence[Debt]) -> Iterator[pa.RecordBatch]:
        entries, owed = self._entries(), self._state.debts
        for debt in debts:
            owed.remove(debt)
            new, old = entries[debt.new], entries[debt.old]
            yield from self._join(debt.stream, new, old)
            owing = self._state.owing
            for stream, entry in ((debt.stream, new), (1 - debt.stream, old)):
                if entry.id not in owing:
                    yield from self._release(stream, entry)

    def _join(self, stream: int, new: Entry, old: Entry) -> Iterator[pa.RecordBatch]:
        """The rows of two segments meet, as if the new ones had just come."""
        window = self._state.windows[stream]
        fresh, there = window.open(new), np.flatnonzero(~window.gone(new))
        if new.gone:
            fresh = Segment.of(fresh.rows.take(pa.array(there)))
        matched, met = window.marks(new)[there], np.zeros(len(there), dtype=np.bool_)
        yield from self._pairing.results(stream, fresh, [old], matched, met)
        self._pairing.note_matched(stream, new, there[matched])
        if met.any():
            yield from self._purging.let_go(stream, new, there[met], self._counters)

    def _release(self, stream: int, entry: Entry) -> Iterator[pa.RecordBatch]:
        """Let go of rows that were stored only for what their segment owed."""
        needless = self._purging.needless(stream, self._state.windows[stream].open(entry))
        if needless.any():
            found = np.flatnonzero(needless)
            yield from self._purging.let_go(stream, entry, found, self._counters)
