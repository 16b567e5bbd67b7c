"""Violations: rows that a stream had promised not to bring.

A row violates a promise if its key is closed in its own stream, or if its key is unique and is in
this batch already, or that of an earlier row that may still match. (An earlier row that has expired
or found its only match is not remembered. If there is a window, a closed key is not remembered for
ever: see :mod:`.closed_keys`.) The join fails, drops such rows, or keeps them; dropped and kept
ones are counted.

**When useless rows leave does not matter.** They leave at once or later, as the goal has it. So a
row whose key is closed in the other stream is no repetition, and one that has expired is not
repeated, whether it is still stored or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from watersmeet.errors import ViolationError
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.rows.columns import TIME, Bools, Positions, has_code, times_of
from watersmeet.rows.stored_keys import key_at, same_keys
from watersmeet.segments.probe import probe
from watersmeet.segments.segment import Segment
from watersmeet.state.manifest import Entry

#: Pairs of equal keys are compared this many at a time.
_PIECE = 1 << 16


def accepted(
    context: StepContext, promised: PromisedKeys, stream: int, rows: pa.RecordBatch
) -> pa.RecordBatch:
    """The new rows that the join accepts; their keys are recorded."""
    layout, closed = context.layout, promised.closed[stream]
    if closed is None or not len(rows):
        return rows
    of_closed_key = closed.covers(rows)
    violating = of_closed_key
    if layout.inputs[stream].unique:
        violating = of_closed_key | _repeated(context, promised, stream, rows)
    if violating.any():
        if layout.violations == "fail":
            raise ViolationError(_message(layout, stream, rows, violating, of_closed_key))
        context.counters.streams[stream].violations += int(violating.sum())
        if layout.violations == "drop":
            rows = rows.filter(pa.array(~violating))
    promised.arrive(stream, rows)
    return rows


def _repeated(
    context: StepContext, promised: PromisedKeys, stream: int, rows: pa.RecordBatch
) -> Bools:
    """Rows whose key is there already, earlier in this batch or in the window, and may match."""
    repeated = np.zeros(len(rows), dtype=np.bool_)
    rows = _untimed(rows)
    useless = promised.closed_in_other(stream, Segment.of(rows))
    asked = np.flatnonzero(has_code(rows) & ~useless)
    fresh = Segment.of(rows.take(pa.array(asked)))
    index = fresh.index
    twins = np.flatnonzero(index.codes[1:] == index.codes[:-1]) + 1
    first, second = index.order[twins - 1], index.order[twins]
    known: Positions = second[same_keys(context.layout, fresh.rows, fresh.rows, second, first)]
    for entry in _entries(context, stream):
        if len(known):
            # What is a repetition is not asked for again: so each key is looked for once.
            repeated[asked[known]] = True
            asked = np.delete(asked, known)
            fresh = Segment.of(rows.take(pa.array(asked)))
        known = _stored_already(context, stream, fresh, entry)
    repeated[asked[known]] = True
    return repeated


def _entries(context: StepContext, stream: int) -> Iterator[Entry]:
    """The stored segments with rows that may still match."""
    expired = _expired(context, stream)
    for entry in context.state.windows[stream].entries:
        if expired is None or entry.max_time > expired:
            yield entry


def _stored_already(context: StepContext, stream: int, fresh: Segment, entry: Entry) -> Positions:
    """Those of some rows whose key a stored segment has, in a row that may still match. One such
    row is enough: so of the rows with a key, more and more are looked at until there is one."""
    window = context.state.windows[stream]
    stored, present = window.open(entry), ~window.gone(entry)
    expired = _expired(context, stream)
    if expired is not None:
        present &= times_of(stored.rows) > expired
    ranges, found = probe(fresh, stored, None, None), np.zeros(len(fresh), dtype=np.bool_)
    low, high, numbers, size = ranges.low, ranges.high, np.arange(len(ranges.low)), 1
    while len(numbers):
        until = np.minimum(low + size, high)
        part = replace(ranges, searchers=ranges.searchers[numbers], low=low, high=until)
        for mine, theirs in part.pieces(_PIECE):
            here = present[theirs]
            mine, theirs = mine[here], theirs[here]
            found[mine[same_keys(context.layout, fresh.rows, stored.rows, mine, theirs)]] = True
        more = until < high
        if not ranges.swapped:
            more &= ~found[ranges.searchers[numbers]]
        low, high, numbers, size = until[more], high[more], numbers[more], 2 * size
    return np.flatnonzero(found)


def _expired(context: StepContext, stream: int) -> int | None:
    """Up to which time the stream's rows have expired, by the watermark of the step before."""
    watermark, window = context.state.watermark, context.state.windows[stream]
    return None if watermark is None or window.length is None else watermark - window.length


def _untimed(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows without their times: a unique key is unique at any time."""
    return rows.select([name for name in rows.schema.names if name != TIME])


def _message(
    layout: EquiLayout, stream: int, rows: pa.RecordBatch, violating: Bools, of_closed_key: Bools
) -> str:
    given = layout.inputs[stream]
    first = int(np.flatnonzero(violating)[0])
    key = key_at(layout, layout.inputs[stream], rows, first)
    promise = "unique=True says that a key comes once"
    if of_closed_key[first]:
        ways = ["a punctuation"] if given.punctuated else []
        ways += [f"arrival={given.arrival!r}"] if given.arrival else []
        promise = f"{' or '.join(ways)} has closed it"
    return (
        f"stream {given.name!r} brought {int(violating.sum())} row(s) that it had promised not "
        f"to bring, the first with the key {key!r}: {promise}. Correct the source or what is "
        "said about it, or give violations='drop' (drop and count them) or 'keep'."
    )
