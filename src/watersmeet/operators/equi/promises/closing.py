"""Closed keys: which keys of a stream will not come any more, and how that is known.

A key of a stream is *closed* by

- a **punctuation**: a row that says so, for one key, a range of keys, or a pattern of
  key columns in which null stands for anything;
- a **clustered** arrival: rows of one key come together, so the keys of earlier
  micro-batches that the newest one lacks are over;
- an **ordered** arrival: keys come in ascending order, so those below the greatest are
  over.

Rows of a micro-batch have no order that Spark would keep, so what a micro-batch closes
is closed after all of its rows.

**The rule** (metadata paper, section 4.3). A row is useless as soon as its key is closed
in the other stream: it has met all that it can meet. If it is stored, it is let go
(*purging*); if it has just come, it is not stored (*dropping on the fly*). Likewise a row
that has met its one, where the other stream's keys are **unique**.

Keys are known by their codes. A range of codes is a range of keys where the key is its
own code; hashed keys are told apart by 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.columns import (
    CODE,
    HIGH,
    LOW,
    PUNCTUATION,
    Bools,
    Ints,
    codes_or_zero,
    concat,
)
from watersmeet.rows.ipc import decode, encode
from watersmeet.rows.shard import Shard
from watersmeet.state.keyset import KeySet
from watersmeet.state.store import Store

LEAST, GREATEST = -(2**63), 2**63 - 1

_PARTS = ("keys", "everywhere", "unpurged", "open", "patterns", "waiting", "numbers")


@dataclass
class Closing:
    """What is closed of one stream, in one shard.

    ``keys`` is all that is closed, ``unpurged`` what has been closed since rows were
    purged because of it, by ``count`` punctuations. ``patterns`` are punctuations with
    wildcards among several key columns. ``open`` are a clustered stream's newest keys,
    ``greatest`` an ordered one's greatest. ``waiting`` are the punctuations that have not
    been handed on. Keys outside the shard's ``shard`` may be among the ``keys``: they do not
    come here. What every shard has been told of, ranges and ``patterns``, is closed
    ``everywhere``."""

    name: str
    shard: Shard = field(default_factory=Shard)
    keys: KeySet = field(default_factory=KeySet)
    everywhere: KeySet = field(default_factory=KeySet)
    unpurged: KeySet = field(default_factory=KeySet)
    open: KeySet = field(default_factory=KeySet)
    patterns: pa.RecordBatch | None = None
    waiting: pa.RecordBatch | None = None
    greatest: int | None = None
    count: int = 0
    _saved: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, stream: int, stored: Sequence[str], shard: Shard) -> Closing:
        """What the store has of a stream's closed keys; ``stored`` names what there is."""
        closing = cls(f"closing/{stream}/", shard)
        for part in _PARTS:
            name = closing.name + part
            closing._saved[part] = (store.get(name) or b"") if name in stored else b""
        saved = closing._saved
        closing.keys = KeySet.from_bytes(saved["keys"])
        closing.everywhere = KeySet.from_bytes(saved["everywhere"])
        closing.unpurged = KeySet.from_bytes(saved["unpurged"])
        closing.open = KeySet.from_bytes(saved["open"])
        closing.patterns = decode(saved["patterns"]) if saved["patterns"] else None
        closing.waiting = decode(saved["waiting"]) if saved["waiting"] else None
        if saved["numbers"]:
            count, greatest = np.frombuffer(saved["numbers"], np.int64).tolist()
            closing.count, closing.greatest = count, None if greatest == LEAST else greatest
        return closing

    def save(self, store: Store) -> list[str]:
        """Write what has changed; the names of what there is."""
        greatest = LEAST if self.greatest is None else self.greatest
        known = self.count or self.greatest is not None
        values = {
            "keys": self.keys.to_bytes(),
            "everywhere": self.everywhere.to_bytes(),
            "unpurged": self.unpurged.to_bytes(),
            "open": self.open.to_bytes(),
            "patterns": b"" if self.patterns is None else encode(self.patterns),
            "waiting": b"" if self.waiting is None else encode(self.waiting),
            "numbers": np.array([self.count, greatest], np.int64).tobytes() if known else b"",
        }
        for part, value in values.items():
            if value == self._saved[part]:
                continue
            if value:
                store.put(self.name + part, value)
            else:
                store.delete(self.name + part)
        return [self.name + part for part, value in values.items() if value]

    def covers(self, rows: pa.RecordBatch, key_columns: tuple[str, ...]) -> Bools:
        """Which rows have a closed key. A null key is never closed: it matches nothing."""
        valid = rows.column(CODE).is_valid().to_numpy(zero_copy_only=False)
        closed: Bools = self.keys.contains(codes_or_zero(rows)) & valid
        for pattern in self.patterns.to_pylist() if self.patterns is not None else ():
            closed |= matches(rows, pattern, key_columns)
        return closed

    def arrived(self, codes: Ints, arrival: str | None) -> None:
        """Close what the arrival of these codes closes."""
        if not len(codes) or arrival is None:
            return
        if arrival == "ordered":
            greatest = max(int(codes.max()), LEAST if self.greatest is None else self.greatest)
            if greatest > LEAST and greatest != self.greatest:
                self._close(np.array([LEAST]), np.array([greatest - 1]))
                self.count += 1
            self.greatest = greatest
        else:
            newest = KeySet().with_codes(codes)
            over = _codes_in(self.open)
            over = over[~newest.contains(over)]
            self._close(over, over)
            self.count += len(over)
            self.open = newest

    def punctuate(self, rows: pa.RecordBatch, key_columns: tuple[str, ...]) -> None:
        """Take punctuations. One that closes nothing new is forgotten."""
        constant = rows.column(CODE).is_valid().to_numpy(zero_copy_only=False)
        codes, first = np.unique(codes_or_zero(rows)[constant], return_index=True)
        new = ~self.keys.contains(codes)
        taken = np.flatnonzero(constant)[first[new]].tolist()
        self._close(codes[new], codes[new])
        for position in np.flatnonzero(~constant).tolist():
            if self._take(rows.slice(position, 1), key_columns):
                taken.append(position)
        if taken:
            rows = rows.take(pa.array(sorted(taken)))
            self.waiting = rows if self.waiting is None else concat([self.waiting, rows])
            self.count += len(taken)

    def _take(self, row: pa.RecordBatch, key_columns: tuple[str, ...]) -> bool:
        """Take a range or a pattern; is there anything new in it? All shards must agree."""
        low, high = bounds(row)
        if low is not None and high is not None:
            if low > high or self.closed_everywhere(low, high):
                return False
            self._close(np.array([low]), np.array([high]))
            if self.shard.count > 1:
                self.everywhere = self.everywhere.with_ranges(np.array([low]), np.array([high]))
            return True
        pattern = row.select(list(key_columns))
        if self.patterns is not None and pattern.to_pylist()[0] in self.patterns.to_pylist():
            return False
        self.patterns = pattern if self.patterns is None else concat([self.patterns, pattern])
        return True

    def closed_everywhere(self, low: int, high: int) -> bool:
        """Are all keys from low to high closed in every shard?"""
        return (self.keys if self.shard.count == 1 else self.everywhere).covers(low, high)

    def _close(self, low: Ints, high: Ints) -> None:
        self.keys = self.keys.with_ranges(low, high).bridged(self.keys, self.shard)
        self.unpurged = self.unpurged.with_ranges(low, high)


