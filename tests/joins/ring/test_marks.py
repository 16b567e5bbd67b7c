"""How new rows of the marked stream are known again."""

from __future__ import annotations

import weakref
from unittest import mock

import pyarrow as pa

from watersmeet.joins.ring.marks import NewRows
from watersmeet.rows.columns import CHECK, CODE
from watersmeet.segments.segment import Segment
from watersmeet.state.cache import SegmentCache
from watersmeet.state.manifest import Entry, StoredWindow
from watersmeet.state.memory import OpenSegments
from watersmeet.state.store import MemoryStore
from watersmeet.state.window import Window


def test_new_rows_are_opened_one_segment_after_the_other() -> None:
    # Given new rows in many segments, of which few may be open,
    cache = SegmentCache("/nowhere", 0)
    window = Window(
        StoredWindow(), None, None, MemoryStore(), cache, OpenSegments(limit=1), indexed=False
    )
    for number in range(10):
        columns = {CODE: [number, 70 + number], CHECK: [1, 2], "text": ["a", "b"]}
        window.add(Segment.of(pa.RecordBatch.from_pydict(columns)))
    window.write()
    opened, held, open_segment = list[weakref.ref[pa.RecordBatch]](), list[int](), Window.open

    def opening(self: Window, entry: Entry) -> Segment:
        segment = open_segment(self, entry)
        opened.append(weakref.ref(segment.rows))
        held.append(sum(rows() is not None for rows in opened))
        return segment

    # when a find asks for one of them,
    with mock.patch.object(Window, "open", opening):
        new = NewRows(window, list(window.entries))
    [(entry, positions)] = new.marked(pa.RecordBatch.from_pydict({CODE: [75], CHECK: [2]}))
    # then it is found, and the others have not been open all at once.
    assert (entry.id, positions.tolist()) == (window.entries[5].id, [1])
    assert len(held) == 10
    assert max(held) <= 2
