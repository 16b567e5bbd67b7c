"""Policies: what goals, budgets, tuning and defaults come to, for one run.

A policy is resolved once, when a join is planned (:mod:`watersmeet.plan.policy`). The operator
follows it, ``explain`` prints it, and nothing works it out again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ShardBudget:
    """One shard's part of a budget: bytes of ``memory``, ``rate`` in rows a second, or
    its ``speed``: the part of a core's time that it has, if the rate is to be measured;
    ``fanout``, the results that one new row may make."""

    overflow: str
    memory: int | None = None
    rate: float | None = None
    speed: float | None = None
    fanout: int | None = None

    def shared(self, before: int, now: int) -> ShardBudget:
        """A shard's part, if ``now`` that many shards share what was divided by ``before``."""
        ratio = before / now
        return replace(
            self,
            memory=None if self.memory is None else self.memory * before // now,
            rate=None if self.rate is None else self.rate * ratio,
            speed=None if self.speed is None else min(1.0, self.speed * ratio),
        )


@dataclass(frozen=True)
class IndexPolicy:
    """How a window is stored: with an index at first or without, and whether that may change
    with what is measured. ``why`` says what it was decided by."""

    indexed: bool
    adaptive: bool
    why: str = ""


@dataclass(frozen=True)
class Schedule:
    """In which order new rows are processed: ``streams`` orders the streams, ``rows`` those of a
    stream: as they came, or by ``value``, those first that a punctuation is about. ``quota``
    limits the rows of a stream that are processed in a row; None: all there are."""

    streams: str = "priority"
    rows: str = "sequential"
    quota: int | None = None


@dataclass(frozen=True)
class EquiPolicy:
    """How an equality join runs.

    ``shards`` is the number of parts that are stepped on their own, ``cores`` of them side by side.
    ``index[i]`` and
    ``invalidation`` say how windows are stored and when expired rows leave; ``purge_after`` is
    the number of punctuations after which rows with closed keys are purged; ``schedule`` is the
    order in which new rows are processed, and ``probe_orders[i]`` that in which those of stream i
    probe the other windows until something is measured. ``in_stages``: what is in memory is
    probed first, what is on disk later.
    """

    shards: int
    index: tuple[IndexPolicy, ...]
    invalidation: str
    purge_after: int
    schedule: Schedule
    probe_orders: tuple[tuple[int, ...], ...]
    budget: ShardBudget | None = None
    in_stages: bool = False
    cores: int | None = None

    def on(self, shards: int) -> EquiPolicy:
        """The same, on another number of shards: they share the query's budget. (What the rates
        suggested for a window at first stays: it changes with what is measured.)"""
        budget = None if self.budget is None else self.budget.shared(self.shards, shards)
        return replace(self, shards=shards, budget=budget)

    @property
    def memory(self) -> int | None:
        """The bytes that a shard may take, if a budget says so."""
        return None if self.budget is None else self.budget.memory
