"""Marks: which rows of the marked stream have matched, in a left, right, semi or anti join.

New rows of the marked stream probe the other stream's slices in the first hop. The matches of a row
go to its home in the second hop, where the row itself is stored, new in this micro-batch. It is
known by the hashes of its content (its code and its check). Rows of equal content match the same
rows, so they may stand for one another: each of them has its own matches reported, and if one has
matched, all have.

A *find* has the code and the check of a new row, and, where results need them, the columns of the
row that it matches.

**Example.** A left join of a and b, over three slices. The new row r of a has the code 7 and the
check 3::

    slice 0 of b   r matches b1 and b4   finds (7, 3, b1) and (7, 3, b4)
    slice 1 of b   no match              none
    slice 2 of b   r matches b9          find (7, 3, b9)
    home of r      three results: r b1, r b4, r b9; r is marked

If another task has sent a row of equal content, there are six finds, two of each. All results are
made with one of the two rows, and both rows are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from watersmeet.joins.ring.search.probing_rows import ProbingRows
from watersmeet.rows.columns import CHECK, CODE, Ints, Positions, codes_of
from watersmeet.rows.output import Side
from watersmeet.segments.probe import spread
from watersmeet.state.manifest import Entry
from watersmeet.state.window import Window

#: No piece of work on identities has more rows than this.
_PIECE = 1 << 18


def finds(
    probing: ProbingRows,
    marked: int,
    mine: Positions,
    rows: pa.RecordBatch | None = None,
    theirs: Positions | None = None,
) -> pa.RecordBatch:
    """The finds of the new rows at some positions; with the ``rows`` that they match, if results
    need these."""
    own = probing.sides[marked]
    taken = own.select([CODE, CHECK]).take(pa.array(mine))
    columns = {CODE: taken.column(0), CHECK: taken.column(1)}
    if rows is not None:
        found = rows.drop_columns([CODE]).take(pa.array(theirs))
        columns |= {f"+{name}": found.column(i) for i, name in enumerate(found.schema.names)}
    return pa.RecordBatch.from_pydict(columns)


def found_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that were found, from finds."""
    names = [name for name in batch.schema.names if name.startswith("+")]
    stored = [name.removeprefix("+") for name in names]
    return pa.RecordBatch.from_arrays([batch.column(name) for name in names], names=stored)


class NewRows:
    """The new rows of the marked stream that a step has stored here, by their content.

    Invariant: the rows are sorted by (code, check). Those of content n begin at ``_first[n]``."""

    def __init__(self, window: Window, entries: Sequence[Entry]) -> None:
        self._window = window
        self._entries = entries
        opened = (window.open(entry).rows for entry in entries)  # one by one: memory is limited
        known = [(codes_of(rows), _checks(rows)) for rows in opened]
        codes, checks = (np.concatenate(columns) for columns in zip(*known, strict=True))
        order = np.lexsort((checks, codes))
        codes, checks = codes[order], checks[order]
        changes = (codes[1:] != codes[:-1]) | (checks[1:] != checks[:-1])
        self._first: Ints = np.flatnonzero(np.append(True, changes))
        self._codes, self._checks = codes[self._first], checks[self._first]
        lengths = [entry.rows for entry in entries]
        self._entry = np.repeat(np.arange(len(entries)), lengths)[order]
        self._position = np.concatenate([np.arange(length) for length in lengths])[order]

    def sides(self, batch: pa.RecordBatch) -> Iterator[tuple[Side, Positions]]:
        """For each find, a stored row with its content. Yields some rows, by position, and the
        positions of the finds that they belong to."""
        # Each of several rows of equal content has its own finds, so one row may stand for all.
        rows = self._first[self._contents(batch)]
        for entry, here in self._by_entry(rows):
            yield (self._window.open(entry).rows, self._position[rows[here]]), here

    def marked(self, batch: pa.RecordBatch) -> Iterator[tuple[Entry, Positions]]:
        """All rows that finds are about, by segment."""
        contents = np.unique(self._contents(batch))
        ends = np.append(self._first[1:], len(self._entry))
        rows = np.concatenate(
            [place for _, place in spread(self._first[contents], ends[contents], _PIECE)]
        )
        for entry, here in self._by_entry(rows):
            yield entry, self._position[rows[here]]

    def _contents(self, batch: pa.RecordBatch) -> Ints:
        """The number of each find's content."""
        codes, checks = codes_of(batch), _checks(batch)
        low = np.searchsorted(self._codes, codes, side="left")
        high = np.searchsorted(self._codes, codes, side="right")
        contents: Ints = np.full(len(batch), -1)
        for find, content in spread(low, high, _PIECE):
            same = checks[find] == self._checks[content]
            contents[find[same]] = content[same]
        assert (contents >= 0).all(), "what is found is found for a row that is new here"
        return contents

    def _by_entry(self, rows: Ints) -> Iterator[tuple[Entry, Positions]]:
        """The places of rows in their list, by the segment that they are in."""
        for number, entry in enumerate(self._entries):
            here = np.flatnonzero(self._entry[rows] == number)
            if len(here):
                yield entry, here


def _checks(rows: pa.RecordBatch) -> Ints:
    checks: Ints = rows.column(CHECK).to_numpy()
    return checks
