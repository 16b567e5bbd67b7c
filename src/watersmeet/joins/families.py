"""The families of joins, and which of them a call of ``wm.join`` is for."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.joins.enrich.family import ENRICH
from watersmeet.joins.equi.family import EQUI
from watersmeet.joins.family import Family, JoinPlan
from watersmeet.joins.ring.family import RING
from watersmeet.plan.backend import Backend
from watersmeet.plan.call import JoinCall
from watersmeet.plan.where.matching import read_where
from watersmeet.spec.stream import StreamSpec

#: All of them. The first that takes a call plans it.
FAMILIES: list[Family] = [EQUI, RING, ENRICH]


def plan_join(streams: Sequence[StreamSpec], backend: Backend, asked: JoinCall) -> JoinPlan:
    """Plan a join of streams for a backend."""
    matching = read_where(
        streams,
        backend,
        on=asked.on,
        within=asked.within,
        where=asked.where,
        how=asked.how,
    )
    family = next(each for each in FAMILIES if each.takes(asked, matching))
    assert family.plan is not None, f"{family.name}: a family that takes calls plans them"
    return family.plan(streams, backend, asked, matching)


def family_of(name: str) -> Family | None:
    """The family whose counters have that name."""
    return next((each for each in FAMILIES if each.name == name), None)
