"""Closed keys: the set of keys that a stream will not bring any more.

A key of a stream is *closed* by

- a **punctuation**: a row that says so, for one key, a range of keys, or a pattern of key columns
  in which null stands for any value;
- a **clustered** arrival: rows of one key come together, so a key of an earlier micro-batch that
  the newest one lacks is closed;
- an **ordered** arrival: keys come in ascending order, so all keys below the greatest are closed.

Spark keeps no order among the rows of a micro-batch. So a micro-batch closes keys only after all of
its rows have been processed.

**The rule** (metadata paper, section 4.3). A row is useless as soon as its key is closed in the
other stream: all rows that it can match have come. If it is stored, it is discarded (*purging*);
if it has just come, it is not stored (*dropping on the fly*). The same holds for a row that has
found its only match, where the other stream's keys are **unique**.

**How long.** A closed key is remembered for as long as something may ask for it:

- New rows of the other stream ask. But with a window they are stored, and expire, if the key is
  not known: the result is the same.
- New rows of the same stream ask, which break their promise (:mod:`.violations`).
- Punctuations of the other stream ask, if punctuations are handed on (:mod:`.propagation`).

So it is remembered for ever if there is no window, or if punctuations are handed on. Otherwise it
is remembered for as long as rows are kept: the longer window, and the delay of the watermark. A
row that breaks its promise after that is not noticed, as with unique keys.

**Example.** Keys of a stream of payments, in one shard::

                   keys     punctuation   closed if the arrival is
                                          clustered   ordered     not promised
    micro-batch 1  4, 7                   none        up to 6     none
    micro-batch 2  7, 9                   4           up to 8     none
    micro-batch 3  9, 9     20 to 29      4, 7 and    up to 8 and 20 to 29
                                          20 to 29    20 to 29

After micro-batch 2 of the clustered stream, a new order with key 4 is not stored, and stored orders
with key 4 are discarded at the next purge. A payment with key 4 breaks the promise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.joins.equi.promises.coverage import LEAST, About, CoveredKeys, Fixed, bounds
from watersmeet.joins.equi.promises.pending import PendingPunctuations
from watersmeet.joins.equi.state import EquiState
from watersmeet.rows.columns import HIGH, LOW, PUNCTUATION, Bools, Ints, codes_or_zero, has_code
from watersmeet.segments.keyset import KeySet
from watersmeet.state.key_segments import KeySegments


class ClosedKeys:
    """The closed keys of one stream, in one shard. They are remembered for a ``length`` of time;
    None: for ever.

    ``closed`` has all of them, except those of an ordered stream below its greatest key.
    ``unpurged`` has those that were closed since the last purge: by ``unpurged_count``
    punctuations, or by the order of arrival, which counts too. ``come`` has the keys of a unique
    stream that have come; they are recorded where punctuations are handed on. ``news`` has the keys
    that were closed, or have come, in this step. ``waiting`` has the stream's punctuations that
    have not been handed on.

    ``closed`` may have codes of other shards: their rows do not come here. Every shard is told of
    ranges and patterns; the ranges are also in ``_everywhere``. ``_open`` has the newest keys of a
    clustered stream, ``_greatest`` is the greatest key of an ordered one."""

    def __init__(
        self, state: EquiState, stream: int, key_columns: Sequence[str], length: int | None = None
    ) -> None:
        self._state, self._stream, self._key_columns = state, stream, key_columns
        self.closed = self._covered("closed", length)
        self.unpurged = self._covered("unpurged", None)
        self.news = CoveredKeys(key_columns)
        self.come = KeySegments(state, f"{stream}/come", shard=state.shard)
        self.waiting = PendingPunctuations(
            state.named(f"{stream}/waiting", indexed=True),
            state.named(f"{stream}/waiting for many"),
        )
        self._everywhere = KeySegments(state, f"{stream}/everywhere", length=length)
        self._open = KeySegments(state, f"{stream}/open")
        numbers = state.promises[stream]
        self.unpurged_count: int = numbers.get("unpurged", 0)
        self._greatest: int | None = numbers.get("greatest")

    # -- reading -------------------------------------------------------------------

    def covers(self, rows: pa.RecordBatch) -> Bools:
        """Which rows have a closed key. A null key is never closed: it matches nothing."""
        closed = self.closed.covers(rows)
        if self._greatest is not None:
            closed |= codes_or_zero(rows) < self._greatest
        return closed & has_code(rows)

    def covers_all(self, punctuations: pa.RecordBatch) -> Bools:
        """Which punctuations are about closed keys only. For a punctuation of more than one key,
        only what all shards have been told counts: they must agree."""
        covered = self.covers(punctuations)
        low, high, is_range = bounds(punctuations)
        of_many = ~has_code(punctuations)
        ranges = np.flatnonzero(of_many & is_range)
        covered[ranges] = self._covers_ranges(low[ranges], high[ranges])
        patterns = np.flatnonzero(of_many & ~is_range)
        if len(patterns):
            covered[patterns] = self.closed.fit(punctuations.take(pa.array(patterns)))
        return covered

    def _covers_ranges(self, low: Ints, high: Ints) -> Bools:
        if self._state.shard.count > 1:
            return self._everywhere.covers(low, high)
        if self._greatest is not None:
            low = np.maximum(low, self._greatest)
        return self.closed.codes.covers(low, high)

    # -- closing -------------------------------------------------------------------

    def arrived(self, codes: Ints, arrival: str) -> None:
        """Close what the arrival of these codes closes: the codes of all rows of a micro-batch."""
        if not len(codes):
            return
        if arrival == "ordered":
            before = LEAST if self._greatest is None else self._greatest
            greatest = max(int(codes.max()), before)
            if greatest > before:
                self._close_codes(np.array([before]), np.array([greatest - 1]), 1)
            self._greatest = greatest
        else:
            newest, known = KeySet().with_codes(codes), _codes_in(self._open.whole())
            absent = known[~newest.contains(known)]
            self.closed.codes.add(absent, absent)
            self._close_codes(absent, absent, len(absent))
            self._open.clear()
            self._open.add(newest.low, newest.high)

    def has_come(self, codes: Ints) -> None:
        """Record which keys of a unique stream have come: they will not come again."""
        self.come.add(codes, codes)
        self.news.codes.add(codes, codes)

    def punctuate(self, punctuations: pa.RecordBatch) -> None:
        """Close what punctuations close. One that closes nothing new is ignored."""
        new = punctuations.filter(pa.array(~self.covers_all(punctuations)))
        if not len(new):
            return
        effective = new.take(pa.array(About.of(new, self._key_columns).first_of_each()))
        about = About.of(effective, self._key_columns)
        for keys in (self.closed, self.unpurged, self.news):
            keys.add(about)
        self.unpurged_count += len(effective)
        self.waiting.add(effective)
        if self._state.shard.count > 1:
            told = about.is_range & ~about.of_one_key
            self._everywhere.add(about.low[told], about.high[told])

    def purged(self) -> None:
        """All rows that were made useless have been purged."""
        self.unpurged.clear()
        self.unpurged_count = 0

    def save(self, watermark: int | None) -> None:
        """Write the keys to the state, and forget those that nobody asks for any more."""
        for keys in (self.closed, self.unpurged, self.come, self._everywhere, self._open):
            keys.save(watermark)
        self.waiting.save()
        numbers = {"unpurged": self.unpurged_count, "greatest": self._greatest}
        self._state.promises[self._stream] = {
            name: number for name, number in numbers.items() if number is not None
        }

    # -- inside --------------------------------------------------------------------

    def _covered(self, name: str, length: int | None) -> CoveredKeys:
        """A set of keys that is kept in windows of the state: one for codes, and one for each
        choice of columns that patterns fix."""
        state, prefix = self._state, f"{self._stream}/{name}"

        def segments(fixed: Fixed | None) -> KeySegments:
            if fixed is None:
                return KeySegments(state, prefix, length=length, shard=state.shard)
            return KeySegments(state, f"{prefix} by {','.join(map(str, fixed))}", length=length)

        known = {name.removeprefix(f"{prefix} by ") for name in state.names(f"{prefix} by ")}
        fixed = [tuple(int(column) for column in text.split(",") if column) for text in known]
        return CoveredKeys(self._key_columns, segments, sorted(fixed))

    def _close_codes(self, low: Ints, high: Ints, count: int) -> None:
        """The order of arrival has closed such keys."""
        self.unpurged.codes.add(low, high)
        self.unpurged_count += count
        self.news.codes.add(low, high)


def split_punctuations(
    rows: pa.RecordBatch, *, ranges: bool
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The data among rows, and the punctuations. With ``ranges``, punctuations have both bounds. A
    bound that no column of the stream gives is null."""
    if PUNCTUATION not in rows.schema.names:
        return rows, None
    flags = rows.column(PUNCTUATION).fill_null(False)
    punctuations = rows.filter(flags)
    for name in (LOW, HIGH):
        if ranges and name not in rows.schema.names:
            punctuations = punctuations.append_column(name, pa.nulls(len(punctuations), pa.int64()))
    data = rows.filter(pc.invert(flags)) if len(punctuations) else rows
    kept = [name for name in rows.schema.names if name not in (PUNCTUATION, LOW, HIGH)]
    return data.select(kept), punctuations


def _codes_in(keys: KeySet) -> Ints:
    """Every code of a set of single keys."""
    sizes = keys.high - keys.low + 1
    starts = np.cumsum(sizes) - sizes
    return np.repeat(keys.low - starts, sizes) + np.arange(int(sizes.sum()))
