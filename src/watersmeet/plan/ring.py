"""From the arguments of a call to a planned ring join: spec, policy and predicates.

Every argument is checked here and nowhere else. What bounds the state is what bounds that of any
join: a row of stream i is useless as soon as ``watermark >= time + windows[i]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from watersmeet.errors import (
    BudgetError,
    JoinTypeError,
    PlanError,
    PunctuationError,
    StrategyError,
)
from watersmeet.plan.arguments import check_flag, one_of, refuse_tuning
from watersmeet.plan.backend import Backend
from watersmeet.plan.budget import checked_budget
from watersmeet.plan.event_time import check_hold, event_time_of, further_of
from watersmeet.plan.join import (
    JoinPlan,
    all_of,
    check_may_be_unbounded,
    join_name,
    join_type,
    window_lengths,
)
from watersmeet.plan.naming import result_columns
from watersmeet.plan.policy import ring_policy
from watersmeet.plan.streams import check_streams, with_time
from watersmeet.plan.where.matching import Matching
from watersmeet.rows.conditions import Conditions
from watersmeet.spec.budget import Budget
from watersmeet.spec.join import GOALS
from watersmeet.spec.policy import RingPolicy
from watersmeet.spec.ring import MOST_RING_STREAMS, RING_JOIN_TYPES, RingSpec
from watersmeet.spec.stream import StreamSpec
from watersmeet.spec.tuning import Tuning


@dataclass(frozen=True)
class RingPlan(JoinPlan):
    """A planned ring join. Each of its ``conditions`` compares rows of some of the streams."""

    spec: RingSpec
    policy: RingPolicy
    conditions: Conditions = Conditions()  # noqa: RUF009

    @property
    def unconnected(self) -> str | None:
        """What is to be said of streams that no condition compares with another one, if there are
        any: a key may have been forgotten. (Not where times alone are compared.)"""
        together = [streams for streams in self.conditions.streams if len(streams) > 1]
        connected = frozenset[int]().union(*together)
        alone = [stream.name for i, stream in enumerate(self.spec.streams) if i not in connected]
        if not alone or not self.conditions.streams:
            return None
        return (
            f"no condition compares {' or '.join(alone)} with another stream, so all rows match "
            "that are close enough in time. Is a key missing? Then give on=..."
        )


def ring_spec(
    streams: Sequence[StreamSpec],
    *,
    conditions: Sequence[str],
    within: object = None,
    how: str = "inner",
    name: str | None = None,
    goal: str = "throughput",
    budget: Budget | None = None,
    unbounded: bool = False,
    violations: str = "fail",
    emit_punctuations: bool = False,
    tuning: Tuning | None = None,
    event_time: str | None = None,
    hold: object = None,
    unlimited: Sequence[str] = (),
) -> RingSpec:
    """The spec of a join without a key; or what is wrong with the call. ``conditions`` are what
    must hold, for people to read; ``unlimited`` are the differences of times that ``where`` should
    have limited for there to be windows."""
    check_streams(streams)
    streams = tuple(with_time(stream) for stream in streams)
    how = _checked_type(join_type(how), streams)
    _check_promises(streams, violations, emit_punctuations)
    windows = window_lengths(streams, within)
    check_flag(unbounded, argument="unbounded")
    free = streams[0].streaming and any(window is None for window in windows)
    if free:
        check_may_be_unbounded(how, unbounded, unlimited)
    spec = RingSpec(
        name=join_name(name, how, streams),
        streams=streams,
        windows=windows,
        how=how,
        where=all_of(conditions),
        unbounded=free,
        output=(),
        budget=_checked_budget(streams, budget, how),
        goal=one_of(goal, GOALS, argument="goal"),
        conditions=tuple(conditions),
        tuning=_checked_tuning(streams, tuning),
        event_time=event_time_of(streams, how, event_time),
        further=further_of(hold),
    )
    check_hold(spec)
    return replace(spec, output=result_columns(spec))


def plan_join(
    streams: Sequence[StreamSpec], backend: Backend, matching: Matching, **options: Any
) -> RingPlan:
    """Plan a join for a backend, given what must match; ``options`` are the other arguments of
    :func:`ring_spec`."""
    conditions = Conditions.of(matching.terms, matching.functions)
    predicates = (*(term.predicate for term in matching.terms), *matching.functions)
    spec = ring_spec(
        streams,
        conditions=list(dict.fromkeys(predicate.text for predicate in predicates)),
        within=matching.within,
        unlimited=matching.unlimited,
        **options,
    )
    weights = backend.slice_weights()
    policy = ring_policy(
        spec, conditions, shards=backend.shards, cores=backend.cores, weights=weights
    )
    return RingPlan(spec, policy, None, matching.reading, conditions)


def _checked_type(how: str, streams: Sequence[StreamSpec]) -> str:
    count = len(streams)
    if count > MOST_RING_STREAMS:
        raise PlanError(
            f"streams: a join without a key takes at most {MOST_RING_STREAMS}; {count} given. Give "
            "on=..., if some columns must be equal, or join fewer at a time."
        )
    if count > 2 and how != "inner":
        raise JoinTypeError(
            f"how={how!r} is for two streams; a join of {count} without a key is inner. Join two "
            "of them first."
        )
    if how not in RING_JOIN_TYPES:
        raise JoinTypeError(
            f"how={how!r} needs a key: give on=..., or one of {', '.join(RING_JOIN_TYPES)}. (The "
            "union of a left join and of an anti join with the streams swapped has the same rows.)"
        )
    return how


def _check_promises(
    streams: Sequence[StreamSpec], violations: object, emit_punctuations: object
) -> None:
    for stream in streams:
        if stream.closes:
            raise PunctuationError(
                f"stream {stream.name!r}: unique, arrival and punctuation are about the key, and "
                "this join has none. Give on=..., or leave them out."
            )
    if emit_punctuations is not False or violations != "fail":
        raise PunctuationError(
            "violations and emit_punctuations are about the key, and this join has none. Give "
            "on=..., or leave them out."
        )


def _checked_budget(
    streams: Sequence[StreamSpec], budget: Budget | None, how: str
) -> Budget | None:
    checked = checked_budget(streams, budget, how=how, windowed=True)
    if checked is None:
        return None
    if checked.rate is not None or (checked.overflow == "shed" and checked.memory is not None):
        raise BudgetError(
            "budget: a join without a key sheds only what exceeds fanout. For memory, give "
            "overflow='spill' or 'fail'; for a rate, slow the source: maxFilesPerTrigger, "
            "maxOffsetsPerTrigger."
        )
    return checked


def _checked_tuning(streams: Sequence[StreamSpec], tuning: object) -> Tuning:
    if tuning is None:
        return Tuning()
    if not isinstance(tuning, Tuning):
        raise StrategyError(f"tuning={tuning!r} is not a wm.Tuning: give wm.Tuning(slices=4, ...).")
    with_key = "index", "invalidation", "driver", "purge_after"
    refuse_tuning(tuning, *with_key, because="joins with a key")
    for name in ("slices", "draining"):
        value = getattr(tuning, name)
        if name == "slices" and value == "auto":
            continue
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise StrategyError(f"tuning: {name}={value!r} is not a whole number.")
        if value is not None and value < 1:
            raise StrategyError(f"tuning: {name}={value!r} must be at least 1.")
    _check_order(streams, tuning.order)
    return tuning


def _check_order(streams: Sequence[StreamSpec], order: object) -> None:
    if order is None:
        return
    names = [stream.name for stream in streams]
    given = list(order) if isinstance(order, Sequence) and not isinstance(order, str) else None
    if given is None or sorted(map(str, given)) != sorted(names):
        raise StrategyError(
            f"tuning: order={order!r} must name every stream once: {', '.join(names)}, in the "
            "order in which their rows are to be met."
        )
    if len(names) == 2:
        raise StrategyError(
            f"tuning: order={order!r} is for three and more streams; of two, each meets the other."
        )
