"""Violations: rows that a stream had promised not to bring.

A row violates a promise if its key is closed in its own stream, or if its key is unique and is in
this batch or in the window already. (A row that has left the window is not remembered. If there is
a window, a closed key is not remembered for ever: see :mod:`.closed_keys`.) The join fails, drops
such rows, or keeps them; dropped and kept ones are counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import ViolationError
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.rows.columns import TIME, Bools, Positions, has_code
from watersmeet.rows.stored_keys import key_at, same_keys
from watersmeet.segments.probe import probe
from watersmeet.segments.segment import Segment

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
        violating = of_closed_key | _repeated(context, stream, rows)
    if violating.any():
        if layout.violations == "fail":
            raise ViolationError(_message(layout, stream, rows, violating, of_closed_key))
        context.counters.streams[stream].violations += int(violating.sum())
        if layout.violations == "drop":
            rows = rows.filter(pa.array(~violating))
    promised.arrive(stream, rows)
    return rows


def _repeated(context: StepContext, stream: int, rows: pa.RecordBatch) -> Bools:
    """Rows whose key is there already, earlier in this batch or in the window."""
    coded = np.flatnonzero(has_code(rows))
    fresh = Segment.of(_untimed(rows.take(pa.array(coded))))
    index = fresh.index
    repeated = np.zeros(len(rows), dtype=np.bool_)

    def compare(other: Segment, mine: Positions, theirs: Positions) -> None:
        equal = same_keys(context.layout, fresh.rows, other.rows, mine, theirs)
        repeated[coded[mine[equal]]] = True

    twins = np.flatnonzero(index.codes[1:] == index.codes[:-1]) + 1
    compare(fresh, index.order[twins], index.order[twins - 1])
    window = context.state.windows[stream]
    for entry in window.entries:
        stored = window.open(entry)
        for mine, theirs in probe(fresh, stored, None, None).pieces(_PIECE):
            present = ~window.gone(entry)[theirs]
            compare(stored, mine[present], theirs[present])
    return repeated


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
