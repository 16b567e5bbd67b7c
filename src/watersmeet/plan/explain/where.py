"""What was made of ``where``."""

from __future__ import annotations

from watersmeet.plan.explain.tree import Node
from watersmeet.plan.join import JoinPlan


def reading(plan: JoinPlan) -> list[Node]:
    """Which parts of the condition were recognised as a key or as windows, and which are
    evaluated; nothing, if all are."""
    return [Node("read from where", [Node(line) for line in plan.reading])] if plan.reading else []
