"""Purging by what is known about keys: one step's part of it.

A :class:`Purging` lives for a step. It checks new rows against what their stream has
promised, tells which of them need not be stored, and at the end of the step takes the
punctuations, lets go of what they make useless, and hands on those that are complete.

**When to purge.** Rows whose key is closed are looked for after so many punctuations: one
(*immediate* purging: the least memory, punctuations are handed on at once) or many
(*batch* purging: fewer searches); and always when a step brings no rows, or the state is
near its budget. An index makes a search follow what is purged, not what is stored.

**When a punctuation is complete.** When its keys are closed in every stream, and the
rows that had to meet have met: then no result with such a key can come any more. One of more
than one key is about rows of every shard, and a shard knows only its own. So what counts for
it is what all shards have been told, in the same step: then each of them purges, and one of
them hands it on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.errors import ViolationError
from watersmeet.operators.equi.counters import EquiCounters
from watersmeet.operators.equi.keys import key_at, same_keys
from watersmeet.operators.equi.layout import EquiLayout
from watersmeet.operators.equi.promises.closing import Closing, bounds, matches
from watersmeet.operators.equi.state import EquiState
from watersmeet.rows.columns import (
    CODE,
    TIME,
    Bools,
    Ints,
    codes_of,
    codes_or_zero,
    concat,
    times_of,
)
from watersmeet.rows.output import Output, Positions
from watersmeet.state.index import Index
from watersmeet.state.keyset import KeySet
from watersmeet.state.manifest import Entry
from watersmeet.state.probe import probe
from watersmeet.state.segment import Segment

#: Works off what a segment owes, before rows of it are let go. (It is handed in, not kept: a
#: cycle of references would keep a step's segments open.)
Settle = Callable[[Entry], Iterator[pa.RecordBatch]]

#: A state that takes this part of its budget is purged.
_NEARLY = 0.8


class Purging:
    """What a step knows of closed keys."""

    def __init__(self, layout: EquiLayout, state: EquiState, output: Output) -> None:
        self._layout = layout
        self._state = state
        self._output = output
        self._closings = [
            Closing.load(state.store, stream, state.closings, state.shard)
            if promised.closes
            else None
            for stream, promised in enumerate(layout.inputs)
        ]
        self._punctuations: list[list[pa.RecordBatch]] = [[] for _ in layout.inputs]
        self._arrived: list[list[Ints]] = [[] for _ in layout.inputs]
        #: Keys of a unique stream that have come, and are closed in the other one.
        self._complete: list[list[Ints]] = [[] for _ in layout.inputs]

    # -- new rows -----------------------------------------------------------------

    def note(self, stream: int, punctuations: pa.RecordBatch | None) -> None:
        """Keep punctuations for the end of the step."""
        if punctuations is not None and len(punctuations):
            self._punctuations[stream].append(punctuations)

    def checked(self, stream: int, rows: pa.RecordBatch, counters: EquiCounters) -> pa.RecordBatch:
        """The rows that the stream may bring; others are treated as the join says."""
        closing, promised = self._closings[stream], self._layout.inputs[stream]
        if closing is None or not len(rows):
            return rows
        closed = closing.covers(rows, self._layout.key_columns)
        false = closed | self._repeated(stream, rows) if promised.unique else closed
        if false.any():
            policy = self._layout.violations
            if policy == "fail":
                raise ViolationError(self._message(stream, rows, false, closed))
            counters.streams[stream].violations += int(false.sum())
            if policy == "drop":
                rows = rows.filter(pa.array(~false))
        codes = rows.column(CODE).drop_null().to_numpy(zero_copy_only=False)
        self._arrived[stream].append(codes)
        return rows

    def _repeated(self, stream: int, rows: pa.RecordBatch) -> Bools:
        """Rows of a unique key that is there already, in this batch or in the window."""
        valid = np.flatnonzero(rows.column(CODE).is_valid().to_numpy(zero_copy_only=False))
        fresh = Segment.of(_untimed(rows.take(pa.array(valid))))
        again = np.zeros(len(rows), dtype=np.bool_)
        index = fresh.index
        twins = np.flatnonzero(index.codes[1:] == index.codes[:-1]) + 1
        pairs = [(fresh, index.order[twins], index.order[twins - 1])]
        window = self._state.windows[stream]
        for entry in window.entries:
            stored = window.open(entry)
            for mine, theirs in probe(fresh, stored, None, None).pieces(1 << 16):
                kept = ~window.gone(entry)[theirs]
                pairs.append((stored, mine[kept], theirs[kept]))
        for other, mine, theirs in pairs:
            equal = same_keys(self._layout, fresh.rows, other.rows, mine, theirs)
            again[valid[mine[equal]]] = True
        return again

    def _message(self, stream: int, rows: pa.RecordBatch, false: Bools, closed: Bools) -> str:
        layout = self._layout
        promised = layout.inputs[stream]
        first = int(np.flatnonzero(false)[0])
        key = key_at(layout, stream, rows, first)
        promise = "unique=True says that a key comes once"
        if closed[first]:
            ways = ["a punctuation"] if promised.punctuated else []
            ways += [f"arrival={promised.arrival!r}"] if promised.arrival else []
            promise = f"{' or '.join(ways)} has closed it"
        return (
            f"stream {promised.name!r} brought {int(false.sum())} row(s) that it had promised not "
            f"to bring, the first with the key {key!r}: {promise}. Correct the source or what is "
            "said about it, or give violations='drop' (drop and count them) or 'keep'."
        )

    def needless(self, stream: int, fresh: Segment) -> Bools:
        """Which new rows need not be stored: their key is closed in the other stream."""
        closing = self._closings[1 - stream]
        if closing is None:
            return np.zeros(len(fresh), dtype=np.bool_)
        closed = closing.covers(fresh.rows, self._layout.key_columns)
        if self._layout.inputs[stream].unique and closed.any():
            self._complete[stream].append(codes_of(fresh.rows)[closed])
        return closed

    def awaited(self, stream: int, rows: pa.RecordBatch) -> Bools:
        """Which new rows have a key that a punctuation is about: one of this step, or one
        that waits to be handed on."""
        about = np.zeros(len(rows), dtype=np.bool_)
        for position, closing in enumerate(self._closings):
            if closing is None:
                continue
            noted = list(self._punctuations[position])
            if closing.waiting is not None and position != stream:
                noted.append(closing.waiting)
            if noted:
                ahead = Closing("")
                ahead.punctuate(concat(noted), self._layout.key_columns)
                about |= ahead.covers(rows, self._layout.key_columns)
        return about

    # -- the end of the step --------------------------------------------------------

    def punctuate(
        self, counters: EquiCounters, settle: Settle, *, paused: bool
    ) -> Iterator[pa.RecordBatch]:
        """Take the punctuations noted so far, all rows that they are about having been taken;
        purge if it is time, hand on what is complete."""
        for stream, closing in enumerate(self._closings):
            if closing is not None and self._punctuations[stream]:
                rows = concat(self._punctuations[stream])
                self._punctuations[stream] = []
                counters.streams[stream].punctuations += len(rows)
                closing.punctuate(rows, self._layout.key_columns)
        due = self._state.shard.count > 1 and self._wide_ones_complete()
        for stream, closing in enumerate(self._closings):
            if closing is not None and closing.count and (due or self._is_time(closing, paused)):
                yield from self._purge(1 - stream, closing, counters, settle)
        if self._layout.emit_punctuations:
            yield from self._propagate(counters, settle)
        else:
            for closing in self._closings:
                if closing is not None:
                    closing.waiting = None

    def finish(
        self, counters: EquiCounters, settle: Settle, *, paused: bool
    ) -> Iterator[pa.RecordBatch]:
        """Take all that the step has closed, and keep it."""
        for stream, closing in enumerate(self._closings):
            if closing is not None and self._arrived[stream]:
                arrival = self._layout.inputs[stream].arrival
                closing.arrived(np.concatenate(self._arrived[stream]), arrival)
        yield from self.punctuate(counters, settle, paused=paused)
        self._state.closings = [
            name
            for closing in self._closings
            if closing is not None
            for name in closing.save(self._state.store)
        ]

    def _is_time(self, closing: Closing, paused: bool) -> bool:
        memory = self._layout.policy.memory
        near = (
            memory is not None
            and sum(window.memory for window in self._state.windows) > _NEARLY * memory
        )
        return paused or near or closing.count >= self._layout.policy.purge_after

    def _purge(
        self, stream: int, closing: Closing, counters: EquiCounters, settle: Settle
    ) -> Iterator[pa.RecordBatch]:
        """Let go of the stream's rows whose key is closed in the other stream."""
        window = self._state.windows[stream]
        unique = self._layout.inputs[stream].unique
        for entry in list(window.entries):
            segment = window.open(entry)
            found = positions(segment, closing, self._layout.key_columns)
            if not len(found):
                continue
            yield from settle(entry)
            yield from self.let_go(stream, entry, found, counters)
            if unique:
                self._complete[stream].append(codes_of(segment.rows)[found])
        closing.unpurged, closing.count = KeySet(), 0

    def let_go(
        self, stream: int, entry: Entry, found: Positions, counters: EquiCounters
    ) -> Iterator[pa.RecordBatch]:
        """Be done with stored rows; those that are proven unmatched come out, unless they
        have before, because their time was over."""
        window = self._state.windows[stream]
        found = found[~window.gone(entry)[found]] if entry.gone else found
        if self._layout.preserved[stream]:
            rows, settled = window.open(entry).rows, self._state.settled[stream]
            unmatched = found[~window.marks(entry)[found]]
            if settled is not None:
                unmatched = unmatched[times_of(rows)[unmatched] > settled]
            yield from self._output.alone(stream, rows, np.unique(unmatched))
        counters.streams[stream].purged += window.discard(entry, found)

    def _propagate(self, counters: EquiCounters, settle: Settle) -> Iterator[pa.RecordBatch]:
        """Hand on the punctuations that are complete."""
        for stream, closing in enumerate(self._closings):
            if closing is None or closing.waiting is None:
                continue
            complete = self._completed(stream, closing, closing.waiting)
            if not complete.any():
                continue
            leaving = closing.waiting.filter(pa.array(complete))
            yield from self._conclude(leaving, counters, settle)
            chosen = np.flatnonzero(_of_one_key(leaving) | (self._state.shard.number == 0))
            counters.streams[stream].propagated += len(chosen)
            counters.results -= len(chosen)  # they leave among the results, but are none
            yield from self._output.alone(stream, leaving, chosen, punctuation=True)
            rest = closing.waiting.filter(pa.array(~complete))
            closing.waiting = rest if len(rest) else None

    def _conclude(
        self, leaving: pa.RecordBatch, counters: EquiCounters, settle: Settle
    ) -> Iterator[pa.RecordBatch]:
        """Be done with stored rows of complete keys before their punctuations leave: with
        those that have yet to meet what is on disk, and with unmatched ones. There are some
        if the other stream's one has come, and was too far away in time."""
        owing = self._state.owing
        keys, patterns = _closed_by(leaving)
        for stream, window in enumerate(self._state.windows):
            preserved = self._layout.preserved[stream]
            for entry in list(window.entries):
                if not preserved and entry.id not in owing:
                    continue
                found = _with_keys(window.open(entry), keys)
                if len(found) or patterns:
                    yield from settle(entry)
                if preserved:
                    yield from self.let_go(stream, entry, found, counters)

    def _completed(self, stream: int, closing: Closing, waiting: pa.RecordBatch) -> Bools:
        other = self._closings[1 - stream]
        one, values = _of_one_key(waiting), codes_or_zero(waiting)
        come = self._complete[1 - stream]
        complete: Bools = one & np.isin(values, np.concatenate(come) if come else [])
        if other is not None and other.count == closing.count == 0:  # all is purged
            complete |= one & other.keys.contains(values)
            complete |= self._wide_completed(waiting, other)
        return complete

    def _wide_ones_complete(self) -> bool:
        """Is there a punctuation of more than one key that can be handed on?"""
        if not self._layout.emit_punctuations:
            return False
        pairs = zip(self._closings, reversed(self._closings), strict=True)
        return any(
            bool(self._wide_completed(closing.waiting, other).any())
            for closing, other in pairs
            if closing is not None and closing.waiting is not None and other is not None
        )

    def _wide_completed(self, waiting: pa.RecordBatch, other: Closing) -> Bools:
        """Which are punctuations of more than one key, all closed in the other stream too."""
        complete = np.zeros(len(waiting), dtype=np.bool_)
        for position in np.flatnonzero(~_of_one_key(waiting)).tolist():
            row = waiting.slice(position, 1)
            low, high = bounds(row)
            if low is not None and high is not None:
                complete[position] = other.closed_everywhere(low, high)
            elif other.patterns is not None:
                pattern = row.select(list(self._layout.key_columns)).to_pylist()[0]
                complete[position] = pattern in other.patterns.to_pylist()
        return complete


