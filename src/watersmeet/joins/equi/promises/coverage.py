"""Sets of keys that punctuations are about.

**Codes.** A single key and a range of keys are known by their codes.

**Patterns.** A pattern fixes some of the key columns; a null stands for any value of the others.
It is known by the columns that it fixes, and by a hash of their values. So all patterns that fix
the same columns are one set of hashes, and for each of these few sets all rows are looked up at
once: a row fits if the hash of the same columns is in the set. A pattern fits another one in the
same way, if it fixes at least these columns: then all its keys are keys of the other.

**Example.** The key is (country, city), and a punctuation has (AT, null): no row of Austria will
come any more. It fixes the first column, so the set for that column gets the hash of AT. The row
(AT, Wien) fits, because the hash of its country is there. So does the pattern (AT, Graz).

Keys that are hashed, and patterns, are told apart by 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import HIGH, LOW, Bools, Ints, Positions, codes_or_zero, has_code
from watersmeet.rows.stable_hash import stable_hash
from watersmeet.segments.keyset import rows_with_keys
from watersmeet.segments.segment import Segment
from watersmeet.state.key_segments import KeySegments

LEAST, GREATEST = -(2**63), 2**63 - 1

#: The positions of the key columns that a pattern fixes.
Fixed = tuple[int, ...]


@dataclass(frozen=True)
class About:
    """What punctuations are about. Where ``is_range``, a punctuation is about the codes from
    ``low`` to ``high``. Of these, some are ``of_one_key``, and only one shard was told. The others
    are ``patterns``, grouped by the columns that they fix: the columns, the positions of these
    patterns among the punctuations, and the hashes of their values."""

    low: Ints
    high: Ints
    is_range: Bools
    of_one_key: Bools
    patterns: tuple[tuple[Fixed, Positions, Ints], ...]

    @classmethod
    def of(cls, punctuations: pa.RecordBatch, key_columns: Sequence[str]) -> About:
        low, high, is_range = bounds(punctuations)
        patterns = _by_fixed_columns(punctuations, np.flatnonzero(~is_range), key_columns)
        return cls(low, high, is_range, has_code(punctuations), tuple(patterns))

    def first_of_each(self) -> Positions:
        """The positions of the punctuations, without those that repeat an earlier one."""
        low, high, way = self.low.copy(), self.high.copy(), -self.of_one_key.astype(np.int64)
        for number, (_, at, hashes) in enumerate(self.patterns):
            low[at], high[at], way[at] = hashes, hashes, number + 1
        order = np.lexsort((way, high, low))
        differs = np.ones(len(order), dtype=np.bool_)
        differs[1:] = False
        for values in (low, high, way):
            differs[1:] |= values[order[1:]] != values[order[:-1]]
        return np.sort(order[differs])


class CoveredKeys:
    """A set of keys, by their codes and by patterns. ``segments`` makes the sets of codes that it
    consists of; without it they are in memory only.

    >>> def keys(countries, cities):
    ...     columns = [pa.nulls(len(cities), pa.int64()), pa.array(countries), pa.array(cities)]
    ...     return pa.RecordBatch.from_arrays(columns, ["#code", "#key0", "#key1"])
    >>> closed = CoveredKeys(["#key0", "#key1"])
    >>> closed.add(About.of(keys(["AT"], pa.nulls(1, pa.string())), ["#key0", "#key1"]))
    >>> closed.fit(keys(["AT", "DE"], ["Wien", "Bonn"])).tolist()
    [True, False]
    """

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
            return self._has_codes(rows)
        return self._has_codes(rows) | self.fit(rows)

    def _has_codes(self, rows: pa.RecordBatch) -> Bools:
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

    def add(self, about: About) -> None:
        """Add what punctuations are about."""
        self.codes.add(about.low[about.is_range], about.high[about.is_range])
        for fixed, _, hashes in about.patterns:
            if fixed not in self._patterns:
                self._patterns[fixed] = self._segments(fixed)
            self._patterns[fixed].add(hashes, hashes)

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


def bounds(punctuations: pa.RecordBatch) -> tuple[Ints, Ints, Bools]:
    """For each punctuation, the least and the greatest code that it is about; and whether it is
    about codes at all. (If not, it is a pattern of several key columns.)"""
    of_one_key, codes = has_code(punctuations), codes_or_zero(punctuations)
    if LOW not in punctuations.schema.names or of_one_key.all():
        return codes, codes, of_one_key
    low, high = (
        np.where(of_one_key, codes, punctuations.column(name).fill_null(end).to_numpy())
        for name, end in ((LOW, LEAST), (HIGH, GREATEST))
    )
    return low, high, np.ones(len(punctuations), dtype=np.bool_)


def _by_fixed_columns(
    punctuations: pa.RecordBatch, patterns: Positions, key_columns: Sequence[str]
) -> Iterator[tuple[Fixed, Positions, Ints]]:
    """The patterns among punctuations, by the columns that they fix."""
    if not len(patterns):
        return
    columns = [punctuations.column(name).take(pa.array(patterns)) for name in key_columns]
    valid = [column.is_valid().to_numpy(zero_copy_only=False) for column in columns]
    ways, way = np.unique(np.stack(valid, axis=1), axis=0, return_inverse=True)
    for number, fixes in enumerate(ways):
        fixed = tuple(np.flatnonzero(fixes).tolist())
        at = np.flatnonzero(way == number)
        values = [columns[position].take(pa.array(at)) for position in fixed]
        yield fixed, patterns[at], stable_hash(values, len(at))
