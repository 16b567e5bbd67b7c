"""What a call asks for, by its arguments alone: specs and plans without a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.joins import families
from watersmeet.joins.enrich import plan as enrich
from watersmeet.joins.enrich.plan import EnrichPlan
from watersmeet.joins.enrich.policy import Facilities
from watersmeet.joins.enrich.spec import EnrichCall, EnrichSpec
from watersmeet.joins.equi import plan as equi
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.joins.family import JoinPlan
from watersmeet.plan.backend import Backend
from watersmeet.plan.call import JoinCall
from watersmeet.spec.stream import StreamSpec


def equi_spec(streams: Sequence[StreamSpec], **arguments: Any) -> EquiSpec:
    return equi.equi_spec(streams, JoinCall(**arguments))


def plan_join(streams: Sequence[StreamSpec], backend: Backend, **arguments: Any) -> Any:
    return families.plan_join(streams, backend, JoinCall(**arguments))


def explain(plan: JoinPlan) -> str:
    return plan.explain()


def enrich_spec(stream: StreamSpec, table: StreamSpec, **arguments: Any) -> EnrichSpec:
    return enrich.enrich_spec(stream, table, EnrichCall(**arguments))


def plan_enrich(
    stream: StreamSpec,
    table: StreamSpec,
    backend: Backend,
    *,
    wakes: bool = True,
    copies: bool = False,
    hosts: int | None = None,
    **arguments: Any,
) -> EnrichPlan:
    place = Facilities(wakes, copies, hosts)
    return enrich.plan_enrich(stream, table, backend, EnrichCall(**arguments), place)
