"""Budgets: what a join may use, and how shards share it."""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class ShardBudget:
    """A budget, as a shard knows it. ``memory`` is what a step may take: the shards that are
    stepped side by side share the query's. ``total`` is the bytes of the query's memory, for the
    state of all shards. ``rate`` is in rows a second, of all shards together; ``measured``: it is
    what the join turns out to manage. ``fanout`` is how many results one new row may make."""

    overflow: str
    memory: int | None = None
    total: int | None = None
    rate: float | None = None
    measured: bool = False
    fanout: int | None = None

    @property
    def sheds_new(self) -> bool:
        """May new rows be shed, because they come too fast?"""
        return self.rate is not None or self.measured

    @property
    def bounds_state(self) -> bool:
        """Is the state itself limited, and not just what of it is in memory?"""
        return self.total is not None and self.overflow != "spill"

    def shared(self, before: int, now: int) -> ShardBudget:
        """The same, if ``now`` that many steps share what was divided by ``before``."""
        memory = None if self.memory is None else self.memory * before // now
        return replace(self, memory=memory)


def shard_budget(budget: Budget, parts: int) -> ShardBudget:
    """A budget whose memory is shared by so many steps."""
    measured = budget.rate == "measured"
    total = None if budget.memory is None else int(budget.memory)
    return ShardBudget(
        overflow=budget.overflow,
        memory=None if total is None else total // parts,
        total=total,
        rate=None if budget.rate is None or measured else float(budget.rate),
        measured=measured,
        fanout=budget.fanout,
    )
