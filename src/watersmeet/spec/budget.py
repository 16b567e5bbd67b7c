"""Budgets: what a join may use, and each shard's part of it."""

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
    """One shard's part of a budget. ``memory`` is in bytes, ``rate`` in rows a second. If the rate
    is to be measured, ``speed`` is the shard's part of a core's time. ``fanout`` is how many
    results one new row may make."""

    overflow: str
    memory: int | None = None
    rate: float | None = None
    speed: float | None = None
    fanout: int | None = None

    def shared(self, before: int, now: int) -> ShardBudget:
        """A shard's part, if the budget is divided between ``now`` shards, not ``before``."""
        ratio = before / now
        return replace(
            self,
            memory=None if self.memory is None else self.memory * before // now,
            rate=None if self.rate is None else self.rate * ratio,
            speed=None if self.speed is None else min(1.0, self.speed * ratio),
        )


def shard_budget(budget: Budget, shards: int, cores: int | None) -> ShardBudget:
    """One shard's part of the query's budget: shards are alike, and may all be at work at once."""
    measured = budget.rate == "measured"
    return ShardBudget(
        overflow=budget.overflow,
        memory=None if budget.memory is None else int(budget.memory) // shards,
        rate=None if budget.rate is None or measured else float(budget.rate) / shards,
        speed=min(1.0, (cores or shards) / shards) if measured else None,
        fanout=budget.fanout,
    )
