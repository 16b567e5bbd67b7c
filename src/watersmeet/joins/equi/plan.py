"""From the arguments of a call to a planned equality join: spec, policy and predicate.

Every argument is checked here and nowhere else, in this order: the streams by themselves,
the join type, the keys, the windows, what bounds the state, the condition, the result's names. A
condition in SQL is read before, because keys and windows may be in it.

What bounds the state. A row of stream i can match only rows whose time is at most its own plus
``windows[i]``, and rows behind the watermark are dropped as they arrive. So it is useless, and
if it has matched nothing so far it is proven unmatched, as soon as::

    watermark >= time + windows[i]

Without ``within`` that never happens: no row leaves, and no row is ever proven unmatched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.errors import JoinTypeError, PunctuationError, StrategyError
from watersmeet.joins.chain import Chain
from watersmeet.joins.equi.chain import chain_of
from watersmeet.joins.equi.explain import branches
from watersmeet.joins.equi.layout import lay_out
from watersmeet.joins.equi.policy import EquiPolicy, equi_policy
from watersmeet.joins.equi.promises.checks import (
    check_ends,
    check_promises,
    check_provable,
    check_purge_after,
)
from watersmeet.joins.equi.promises.explain import grows, lasting_rows
from watersmeet.joins.equi.spec import MULTIWAY_JOIN_TYPES, MULTIWAY_NAMES, VIOLATIONS, EquiSpec
from watersmeet.joins.family import JoinPlan
from watersmeet.plan.arguments import by_stream, check_flag, one_of, refuse_tuning
from watersmeet.plan.backend import Backend
from watersmeet.plan.budget import checked_budget
from watersmeet.plan.call import JoinCall
from watersmeet.plan.event_time import check_hold, event_time_of, further_of, lacking_times
from watersmeet.plan.explain.tree import Node
from watersmeet.plan.join_arguments import (
    all_of,
    check_may_be_unbounded,
    conditions_of,
    join_name,
    join_type,
    texts_of,
    window_lengths,
)
from watersmeet.plan.keys import compared_types, resolved_keys
from watersmeet.plan.naming import result_columns
from watersmeet.plan.streams import check_streams, with_time
from watersmeet.plan.where.matching import Matching
from watersmeet.spec.join_type import JoinType
from watersmeet.spec.stream import StreamSpec
from watersmeet.spec.tuning import DRIVERS, INDEXES, INVALIDATIONS, Tuning
from watersmeet.spec.windowed import GOALS


@dataclass(frozen=True)
class EquiPlan(JoinPlan):
    """A planned equality join."""

    spec: EquiSpec
    policy: EquiPolicy

    def chain(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> Chain:
        layout = lay_out(self.spec, self.policy, self.predicate, schemas=schemas, output=output)
        return chain_of(self.spec, layout)

    def branches(self) -> list[Node]:
        return branches(self)

    def headlines(self) -> list[str]:
        return grows(self.spec)

    def warnings(self) -> list[str]:
        grown = [] if self.spec.unbounded else lasting_rows(self.spec)
        lasting = [
            f"{text}. If there may be many, give within=..., or punctuations or arrival='ordered' "
            "of the other stream; if not, unbounded=True says so."
            for text in grown
        ]
        little = self.policy.too_little_memory
        return [
            *super().warnings(),
            *lasting,
            *lacking_times(self.spec),
            *([] if little is None else [f"{little}."]),
        ]


def equi_spec(
    streams: Sequence[StreamSpec], asked: JoinCall, *, unlimited: Sequence[str] = ()
) -> EquiSpec:
    """The spec of an equality join of streams; or what is wrong with the call.

    ``unlimited`` are the differences of times that ``where`` should have limited, so that there
    could be windows. The spec's ``unbounded`` tells whether the state really is unbounded, not only
    whether the call allows it.
    """
    check_streams(streams)
    streams = tuple(with_time(stream) for stream in streams)
    how = join_type(asked.how)
    if len(streams) > 2:
        _check_multiway(streams, how)
    keys = resolved_keys(streams, asked.on)
    key_types = compared_types(streams, keys)
    windows = window_lengths(streams, asked.within)
    check_flag(asked.unbounded, argument="unbounded")
    check_flag(asked.emit_punctuations, argument="emit_punctuations")
    check_promises(streams, key_types, bool(asked.emit_punctuations), how)
    windowed = asked.within is not None
    spec = EquiSpec(
        name=join_name(asked.name, how, streams),
        streams=streams,
        keys=keys,
        key_types=key_types,
        windows=windows,
        how=how,
        where=all_of(texts_of(conditions_of(asked.where))),
        unbounded=_is_unbounded(streams, how, asked, unlimited),
        output=(),
        budget=checked_budget(streams, asked.budget, how=how, windowed=windowed),
        goal=one_of(asked.goal, GOALS, argument="goal"),
        violations=one_of(asked.violations, VIOLATIONS, argument="violations"),
        emit_punctuations=bool(asked.emit_punctuations),
        tuning=_checked_tuning(streams, asked.tuning),
        event_time=event_time_of(streams, how, asked.event_time),
        further=further_of(asked.hold),
    )
    check_hold(spec)
    return replace(spec, output=result_columns(spec))


def plan_join(
    streams: Sequence[StreamSpec], backend: Backend, asked: JoinCall, matching: Matching
) -> EquiPlan:
    """Plan a join for a backend, given what must match."""
    found = replace(asked, on=matching.on, within=matching.within, where=matching.where)
    spec = equi_spec(streams, found, unlimited=matching.unlimited)
    policy = equi_policy(spec, shards=backend.shards, cores=backend.cores, weights=backend.weights)
    return EquiPlan(spec, policy, matching.predicate, matching.reading)


# --- what bounds the state


def _is_unbounded(
    streams: Sequence[StreamSpec], how: JoinType, asked: JoinCall, unlimited: Sequence[str]
) -> bool:
    """May rows stay for ever, as was asked for? If nothing was asked for, they may only in one of
    two streams, whose rows wait for a key of the other: of that the plan warns."""
    if not streams[0].streaming or asked.within is not None:
        return False
    if not all(stream.closes for stream in streams):
        check_may_be_unbounded(how, asked.unbounded, unlimited)
        return True
    check_provable(streams, how)
    if not asked.unbounded:
        check_ends(streams)
    return bool(asked.unbounded) and not all(stream.ends for stream in streams)


# --- the join type, the tuning


def _checked_tuning(streams: Sequence[StreamSpec], tuning: object) -> Tuning:
    if tuning is None:
        return Tuning()
    if not isinstance(tuning, Tuning):
        raise StrategyError(
            f"tuning={tuning!r} is not a wm.Tuning: give wm.Tuning(index='always', ...)."
        )
    index = tuning.index
    given = (
        by_stream(streams, index, argument="tuning: index")
        if isinstance(index, Mapping)
        else [index]
    )
    for value in given:
        one_of(value, INDEXES, argument="tuning: index")
    one_of(tuning.invalidation, INVALIDATIONS, argument="tuning: invalidation")
    refuse_tuning(tuning, "slices", "draining", "order", because="joins without a key")
    _check_driver(streams, tuning.driver)
    check_purge_after(streams, tuning.purge_after)
    return tuning


def _check_multiway(streams: Sequence[StreamSpec], how: JoinType) -> None:
    """What a join of more than two streams cannot do."""
    count = len(streams)
    if how not in MULTIWAY_JOIN_TYPES:
        raise JoinTypeError(
            f"how={how.name!r} is for two streams; a join of {count} is one of "
            f"{', '.join(MULTIWAY_NAMES)}. Join two of them first, or give how='left'."
        )
    for stream in streams:
        if stream.closes:
            raise PunctuationError(
                f"stream {stream.name!r}: unique, arrival and punctuation are for joins of two "
                f"streams; a join of {count} keeps rows by their windows. Leave them out, or join "
                "two streams at a time."
            )


def _check_driver(streams: Sequence[StreamSpec], driver: object) -> None:
    one_of(driver, DRIVERS, argument="tuning: driver")
    untimed = [stream.name for stream in streams if stream.time is None]
    if driver == "timestamp" and untimed:
        raise StrategyError(
            f"tuning: driver='timestamp' processes rows in the order of their times, and "
            f"{', '.join(untimed)} has none. Give its time column, or another driver."
        )
