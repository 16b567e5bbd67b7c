"""From the arguments of a call to a planned ring join: spec, policy and predicates.

Every argument is checked here and nowhere else. The state is bounded as in any join: a row of
stream i is useless as soon as ``watermark >= time + windows[i]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.conditions.conjunction import Conditions
from watersmeet.errors import (
    BudgetError,
    JoinTypeError,
    PlanError,
    PunctuationError,
    StrategyError,
)
from watersmeet.joins.chain import Chain
from watersmeet.joins.family import JoinPlan
from watersmeet.joins.ring.chain import chain_of
from watersmeet.joins.ring.explain import branches
from watersmeet.joins.ring.layout import lay_out
from watersmeet.joins.ring.policy import RingPolicy, ring_policy
from watersmeet.joins.ring.spec import MOST_RING_STREAMS, RING_JOIN_TYPES, RING_NAMES, RingSpec
from watersmeet.plan.arguments import check_flag, one_of, refuse_tuning
from watersmeet.plan.backend import Backend
from watersmeet.plan.budget import checked_budget
from watersmeet.plan.call import JoinCall
from watersmeet.plan.event_time import check_hold, event_time_of, further_of, lacking_times
from watersmeet.plan.explain.shared import unbounded
from watersmeet.plan.explain.tree import Node
from watersmeet.plan.join_arguments import (
    all_of,
    check_may_be_unbounded,
    join_name,
    join_type,
    window_lengths,
)
from watersmeet.plan.naming import result_columns
from watersmeet.plan.streams import check_streams, with_time
from watersmeet.plan.where.matching import Matching
from watersmeet.spec.budget import Budget
from watersmeet.spec.join_type import INNER, JoinType
from watersmeet.spec.stream import StreamSpec
from watersmeet.spec.tuning import Tuning
from watersmeet.spec.windowed import GOALS


@dataclass(frozen=True)
class RingPlan(JoinPlan):
    """A planned ring join. Each of its ``conditions`` compares rows of some of the streams."""

    spec: RingSpec
    policy: RingPolicy
    conditions: Conditions = Conditions()  # noqa: RUF009

    def chain(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> Chain:
        layout = lay_out(self.spec, self.policy, self.conditions, schemas=schemas, output=output)
        return chain_of(self.spec, layout)

    def branches(self) -> list[Node]:
        return branches(self)

    def headlines(self) -> list[str]:
        return unbounded(self.spec)

    def warnings(self) -> list[str]:
        alone = [] if self.unconnected is None else [self.unconnected]
        return [*super().warnings(), *lacking_times(self.spec), *alone]

    @property
    def unconnected(self) -> str | None:
        """A warning about streams that no condition compares with another one, if there are any:
        perhaps a key was forgotten. (If only times are compared, there is none.)"""
        together = [streams for streams in self.conditions.streams if len(streams) > 1]
        connected = frozenset[int]().union(*together)
        alone = [stream.name for i, stream in enumerate(self.spec.streams) if i not in connected]
        if not alone or not self.conditions.streams:
            return None
        close = " that are close enough in time" if any(self.spec.windows) else ""
        return (
            f"no condition compares {' or '.join(alone)} with another stream, so all rows match"
            f"{close}. Is a key missing? Then give on=..."
        )


def ring_spec(
    streams: Sequence[StreamSpec],
    asked: JoinCall,
    *,
    conditions: Sequence[str],
    unlimited: Sequence[str] = (),
) -> RingSpec:
    """The spec of a join without a key; or what is wrong with the call. ``conditions`` are texts
    for people to read; ``unlimited`` are the differences of times that ``where`` should have
    limited, so that there could be windows."""
    check_streams(streams)
    streams = tuple(with_time(stream) for stream in streams)
    how = _checked_type(join_type(asked.how), streams)
    _check_promises(streams, asked.violations, asked.emit_punctuations)
    windows = window_lengths(streams, asked.within)
    check_flag(asked.unbounded, argument="unbounded")
    free = streams[0].streaming and any(window is None for window in windows)
    if free:
        check_may_be_unbounded(how, asked.unbounded, unlimited)
    spec = RingSpec(
        name=join_name(asked.name, how, streams),
        streams=streams,
        keys=((),) * len(streams),
        windows=windows,
        how=how,
        where=all_of(conditions),
        unbounded=free,
        output=(),
        budget=_checked_budget(streams, asked.budget, how),
        goal=one_of(asked.goal, GOALS, argument="goal"),
        conditions=tuple(conditions),
        tuning=_checked_tuning(streams, asked.tuning),
        event_time=event_time_of(streams, how, asked.event_time),
        further=further_of(asked.hold),
    )
    check_hold(spec)
    return replace(spec, output=result_columns(spec))


def plan_join(
    streams: Sequence[StreamSpec], backend: Backend, asked: JoinCall, matching: Matching
) -> RingPlan:
    """Plan a join for a backend, given what must match."""
    conditions = Conditions.of(matching.terms, matching.functions)
    predicates = (*(term.predicate for term in matching.terms), *matching.functions)
    spec = ring_spec(
        streams,
        replace(asked, within=matching.within),
        conditions=list(dict.fromkeys(predicate.text for predicate in predicates)),
        unlimited=matching.unlimited,
    )
    weights = backend.slice_weights()
    policy = ring_policy(
        spec, conditions, shards=backend.shards, cores=backend.cores, weights=weights
    )
    return RingPlan(spec, policy, None, matching.reading, conditions)


def _checked_type(how: JoinType, streams: Sequence[StreamSpec]) -> JoinType:
    count = len(streams)
    if count > MOST_RING_STREAMS:
        raise PlanError(
            f"streams: a join without a key takes at most {MOST_RING_STREAMS}; {count} given. Give "
            "on=..., if some columns must be equal, or join fewer at a time."
        )
    if count > 2 and how != INNER:
        raise JoinTypeError(
            f"how={how.name!r} is for two streams; a join of {count} without a key is inner. Join "
            "two of them first."
        )
    if how not in RING_JOIN_TYPES:
        raise JoinTypeError(
            f"how={how.name!r} needs a key: give on=..., or one of {', '.join(RING_NAMES)}. (The "
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


def _checked_budget(streams: Sequence[StreamSpec], budget: object, how: JoinType) -> Budget | None:
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
