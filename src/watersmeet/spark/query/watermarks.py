"""The watermarks that are set in a plan of Spark's.

A query has one watermark, the least of all that are set in it. Of two that follow one another, with
a stateful operator between them, the first waits for the second, which gets no rows before the
first has moved: both stand still for ever, without an error. With none between them, as where rows
are answered in place, Spark ends the query in its second micro-batch.
"""

from __future__ import annotations

from typing import Any

from watersmeet.spark.query.counters import observation_name

#: What sets a watermark in a plan.
SETS = "EventTimeWatermark"
_OBSERVES = "CollectMetrics"
#: What starts the description of a join or enrichment of ours in a plan.
JOIN = f"{_OBSERVES} {observation_name('')}"
#: What a user may take instead of a second watermark.
BEHIND = (
    "Behind wm.join, `event_time` is the event time: an inner join has that column; give "
    "event_time='...', a stream's name, to any other join. Behind wm.enrich, the stream's own time "
    "column stays the event time"
)


def following(plan: Any) -> list[str]:
    """The columns on which watermarks are set that follow one another, the last one first. Streams
    that were united or joined may have one each: those are side by side."""
    # Walking through the plan takes a call for each node, so it is looked at as text before.
    return _following(plan) if SETS in plan.toString() else []


def behind_join(plan: Any) -> str | None:
    """A column on which a watermark is set behind a join or enrichment of ours that has one before
    it."""
    text = plan.toString()
    return _behind_join(plan, None) if -1 < text.find(SETS) < text.rfind(JOIN) else None


def straight_from_join(plan: Any) -> bool:
    """Are the rows of a plan some of those of a join of ours, and no others?"""
    while not _is_join(plan):
        if str(plan.nodeName()) not in ("Project", "Filter", "SubqueryAlias"):
            return False
        [plan] = _children(plan)
    return True


def _following(plan: Any) -> list[str]:
    longest: list[str] = max(map(_following, _children(plan)), key=len, default=[])
    return [_column(plan), *longest] if _sets(plan) else longest


def _behind_join(plan: Any, last: str | None) -> str | None:
    """``last`` is the column of the last watermark that follows the plan."""
    if last is not None and _is_join(plan):
        return last if _following(plan) else None
    if _sets(plan):
        last = _column(plan)
    found = (_behind_join(child, last) for child in _children(plan))
    return next((column for column in found if column is not None), None)


def _is_join(plan: Any) -> bool:
    observes = str(plan.nodeName()) == _OBSERVES
    return observes and str(plan.name()).startswith(observation_name(""))


def _sets(plan: Any) -> bool:
    return str(plan.nodeName()) == SETS


def _column(plan: Any) -> str:
    return str(plan.eventTime().name())


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(i) for i in range(children.size())]
