"""Pairs of rows of two streams: who meets whom, what that adds to the result, and what is
noted about it. A :class:`Pairing` lives for a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.equi.counters import EquiCounters
from watersmeet.operators.equi.keys import same_keys
from watersmeet.operators.equi.layout import EquiLayout
from watersmeet.operators.equi.limits.fan_out import FanOut
from watersmeet.operators.equi.promises.purging import Purging
from watersmeet.operators.equi.state import EquiState
from watersmeet.rows.columns import Bools
from watersmeet.rows.output import Output, Positions, piece_rows
from watersmeet.state.manifest import Entry
from watersmeet.state.probe import probe
from watersmeet.state.segment import Segment


class Pairing:
    """Rows of one stream meet stored rows of the other."""

    def __init__(
        self,
        layout: EquiLayout,
        output: Output,
        state: EquiState,
        purging: Purging,
        counters: EquiCounters,
    ) -> None:
        self._layout = layout
        self._output = output
        self._state = state
        self._purging = purging
        self._counters = counters
        #: Do pairs appear in the result, or only rows of the first stream?
        self._pairs = layout.how not in ("semi", "anti")
        #: Is a row of stream i done with when it has matched? Not if its key is unique: it
        #: stays, to tell later rows of the other stream that they need not wait.
        self.done_when_matched = (not self._pairs and not layout.inputs[0].unique, False)
        #: Must a stored row of stream i know whether it has matched?
        self.tracked = (layout.preserved[0] or not self._pairs, layout.preserved[1])

    def overlapping(self, stream: int, fresh: Segment) -> list[Entry]:
        """The stored segments of the other stream that are close enough in time."""
        before, after = self._reach(stream)
        earliest = None if before is None else fresh.min_time - before
        latest = None if after is None else fresh.max_time + after
        return list(self._state.windows[1 - stream].overlapping(earliest, latest))

    def results(
        self, stream: int, fresh: Segment, entries: Sequence[Entry], matched: Bools, met: Bools
    ) -> Iterator[pa.RecordBatch]:
        """What fresh rows make with stored segments of the other stream; notes which of them
        have matched, and which have met their one."""
        window = self._state.windows[1 - stream]
        fanout = FanOut(self._layout, stream, fresh, self._counters)
        for entry, mine, theirs in self._meet(stream, fresh, entries):
            pairs = self._holding(stream, fresh.rows, window.open(entry).rows, mine, theirs)
            admitted = fanout.admit(pairs[0]) if self._pairs else None
            if admitted is not None:
                pairs = pairs[0][admitted], pairs[1][admitted]
            yield from self._given_out(stream, fresh, matched, entry, *pairs)
            if self._layout.inputs[1 - stream].unique:
                met[mine] = True
            if self._layout.inputs[stream].unique and len(theirs):
                yield from self._purging.let_go(1 - stream, entry, theirs, self._counters)
        fanout.finish()

    def note_matched(self, stream: int, entry: Entry, positions: Positions) -> None:
        """Note that stored rows of a stream have matched, by position."""
        window = self._state.windows[stream]
        if self.done_when_matched[stream]:
            window.discard(entry, positions)
        elif self.tracked[stream]:
            window.mark(entry, positions)

    def _reach(self, stream: int) -> tuple[int | None, int | None]:
        """How much earlier and how much later than a row of a stream its match may be."""
        return self._layout.inputs[1 - stream].window, self._layout.inputs[stream].window

    def _meet(
        self, stream: int, fresh: Segment, entries: Sequence[Entry]
    ) -> Iterator[tuple[Entry, Positions, Positions]]:
        """Positions of fresh rows and of stored ones with equal keys and close in time, in
        pieces."""
        window = self._state.windows[1 - stream]
        before, after = self._reach(stream)
        for entry in entries:
            stored = window.open(entry)
            self._counters.probes += len(fresh)
            size = piece_rows(fresh.rows, stored.rows, limit=self._layout.piece)
            for mine, theirs in probe(fresh, stored, before, after).pieces(size):
                if entry.gone:
                    there = ~window.gone(entry)[theirs]
                    mine, theirs = mine[there], theirs[there]
                if not self._layout.exact:
                    equal = same_keys(self._layout, fresh.rows, stored.rows, mine, theirs)
                    mine, theirs = mine[equal], theirs[equal]
                yield entry, mine, theirs

    def _holding(
        self,
        stream: int,
        fresh: pa.RecordBatch,
        stored: pa.RecordBatch,
        mine: Positions,
        theirs: Positions,
    ) -> tuple[Positions, Positions]:
        """Of pairs with equal keys, those for which the predicate holds."""
        sides = {stream: (fresh, mine), 1 - stream: (stored, theirs)}
        holds = self._layout.holds(sides) if len(mine) else None
        return (mine, theirs) if holds is None else (mine[holds], theirs[holds])

    def _given_out(
        self,
        stream: int,
        fresh: Segment,
        matched: Bools,
        entry: Entry,
        mine: Positions,
        theirs: Positions,
    ) -> Iterator[pa.RecordBatch]:
        """What a piece of matching pairs adds to the result; notes what it matched."""
        window = self._state.windows[1 - stream]
        stored = window.open(entry)
        if self._pairs:
            sides = {stream: (fresh.rows, mine), 1 - stream: (stored.rows, theirs)}
            yield from self._output.rows(sides)
        elif self._layout.how == "semi":
            if stream == 0:
                first, rows = mine[~matched[mine]], fresh.rows
            else:
                first, rows = theirs[~window.marks(entry)[theirs]], stored.rows
            yield from self._output.alone(0, rows, np.unique(first))
        matched[mine] = True
        self.note_matched(1 - stream, entry, theirs)
