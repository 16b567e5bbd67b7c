"""Budgets: what a join may use, as the user says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

#: What may happen when a budget is too small.
Overflow = Literal["spill", "shed", "fail"]
OVERFLOWS: tuple[str, ...] = get_args(Overflow)


@dataclass(frozen=True)
class Budget:
    """What a join may use, for the whole query.

    Parameters
    ----------
    memory
        For the state: a size like ``"2 GB"``, or bytes, of which a million is the least.
    rate
        Rows a second that can be served, of all streams together; or ``"measured"``:
        as many as the join turns out to manage.
    fanout
        Results that one new row may make. Of a join without a key: rows that a new row, or a
        partial result, may match in one slice of one hop. Semi and anti joins give a row once
        at most: there it limits nothing.
    overflow
        What to do with more than that: ``"spill"`` (keep all; what does not fit into the
        memory is read from disk when it is probed), ``"shed"`` (drop rows, or keep
        them for less long, such that most results remain; leave out the results beyond
        ``fanout``) or ``"fail"``.
    """

    memory: str | int | None = None
    rate: float | str | None = None
    fanout: int | None = None
    overflow: Overflow = "spill"
