"""What a watermark says: which new rows are late, which stored rows are useless, and which are
proven unmatched. It is the central rule of every join of streams.

**Late.** Let w be the watermark: no row with a time <= w is expected any more. If such a row comes
all the same, it is late and is dropped. A row with a null time is never late.

**Useless.** A row of a window of length W with time t matches only rows with times up to t + W. So
it is useless as soon as ::

    t + W <= w

If it has matched nothing by then, it is *proven unmatched*. Rows that arrive in the same
micro-batch may still match it: so this is decided after all of them have probed.

**Once.** A window notes up to which time its rows are useless. So an unmatched row is emitted in
the first step that proves it, and in no other, even if it stays stored for longer::

    useless so far     proven now      may still match
    ──────────────┼──────────────────┼────────────────► t
            useless_until          w - W

For example, W is 10 seconds, and steps run under the watermarks 12, 15 and 15. The first one finds
rows up to 2 useless, the second one those from after 2 up to 5, the third one none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.joins.operator import END_OF_TIME
from watersmeet.rows.columns import TIME, Bools, times_of
from watersmeet.state.window import Window


def on_time(rows: pa.RecordBatch, watermark: int | None) -> pa.BooleanArray | None:
    """Which new rows are not late; None: all of them."""
    if watermark is None or TIME not in rows.schema.names or not len(rows):
        return None
    kept = pc.fill_null(pc.greater(rows.column(TIME).view(pa.int64()), watermark), True)
    return None if pc.all(kept).as_py() else kept


def matchable(rows: pa.RecordBatch, needed: Iterable[str]) -> pa.BooleanArray | None:
    """Which rows can match: those that are not null in the columns that a match needs, a code or a
    time; None: all of them."""
    valid = None
    for name in needed:
        if name in rows.schema.names and rows.column(name).null_count:
            here = rows.column(name).is_valid()
            valid = here if valid is None else pc.and_(valid, here)
    return valid


def newly_useless(window: Window, watermark: int) -> int | None:
    """Up to which time rows are useless under a watermark; None: no rows are newly useless. (A
    window without a length ends with time itself.)"""
    if watermark == END_OF_TIME:
        until = watermark
    elif window.length is None:
        return None
    else:
        until = watermark - window.length
    known = window.useless_until
    return until if known is None or until > known else None


def proven_unmatched(window: Window, until: int) -> Iterator[tuple[pa.RecordBatch, Bools]]:
    """The stored rows, segment by segment, and which of them are proven unmatched if rows up to
    ``until`` are useless: those that were not useless before, and are neither marked nor gone."""
    for entry in window.entries:
        if entry.min_time > until or entry.marked == entry.rows:
            continue
        rows = window.open(entry).rows
        times = times_of(rows)
        proven = (times <= until) & ~window.marks(entry) & ~window.gone(entry)
        if window.useless_until is not None:
            proven &= times > window.useless_until
        yield rows, proven


def unproven(window: Window) -> int:
    """How many stored rows may still match, and have not matched so far: neither marked nor gone.

    The counts of an entry tell, unless some of its rows may be both marked and gone, or some are
    useless. Only a few segments, around ``useless_until``, have useless rows."""
    since, total = window.useless_until, 0
    for entry in window.entries:
        some = since is not None and entry.min_time <= since
        if not some and not (entry.marked and entry.gone):
            total += entry.rows - entry.marked - entry.gone
        elif entry.marked < entry.rows:
            unmarked = ~(window.marks(entry) | window.gone(entry))
            if since is not None and some:
                unmarked &= times_of(window.open(entry).rows) > since
            total += int(unmarked.sum())
    return total
