"""What goals, budgets, tuning and defaults come to: decided here, and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from watersmeet.cost.crowding import fitting_shards
from watersmeet.cost.engine import Weights, expected, keeping_indexed, keeping_plain
from watersmeet.cost.hop_order import UNKNOWN_SELECTIVITY, Link, Streams
from watersmeet.cost.multiway import most_selective_first
from watersmeet.cost.slices import SliceModel, comparing
from watersmeet.errors import StrategyError
from watersmeet.rows.conditions import Conditions
from watersmeet.rows.predicate import FunctionPredicate
from watersmeet.spec.budget import Budget
from watersmeet.spec.equi import EquiSpec
from watersmeet.spec.policy import (
    EquiPolicy,
    ExpectedSlices,
    IndexPolicy,
    RingPolicy,
    Schedule,
    ShardBudget,
    SliceWeights,
)
from watersmeet.spec.ring import RingSpec

#: For throughput, rows are purged after this number of punctuations (metadata paper, section 6.2).
PURGE_AFTER = 100

#: Which stream's new rows are processed first, for a goal (multiway paper, section 3.2). In the
#: paper's experiments and in ours, initial-output-size has given most results at half time.
DRIVER_FOR = {
    "throughput": "initial-output-size",
    "memory": "consumption-rate",
    "early": "initial-output-size",
}


def equi_policy(
    spec: EquiSpec, *, shards: int, cores: int | None, weights: Callable[[], Weights]
) -> EquiPolicy:
    """How an equality join runs on that many shards, of which ``cores`` are stepped side by
    side, or all, if that is not known; ``weights`` measures the machine, and is called only if
    something depends on it."""
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
    fitting = fitting_shards(shards, cores)
    if fitting is None:
        return None
    return (
        f"{shards} shards on {cores} core{'' if cores == 1 else 's'}: every micro-batch takes a "
        f"step of each, and an empty step takes time too. Before the first start, "
        f'spark.conf.set("spark.sql.shuffle.partitions", {fitting}) fits; a '
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


def _shard_budget(budget: Budget, shards: int, cores: int | None) -> ShardBudget:
    """What one shard may use of what the query may: shards are alike, and may all be
    at work at once."""
    measured = budget.rate == "measured"
    return ShardBudget(
        overflow=budget.overflow,
        memory=None if budget.memory is None else int(budget.memory) // shards,
        rate=None if budget.rate is None or measured else float(budget.rate) / shards,
        speed=min(1.0, (cores or shards) / shards) if measured else None,
        fanout=budget.fanout,
    )


def _in_stages(spec: EquiSpec) -> bool:
    """Is what is in memory probed first, and what is on disk later?"""
    if spec.budget is None or spec.budget.memory is None or len(spec.streams) != 2:
        return False
    return spec.goal == "early" and spec.budget.overflow == "spill"


#: The rows a second of a stream of which nothing is known yet.
UNKNOWN_RATE = 1_000.0
#: The bytes that a value is taken to have: of types of a fixed length, and of others.
FIXED_TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "date",
    "timestamp",
)
FIXED_BYTES = 8
VARYING_BYTES = 100
#: For how many seconds rows are taken to be kept that nothing removes.
_UNBOUNDED_SECONDS = 3600.0


def ring_policy(
    spec: RingSpec, conditions: Conditions, *, shards: int, cores: int | None, weights: SliceWeights
) -> RingPolicy:
    """How a join without a key runs on that many shards, of which ``cores`` are stepped side by
    side, on a machine with such weights."""
    streams = _expected_streams(spec, conditions)
    order = _hop_order(spec, streams)
    costs = [each.cost for each in conditions.predicates if each.cost is not None]
    model = SliceModel.of(
        streams,
        order,
        weights,
        comparing=comparing(weights.compare / 1e9, costs, searched=len(conditions.overlaps)),
        row_bytes=_row_bytes(spec),
    )
    best, asked = model.best(spec.goal, most=shards), spec.tuning.slices
    usual = model.usual(spec.goal, most=shards) if _all_declared(spec, conditions) else shards
    slices = best if asked == "auto" else _at_most(shards, asked, "slices") or usual
    reach = max(slices, _at_most(shards, spec.tuning.draining, "draining") or slices)
    hops = 1 if len(order) == 2 and spec.marked is None else len(order)
    return RingPolicy(
        shards,
        slices,
        reach,
        order,
        partial=streams.partial_results(order),
        expected_slices=_expected_slices(
            model,
            weights,
            best,
            shards,
            # Where rows are searched, most pairs are never compared, and equation 6 says nothing.
            bandwidth=None if conditions.overlaps else model.bandwidth(slices),
        ),
        goal=spec.goal,
        cross_products=tuple((c.driver, c.stream, c.pairs) for c in streams.crossings(order)),
        budget=None if spec.budget is None else _shard_budget(spec.budget, reach * hops, cores=1),
        cores=cores,
        everywhere=slices == shards and asked in (None, "auto"),
    )


def _at_most(shards: int, given: Any, name: str) -> int | None:
    if given is not None and given > shards:
        raise StrategyError(
            f"tuning: {name}={given} is more than spark.sql.shuffle.partitions, {shards}. Give at "
            "most that many, or set more partitions before the query's first start. (A checkpoint "
            "keeps the number that it was begun with: to go on with one of more, set as many here.)"
        )
    return None if given is None else int(given)


def _all_declared(spec: RingSpec, conditions: Conditions) -> bool:
    """Is everything declared that the model of slices needs? It goes by guesses otherwise."""
    functions = [each for each in conditions.predicates if isinstance(each, FunctionPredicate)]
    return all(stream.rows_per_second is not None for stream in spec.streams) and all(
        function.cost is not None for function in functions
    )


def _row_bytes(spec: RingSpec) -> float:
    """What a row takes when it is sent, on average."""
    columns = [column for stream in spec.streams for column in stream.columns]
    fixed = sum(c.type.startswith(FIXED_TYPES) for c in columns)
    total = fixed * FIXED_BYTES + (len(columns) - fixed) * VARYING_BYTES
    return total / len(spec.streams)


def _expected_slices(
    model: SliceModel, weights: SliceWeights, best: int, shards: int, *, bandwidth: float | None
) -> ExpectedSlices:
    """What the model says of numbers of slices around the best one."""
    around = {1, best // 2, best - 1, best, best + 1, 2 * best, shards}
    return ExpectedSlices(
        best,
        tuple(
            (slices, model.output(slices), model.latency(slices))
            for slices in sorted(around)
            if 1 <= slices <= shards
        ),
        comparing=model.times.T_j,
        sending=model.times.T_s,
        row_bytes=model.row_bytes,
        bandwidth=bandwidth,
        weights=weights,
    )


def _expected_streams(spec: RingSpec, conditions: Conditions) -> Streams:
    """What is expected of the streams, by what was declared."""
    rates = tuple(stream.rows_per_second or UNKNOWN_RATE for stream in spec.streams)
    seconds = [
        _UNBOUNDED_SECONDS if window is None else (window + spec.delay) / 1e6
        for window in spec.windows
    ]
    stored = tuple(max(1.0, rate * kept) for rate, kept in zip(rates, seconds, strict=True))
    shares = conditions.shares(UNKNOWN_SELECTIVITY)
    links = (Link(*each) for each in zip(conditions.streams, shares, strict=True))
    return Streams(rates, stored, tuple(links))


def _hop_order(spec: RingSpec, streams: Streams) -> tuple[int, ...]:
    """The order of the hops. Where rows are marked, they are in the last one."""
    names = [stream.name for stream in spec.streams]
    if spec.marked is not None:
        return 1 - spec.marked, spec.marked
    if spec.tuning.order is not None:
        return tuple(names.index(name) for name in spec.tuning.order)
    return streams.best_order() if len(names) > 2 else (0, 1)
