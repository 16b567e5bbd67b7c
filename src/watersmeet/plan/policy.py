"""What goals, budgets, tuning and defaults come to: decided here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from watersmeet.cost.engine import Weights, expected, keeping_indexed, keeping_plain
from watersmeet.cost.multiway import most_selective_first
from watersmeet.spec.budget import Budget
from watersmeet.spec.equi import EquiSpec
from watersmeet.spec.policy import EquiPolicy, IndexPolicy, Schedule, ShardBudget

#: For throughput, rows are purged after this number of punctuations (metadata paper, section 6.2).
PURGE_AFTER = 100

#: More shards than this for each core are called too many: some are useful, for a cluster to grow.
MOST_SHARDS_A_CORE = 8

#: Which stream's new rows are processed first, for a goal (multiway paper, section 3.2). In the
#: paper's experiments and in ours, initial-output-size has given most results at half time.
DRIVER_FOR = {
    "throughput": "initial-output-size",
    "memory": "consumption-rate",
    "early": "initial-output-size",
}


def equi_policy(
    spec: EquiSpec, *, shards: int, cores: int, weights: Callable[[], Weights]
) -> EquiPolicy:
    """How an equality join runs on that many shards, of which ``cores`` are stepped side by
    side; ``weights`` measures the machine, and is called only if something depends on it."""
    return EquiPolicy(
        shards=shards,
        index=_index(spec, shards, weights),
        invalidation=spec.tuning.invalidation,
        purge_after=spec.tuning.purge_after or (PURGE_AFTER if spec.goal == "throughput" else 1),
        schedule=Schedule(
            streams=_driver(spec), rows="value" if spec.goal == "early" else "sequential"
        ),
        probe_orders=_probe_orders(spec),
        budget=None if spec.budget is None else _shard_budget(spec.budget, shards, cores),
        in_stages=_in_stages(spec),
        cores=cores,
    )


def crowding(shards: int, cores: int | None) -> str | None:
    """What is wrong with that many shards on that many cores, if they are far too many."""
    if cores is None or shards <= MOST_SHARDS_A_CORE * cores:
        return None
    fitting = max(2, cores)
    return (
        f"{shards} shards on {cores} core{'' if cores == 1 else 's'}: every micro-batch takes a "
        f"step of each, and an empty step takes time too. Before the first start, "
        f'spark.conf.set("spark.sql.shuffle.partitions", {fitting}) fits this machine; a '
        "checkpoint keeps the number that it was begun with"
    )


def _index(spec: EquiSpec, shards: int, weights: Callable[[], Weights]) -> tuple[IndexPolicy, ...]:
    """How each window is stored, and why."""
    rates = [stream.rows_per_second for stream in spec.streams]
    keys = [stream.distinct_keys for stream in spec.streams]
    directions = expected(
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
            with_index = keeping_indexed(direction, weights())
            plain = keeping_plain(direction, weights())
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
    """The order in which each stream's new rows probe the other windows at first: by what was
    declared of rates and keys."""
    rows_per_key = [
        math.inf
        if stream.rows_per_second is None or kept is None
        else stream.rows_per_second * kept / 1e6 / (stream.distinct_keys or 1.0)
        for stream, kept in zip(spec.streams, spec.kept, strict=True)
    ]
    match_rates = [1.0 - math.exp(-rows) for rows in rows_per_key]
    through = 0 if spec.how == "left" else None
    return tuple(
        tuple(most_selective_first(driver, match_rates, through=through))
        for driver in range(len(spec.streams))
    )


def _shard_budget(budget: Budget, shards: int, cores: int) -> ShardBudget:
    """What one shard may use of what the query may: shards are alike, and may all be
    at work at once."""
    measured = budget.rate == "measured"
    return ShardBudget(
        overflow=budget.overflow,
        memory=None if budget.memory is None else int(budget.memory) // shards,
        rate=None if budget.rate is None or measured else float(budget.rate) / shards,
        speed=min(1.0, cores / shards) if measured else None,
        fanout=budget.fanout,
    )


def _in_stages(spec: EquiSpec) -> bool:
    """Is what is in memory probed first, and what is on disk later?"""
    if spec.budget is None or spec.budget.memory is None or len(spec.streams) != 2:
        return False
    return spec.goal == "early" and spec.budget.overflow == "spill"