def bounds(row: pa.RecordBatch) -> tuple[int | None, int | None]:
    """The codes that a punctuation closes, from the least to the greatest; None if it is a
    pattern of several key columns."""
    code = row.column(CODE)[0].as_py()
    if code is not None:
        return code, code
    if LOW not in row.schema.names:
        return None, None
    low, high = row.column(LOW)[0].as_py(), row.column(HIGH)[0].as_py()
    return LEAST if low is None else low, GREATEST if high is None else high


def matches(
    rows: pa.RecordBatch, pattern: dict[str, object], key_columns: tuple[str, ...]
) -> Bools:
    """Which rows fit a pattern: equal where it has a value."""
    fits = np.ones(len(rows), dtype=np.bool_)
    for name in key_columns:
        if pattern[name] is not None:
            equal = pc.equal(rows.column(name), pa.scalar(pattern[name], rows.column(name).type))
            fits &= equal.fill_null(False).to_numpy(zero_copy_only=False)
    return fits


def split(rows: pa.RecordBatch, *, ranges: bool) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The data among rows, and the punctuations; with ``ranges``, with both of their bounds,
    though a bound that no column gives does not travel."""
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
    if not keys:
        return np.empty(0, dtype=np.int64)
    return np.concatenate(
        [np.arange(low, high + 1) for low, high in zip(keys.low, keys.high, strict=True)]
    )
