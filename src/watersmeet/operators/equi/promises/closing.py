"""Closed keys: the set of keys that a stream will not bring any more.

A key of a stream is *closed* by

- a **punctuation**: a row that says so, for one key, a range of keys, or a pattern of key columns
  in which null stands for any value;
- a **clustered** arrival: rows of one key come together, so a key of an earlier micro-batch that
  the newest one lacks is closed;
- an **ordered** arrival: keys come in ascending order, so all keys below the greatest are closed.

Spark keeps no order among the rows of a micro-batch. So what a micro-batch closes is closed after
all of its rows.

**The rule** (metadata paper, section 4.3). A row is useless as soon as its key is closed in the
other stream: all rows that it can match have come. If it is stored, it is discarded (*purging*);
if it has just come, it is not stored (*dropping on the fly*). The same holds for a row that has
found its only match, where the other stream's keys are **unique**.

Keys are known by their codes. A range of codes is a range of keys where the key is its own code;
hashed keys are told apart by 64 bits.
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
    has_code,
)
from watersmeet.rows.ipc import decode, encode
from watersmeet.rows.shard import Shard
from watersmeet.state.keyset import KeySet
from watersmeet.state.store import Store

LEAST, GREATEST = -(2**63), 2**63 - 1

_PARTS = ("keys", "everywhere", "unpurged", "open", "patterns", "waiting", "numbers")


@dataclass
class ClosedKeys:
    """The closed keys of one stream, in one shard.

    ``keys`` are all of them. ``unpurged`` are those that were closed since the last purge, by
    ``unpurged_count`` punctuations (or their like). ``patterns`` are punctuations with wildcards
    among several key columns. ``open`` are a clustered stream's newest keys, ``greatest`` is an
    ordered one's greatest. ``waiting`` are the punctuations that have not been handed on.

    ``keys`` may have codes of other shards among them: their rows do not come here. Ranges and
    ``patterns``, of which every shard was told, are closed ``everywhere``."""

    name: str
    shard: Shard = field(default_factory=Shard)
    keys: KeySet = field(default_factory=KeySet)
    everywhere: KeySet = field(default_factory=KeySet)
    unpurged: KeySet = field(default_factory=KeySet)
    open: KeySet = field(default_factory=KeySet)
    patterns: pa.RecordBatch | None = None
    waiting: pa.RecordBatch | None = None
    greatest: int | None = None
    unpurged_count: int = 0
    _saved: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def load(cls, store: Store, stream: int, stored: Sequence[str], shard: Shard) -> ClosedKeys:
        """What the store has of a stream's closed keys; ``stored`` names what there is."""
        closed = cls(f"closing/{stream}/", shard)
        for part in _PARTS:
            name = closed.name + part
            closed._saved[part] = (store.get(name) or b"") if name in stored else b""
        saved = closed._saved
        closed.keys = KeySet.from_bytes(saved["keys"])
        closed.everywhere = KeySet.from_bytes(saved["everywhere"])
        closed.unpurged = KeySet.from_bytes(saved["unpurged"])
        closed.open = KeySet.from_bytes(saved["open"])
        closed.patterns = decode(saved["patterns"]) if saved["patterns"] else None
        closed.waiting = decode(saved["waiting"]) if saved["waiting"] else None
        if saved["numbers"]:
            count, greatest = np.frombuffer(saved["numbers"], np.int64).tolist()
            closed.unpurged_count = count
            closed.greatest = None if greatest == LEAST else greatest
        return closed

    def save(self, store: Store) -> list[str]:
        """Write what has changed; the names of all that is stored."""
        greatest = LEAST if self.greatest is None else self.greatest
        count = self.unpurged_count
        known = count or self.greatest is not None
        values = {
            "keys": self.keys.to_bytes(),
            "everywhere": self.everywhere.to_bytes(),
            "unpurged": self.unpurged.to_bytes(),
            "open": self.open.to_bytes(),
            "patterns": b"" if self.patterns is None else encode(self.patterns),
            "waiting": b"" if self.waiting is None else encode(self.waiting),
            "numbers": np.array([count, greatest], np.int64).tobytes() if known else b"",
        }
        for part, value in values.items():
            if value == self._saved[part]:
                continue
            if value:
                store.put(self.name + part, value)
            else:
                store.delete(self.name + part)
        return [self.name + part for part, value in values.items() if value]

    def covers(self, rows: pa.RecordBatch, key_columns: Sequence[str]) -> Bools:
        """Which rows have a closed key. A null key is never closed: it matches nothing."""
        closed: Bools = self.keys.contains(codes_or_zero(rows)) & has_code(rows)
        return closed if self.patterns is None else closed | self.fit_patterns(rows, key_columns)

    def fit_patterns(self, rows: pa.RecordBatch, key_columns: Sequence[str]) -> Bools:
        """Which rows have a key that a pattern closes; a null key is never closed."""
        fits = np.zeros(len(rows), dtype=np.bool_)
        for pattern in self.patterns.to_pylist() if self.patterns is not None else ():
            fits |= _fits(rows, pattern, key_columns)
        return fits & has_code(rows)

    def arrived(self, codes: Ints, arrival: str | None) -> None:
        """Close what the arrival of these codes closes: the codes of all rows of a micro-batch."""
        if not len(codes) or arrival is None:
            return
        if arrival == "ordered":
            greatest = max(int(codes.max()), LEAST if self.greatest is None else self.greatest)
            if greatest > LEAST and greatest != self.greatest:
                self._close(np.array([LEAST]), np.array([greatest - 1]))
                self.unpurged_count += 1
            self.greatest = greatest
        else:
            newest = KeySet().with_codes(codes)
            before = _codes_in(self.open)
            absent = before[~newest.contains(before)]
            self._close(absent, absent)
            self.unpurged_count += len(absent)
            self.open = newest

    def punctuate(self, rows: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Close what punctuations close. One that closes nothing new is ignored."""
        of_one_key = has_code(rows)
        codes, first = np.unique(codes_or_zero(rows)[of_one_key], return_index=True)
        new = ~self.keys.contains(codes)
        effective = np.flatnonzero(of_one_key)[first[new]].tolist()
        self._close(codes[new], codes[new])
        for position in np.flatnonzero(~of_one_key).tolist():
            if self._close_many(rows.slice(position, 1), key_columns):
                effective.append(position)
        if effective:
            rows = rows.take(pa.array(sorted(effective)))
            self.waiting = rows if self.waiting is None else concat([self.waiting, rows])
            self.unpurged_count += len(effective)

    def _close_many(self, row: pa.RecordBatch, key_columns: Sequence[str]) -> bool:
        """Close a range or a pattern, and say whether it was new. All shards must agree."""
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


def _fits(rows: pa.RecordBatch, pattern: dict[str, object], key_columns: Sequence[str]) -> Bools:
    """Which rows fit a pattern: equal to it where it has a value."""
    fits = np.ones(len(rows), dtype=np.bool_)
    for name in key_columns:
        if pattern[name] is not None:
            equal = pc.equal(rows.column(name), pa.scalar(pattern[name], rows.column(name).type))
            fits &= equal.fill_null(False).to_numpy(zero_copy_only=False)
    return fits


def split_punctuations(
    rows: pa.RecordBatch, *, ranges: bool
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The data among rows, and the punctuations. With ``ranges`` these have both bounds: one that
    no column of the stream gives is null."""
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
