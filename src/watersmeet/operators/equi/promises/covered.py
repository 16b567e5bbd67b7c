"""Sets of keys that punctuations are about.

**Codes.** A single key and a range of keys are known by their codes.

**Patterns.** A pattern fixes some of the key columns; a null stands for any value of the others.
It is known by which columns it fixes, and by a hash of what they are fixed to. So all patterns
that fix the same columns are one set of hashes, and for each of these few sets all rows are looked
up at once: a row fits if the hash of the same columns is in the set. A pattern fits another one in
the same way, if it fixes at least these columns: then all its keys are keys of the other.

Hashed keys and patterns are told apart by 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import HIGH, LOW, Bools, Ints, codes_or_zero, has_code
from watersmeet.rows.output import Positions
from watersmeet.rows.stable_hash import stable_hash
from watersmeet.state.key_segments import KeySegments
from watersmeet.state.keyset import rows_with_keys
from watersmeet.state.segment import Segment

LEAST, GREATEST = -(2**63), 2**63 - 1

#: The positions of the key columns that a pattern fixes.
Fixed = tuple[int, ...]


class CoveredKeys:
    """A set of keys, by their codes and by patterns. ``segments`` makes the sets of codes that it
    consists of; without it they are in memory only."""

    def __init__(
        self,
        key_columns: Sequence[str],
        segments: Callable[[Fixed | None], KeySegments] = lambda _: KeySegments(),
        known: Sequence[Fixed] = (),
    ) -> None:
        self._key_columns = key_columns
        self._segments = segments
        self.codes = segments(None)
        self._patterns = {fixed: segments(fixed) for fixed in known}

    # -- reading -------------------------------------------------------------------

    def __bool__(self) -> bool:
        return any(self._sets())

    @property
    def has_patterns(self) -> bool:
        return any(self._patterns.values())

    def covers(self, rows: pa.RecordBatch) -> Bools:
        """Which rows have a key of the set, by its code or because a pattern fits."""
        if not self.has_patterns:
            return self.has_codes(rows)
        return self.has_codes(rows) | self.fit(rows)

    def has_codes(self, rows: pa.RecordBatch) -> Bools:
        """Which rows have a code of the set."""
        coded: Bools = self.codes.contains(codes_or_zero(rows)) & has_code(rows)
        return coded

    def fit(self, rows: pa.RecordBatch) -> Bools:
        """Which rows, or other patterns, a pattern of the set fits."""
        fits = np.zeros(len(rows), dtype=np.bool_)
        for fixed, hashes in self._patterns.items():
            columns = [rows.column(self._key_columns[position]) for position in fixed]
            valid = ~fits
            for column in columns:
                valid &= column.is_valid().to_numpy(zero_copy_only=False)
            at = np.flatnonzero(valid)
            found = stable_hash([column.take(pa.array(at)) for column in columns], len(at))
            fits[at] = hashes.contains(found)
        return fits

    def rows_in(self, segment: Segment) -> Positions:
        """Where a segment has rows with a key of the set."""
        found = rows_with_keys(segment, self.codes.whole())
        if not self.has_patterns:
            return found
        fits = self.fit(segment.rows)
        fits[found] = True
        return np.flatnonzero(fits)

    # -- changing ------------------------------------------------------------------

    def add(self, punctuations: pa.RecordBatch) -> None:
        """Add what punctuations are about."""
        low, high, is_range = bounds(punctuations)
        self.codes.add(low[is_range], high[is_range])
        if not is_range.all():
            patterns = punctuations.filter(pa.array(~is_range))
            for fixed, _, hashes in by_fixed_columns(patterns, self._key_columns):
                self._of(fixed).add(hashes, hashes)

    def clear(self) -> None:
        for segments in self._sets():
            segments.clear()

    def save(self, watermark: int | None) -> None:
        """Keep the set with the state: see :meth:`KeySegments.save`."""
        for segments in self._sets():
            segments.save(watermark)

    def _sets(self) -> Iterator[KeySegments]:
        yield self.codes
        yield from self._patterns.values()

    def _of(self, fixed: Fixed) -> KeySegments:
        if fixed not in self._patterns:
            self._patterns[fixed] = self._segments(fixed)
        return self._patterns[fixed]


def bounds(punctuations: pa.RecordBatch) -> tuple[Ints, Ints, Bools]:
    """For each punctuation, the least and the greatest code it is about; and whether it is about
    these codes. (If not, it is a pattern of several key columns.)"""
    of_one_key, codes = has_code(punctuations), codes_or_zero(punctuations)
    if LOW not in punctuations.schema.names:
        return codes, codes, of_one_key
    low, high = (
        np.where(of_one_key, codes, punctuations.column(name).fill_null(end).to_numpy())
        for name, end in ((LOW, LEAST), (HIGH, GREATEST))
    )
    return low, high, np.ones(len(punctuations), dtype=np.bool_)


def by_fixed_columns(
    patterns: pa.RecordBatch, key_columns: Sequence[str]
) -> Iterator[tuple[Fixed, Positions, Ints]]:
    """Patterns by the columns that they fix: the columns, the positions of the patterns, and the
    hashes of what they fix them to."""
    valid = [
        patterns.column(name).is_valid().to_numpy(zero_copy_only=False) for name in key_columns
    ]
    ways, way = np.unique(np.stack(valid, axis=1), axis=0, return_inverse=True)
    for number, fixes in enumerate(ways):
        fixed = tuple(np.flatnonzero(fixes).tolist())
        at = np.flatnonzero(way == number)
        columns = [patterns.column(key_columns[position]).take(pa.array(at)) for position in fixed]
        yield fixed, at, stable_hash(columns, len(at))
