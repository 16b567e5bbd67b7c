"""What a planned join does, as a tree to read: what all families share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watersmeet.plan.enrich import EnrichPlan
from watersmeet.plan.equi import EquiPlan
from watersmeet.plan.explain import enrich, equi, ring
from watersmeet.plan.explain.tree import Node
from watersmeet.plan.join import JoinPlan
from watersmeet.plan.ring import RingPlan
from watersmeet.spec.join import JoinSpec

#: For each family of joins, what is to be said of it.
_BRANCHES: dict[type[JoinPlan], Callable[[Any], list[Node]]] = {
    EquiPlan: equi.branches,
    RingPlan: ring.branches,
    EnrichPlan: enrich.branches,
}


def explain(plan: JoinPlan) -> str:
    """The plan as text: what matches, what is stored, what removes it, what is emitted when."""
    spec = plan.spec
    names = " and ".join(stream.name for stream in spec.streams)
    inputs = "streaming" if spec.streaming else "batch: one run, no watermark"
    title = f"{spec.how} join of {names}"
    if isinstance(plan, EnrichPlan):
        title = f"{spec.how} enrichment of {' from '.join(stream.name for stream in spec.streams)}"
    called = "" if spec.name == title else f"{spec.name}: "
    tree = Node(f"{called}{title} ({inputs})", _BRANCHES[type(plan)](plan))
    return "\n".join(_warning(spec) + tree.drawn())


def _warning(spec: JoinSpec) -> list[str]:
    if not spec.unbounded:
        return []
    first, *others = (stream.name for stream in spec.streams)
    every = " and of ".join(others)
    if spec.how == "semi":
        grows = f"every row of {first} that has not matched, and every row of {every},"
    else:
        grows = f"every row of {first} and of {every}"
    return [f"WARNING: unbounded state: {grows} is kept for ever; nothing removes it."]
