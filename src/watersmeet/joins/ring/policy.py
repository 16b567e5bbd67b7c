"""How a join without a key runs: over how many slices, in which order of hops.

A policy is made once, when a join is planned. The operators follow it, ``explain`` prints it, and
nothing computes it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from watersmeet.conditions.conjunction import Conditions
from watersmeet.conditions.predicate import FunctionPredicate
from watersmeet.cost.hop_order import UNKNOWN_SELECTIVITY, Link, Streams
from watersmeet.cost.slices import SliceModel, SliceWeights, compare_seconds
from watersmeet.errors import StrategyError
from watersmeet.joins.policy import BudgetedPolicy
from watersmeet.joins.ring.spec import RingSpec
from watersmeet.spec.budget import shard_budget

#: The assumed rows a second of a stream without a declared rate.
UNKNOWN_RATE = 1_000.0
#: The assumed bytes of a value: of these types, which have a fixed length, and of others.
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
#: How many seconds of rows are assumed to be stored, where nothing removes them.
_UNBOUNDED_SECONDS = 3600.0


@dataclass(frozen=True)
class ExpectedSlices:
    """What the cost model says about the number of slices. ``best`` is the best one for the goal.
    ``curve`` has, for numbers around it, (slices, output, latency): how many times the output of
    one slice, and the seconds from a new row to its results. It is assumed that ``comparing`` a
    pair and ``sending`` a row of ``row_bytes`` to one slice take so many seconds. A slice never
    waits if it receives ``bandwidth`` bytes a second; None where rows are searched. The ``weights``
    are for the same model while the join runs."""

    best: int
    curve: tuple[tuple[int, float, float], ...]
    comparing: float
    sending: float
    row_bytes: float
    bandwidth: float | None
    weights: SliceWeights


@dataclass(frozen=True)
class RingPolicy(BudgetedPolicy):
    """How a join without a key runs.

    New rows are stored in the first ``slices`` shards, and probe the first ``reach``: an earlier
    run may have had more slices. ``everywhere``: every shard has a slice, however many shards there
    are; otherwise these numbers were asked for. ``order`` is that of the hops: hop j stores the
    rows of stream ``order[j]``, and is expected to make ``partial[j]`` partial results a second.
    ``cross_products`` are drivers that meet a stream without a condition that connects them:
    driver, stream, pairs a second. The number of slices serves the ``goal``.
    """

    slices: int
    reach: int
    order: tuple[int, ...]
    partial: tuple[float, ...] = ()
    cross_products: tuple[tuple[int, int, float], ...] = ()
    expected_slices: ExpectedSlices | None = None
    goal: str = "throughput"
    everywhere: bool = False

    def on(self, shards: int, *, reach: int = 0) -> RingPolicy:
        """The same, on another number of shards. New rows reach at least ``reach`` of them."""
        reach = shards if self.everywhere else min(max(self.reach, reach), shards)
        return replace(
            self,
            shards=shards,
            slices=shards if self.everywhere else min(self.slices, shards),
            reach=reach,
            budget=None if self.budget is None else self.budget.shared(self.reach, reach),
        )

    @property
    def dealt(self) -> int | None:
        """How many shards new rows are dealt to; None: all."""
        return None if self.everywhere else self.slices

    @property
    def reached(self) -> int | None:
        """How many shards are probed; None: all."""
        return None if self.everywhere else self.reach


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
        comparing=compare_seconds(weights.compare / 1e9, costs, searched=len(conditions.overlaps)),
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
        cross_products=tuple((c.driver, c.stream, c.pairs) for c in streams.cross_products(order)),
        budget=None if spec.budget is None else shard_budget(spec.budget, reach * hops),
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
    """Is everything declared that the model of slices needs? If not, the model has to guess."""
    functions = [each for each in conditions.predicates if isinstance(each, FunctionPredicate)]
    return all(stream.rows_per_second is not None for stream in spec.streams) and all(
        function.cost is not None for function in functions
    )


def _row_bytes(spec: RingSpec) -> float:
    """The assumed bytes of a row that is sent, on average."""
    columns = [column for stream in spec.streams for column in stream.columns]
    fixed = sum(c.type.startswith(FIXED_TYPES) for c in columns)
    total = fixed * FIXED_BYTES + (len(columns) - fixed) * VARYING_BYTES
    return total / len(spec.streams)


def _expected_slices(
    model: SliceModel, weights: SliceWeights, best: int, shards: int, *, bandwidth: float | None
) -> ExpectedSlices:
    """What the model says about numbers of slices around the best one."""
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
    """The rates, stored rows and conditions that are expected, by what was declared."""
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