def _of_one_key(punctuations: pa.RecordBatch) -> Bools:
    """Which punctuations are about a single key."""
    one: Bools = punctuations.column(CODE).is_valid().to_numpy(zero_copy_only=False)
    return one


def positions(segment: Segment, closing: Closing, key_columns: Sequence[str]) -> Positions:
    """Where a segment has rows with a key that has been closed since the last purge."""
    found = _with_keys(segment, closing.unpurged)
    if closing.patterns is None:
        return found
    fits = np.zeros(len(segment), dtype=np.bool_)
    fits[found] = True
    for pattern in closing.patterns.to_pylist():
        fits |= matches(segment.rows, pattern, tuple(key_columns))
    return np.flatnonzero(fits)


def _with_keys(segment: Segment, keys: KeySet) -> Positions:
    """Where a segment has rows with such keys. With an index, it takes time for those alone."""
    if segment.has_index and len(keys.low) < len(segment):
        return _in_ranges(segment.index, keys)
    return np.flatnonzero(keys.contains(codes_of(segment.rows)))


def _closed_by(punctuations: pa.RecordBatch) -> tuple[KeySet, bool]:
    """The keys that punctuations close, and whether there are patterns among them."""
    one, patterns = _of_one_key(punctuations), False
    keys = KeySet().with_codes(codes_or_zero(punctuations)[one])
    for position in np.flatnonzero(~one).tolist():
        low, high = bounds(punctuations.slice(position, 1))
        if low is None or high is None:
            patterns = True
        else:
            keys = keys.with_ranges(np.array([low]), np.array([high]))
    return keys, patterns


def _in_ranges(index: Index, keys: KeySet) -> Positions:
    low = np.searchsorted(index.codes, keys.low, side="left")
    high = np.searchsorted(index.codes, keys.high, side="right")
    counts = high - low
    starts = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    return index.order[starts + np.arange(int(counts.sum()))]


def _untimed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows without their times: a unique key is unique whenever it comes."""
    return rows.select([name for name in rows.schema.names if name != TIME])
