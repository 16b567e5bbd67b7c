"""How an equality join runs: the choices that follow from goals, budgets, tuning and defaults.

A policy is made once, when a join is planned. The operator follows it, ``explain`` prints it, and
nothing computes it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from watersmeet import sizes
from watersmeet.cost.engine import Weights, expected_directions, indexed_cost, plain_cost
from watersmeet.cost.multiway import most_selective_first
from watersmeet.cost.window import shares
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.joins.policy import BudgetedPolicy
from watersmeet.spec.budget import shard_budget

#: For throughput, rows are purged after this number of punctuations (metadata paper, section 6.2).
PURGE_AFTER = 100

#: A step with less memory is cut into pieces so small that it takes many times longer.
LEAST_MEMORY = 1_000_000

#: Which stream's new rows are processed first, for a goal (multiway paper, section 3.2). In the
#: paper's experiments and in ours, initial-output-size has given most results at half time.
DRIVER_FOR = {
    "throughput": "initial-output-size",
    "memory": "consumption-rate",
    "early": "initial-output-size",
}


@dataclass(frozen=True)
class IndexPolicy:
    """How a window is stored: with an index at first or without, and whether that may change
    with what is measured. ``why`` says what it was decided by."""

    indexed: bool
    adaptive: bool
    why: str = ""


@dataclass(frozen=True)
class Schedule:
    """In which order new rows are processed. ``streams`` is the order of the streams:
    ``"priority"`` (those with unique keys first), or a driver policy. ``rows`` is the order within
    a stream: ``"sequential"`` (as they came), or ``"value"`` (first those with a key that a
    punctuation is about)."""

    streams: str = "priority"
    rows: str = "sequential"


@dataclass(frozen=True)
class EquiPolicy(BudgetedPolicy):
    """How an equality join runs.

    ``index[i]`` and ``invalidation`` say how windows are stored and when expired rows leave.
    ``purge_after`` is the number of punctuations after which rows with closed keys are purged.
    ``schedule`` is the order in which new rows are processed. In the order ``probe_orders[i]`` new
    rows of stream i probe the other windows, until match rates are measured. ``in_stages``:
    segments in memory are probed first, those on disk later.
    """

    index: tuple[IndexPolicy, ...]
    invalidation: str
    purge_after: int
    schedule: Schedule
    probe_orders: tuple[tuple[int, ...], ...]
    in_stages: bool = False

    @property
    def side_by_side(self) -> int:
        """How many shards are stepped at the same time."""
        return _side_by_side(self.shards, self.cores)

    @property
    def too_little_memory(self) -> str | None:
        """What is wrong with a budget of memory that no join can work with, and what is right."""
        least = LEAST_MEMORY * self.side_by_side
        if self.budget is None or self.budget.total is None or self.budget.total >= least:
            return None
        many = self.side_by_side > 1
        steps = f"each of {self.side_by_side} shards at work" if many else "a shard at work"
        return (
            f"budget: memory of {sizes.format(self.budget.total)} is too little to work with: "
            f"{steps} needs about {sizes.format(LEAST_MEMORY)}, or its work is cut so small that "
            f"it takes many times longer. Give at least memory={sizes.format(least)!r}"
        )

    @property
    def expects(self) -> bool:
        """Must each shard know what all of them get?"""
        return self.budget is not None and (self.budget.sheds_new or self.budget.bounds_state)

    def on(self, shards: int) -> EquiPolicy:
        """The same, on another number of shards: they share the query's budget. (What the rates
        suggested for a window at first stays: it changes with what is measured.)"""
        now = replace(self, shards=shards)
        if self.budget is None:
            return now
        return replace(now, budget=self.budget.shared(self.side_by_side, now.side_by_side))


def equi_policy(
    spec: EquiSpec, *, shards: int, cores: int | None, weights: Callable[[], Weights]
) -> EquiPolicy:
    """How an equality join runs on that many shards, of which ``cores`` are stepped side by side;
    None: all of them. ``weights`` measures the machine, and is called only if something depends on
    it."""
    return EquiPolicy(
        shards=shards,
        index=_index(spec, shards, weights),
        invalidation=spec.tuning.invalidation,
        purge_after=spec.tuning.purge_after or (PURGE_AFTER if spec.goal == "throughput" else 1),
        schedule=Schedule(
            streams=_driver(spec), rows="value" if spec.goal == "early" else "sequential"
        ),
        probe_orders=_probe_orders(spec),
        budget=None
        if spec.budget is None
        else shard_budget(spec.budget, _side_by_side(shards, cores)),
        in_stages=_in_stages(spec),
        cores=cores,
    )


def _side_by_side(shards: int, cores: int | None) -> int:
    return min(shards, cores or shards)


def _served_rates(spec: EquiSpec) -> list[float | None]:
    """The declared rates, as they are once a budget has shed what is too much of them: by these
    the algorithm is chosen (window paper, section 4.2)."""
    declared = [stream.rows_per_second for stream in spec.streams]
    served = None if spec.budget is None else spec.budget.rate
    if not isinstance(served, int | float) or len(declared) != 2:
        return declared
    first, second = declared
    return declared if first is None or second is None else [*shares(first, second, served)]


def _index(spec: EquiSpec, shards: int, weights: Callable[[], Weights]) -> tuple[IndexPolicy, ...]:
    """How each window is stored, and why."""
    rates = _served_rates(spec)
    keys = [stream.distinct_keys for stream in spec.streams]
    directions = expected_directions(
        [None if rate is None else rate / shards for rate in rates],
        [None if count is None else count / shards for count in keys],
        [None if kept is None else (kept + spec.delay) / 1e6 for kept in spec.kept],
    )
    policies = []
    for stream, direction in zip(spec.streams, directions, strict=True):
        index = spec.tuning.index
        asked = index[stream.name] if isinstance(index, Mapping) else index
        if asked != "auto":
            policies.append(IndexPolicy(indexed=asked == "always", adaptive=False))
        elif direction is None or not spec.streaming:
            policies.append(IndexPolicy(indexed=True, adaptive=spec.streaming))
        else:
            with_index = indexed_cost(direction, weights())
            plain = plain_cost(direction, weights())
            why = (
                f"{with_index / 1e6:.2f} ms a micro-batch with an index, {plain / 1e6:.2f} ms "
                f"plain, in each shard, for {direction} (declared rates, micro-batches of a second)"
            )
            policies.append(IndexPolicy(with_index <= plain, adaptive=True, why=why))
    return tuple(policies)


def _driver(spec: EquiSpec) -> str:
    """In which order the streams' new rows are processed."""
    if spec.tuning.driver != "auto":
        return spec.tuning.driver
    return "priority" if len(spec.streams) == 2 else DRIVER_FOR[spec.goal]


def _probe_orders(spec: EquiSpec) -> tuple[tuple[int, ...], ...]:
    """The order in which each stream's new rows probe the other windows at first: by the declared
    rates and numbers of keys."""
    rows_per_key = [
        math.inf
        if stream.rows_per_second is None or kept is None
        else stream.rows_per_second * kept / 1e6 / (stream.distinct_keys or 1.0)
        for stream, kept in zip(spec.streams, spec.kept, strict=True)
    ]
    match_rates = [1.0 - math.exp(-rows) for rows in rows_per_key]
    through = 0 if spec.how.star else None
    return tuple(
        tuple(most_selective_first(driver, match_rates, through=through))
        for driver in range(len(spec.streams))
    )


def _in_stages(spec: EquiSpec) -> bool:
    """Are segments in memory probed first, and those on disk later?"""
    if spec.budget is None or spec.budget.memory is None or len(spec.streams) != 2:
        return False
    return spec.goal == "early" and spec.budget.overflow == "spill"
