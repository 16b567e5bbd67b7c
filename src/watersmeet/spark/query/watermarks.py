"""The watermarks that are set in a plan of Spark's.

A query has one watermark, the least of all that are set in it. If two follow one another, with a
stateful operator between them, the first waits for the second, and the second gets no rows before
the first has moved: both stand still for ever, without an error. Without an operator between them
(rows may be answered in place), Spark ends the query in its second micro-batch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet.spark.jvm.plans import LogicalPlan
from watersmeet.spark.query.observations import OBSERVES, is_ours, observation_name

#: What sets a watermark in a plan.
SETS = "EventTimeWatermark"
#: What starts the description of a join or enrichment of ours in a plan.
JOIN = f"{OBSERVES} {observation_name('')}"
#: What a user may take instead of a second watermark.
BEHIND = (
    "Behind wm.join, `event_time` is the event time: an inner join has that column; give "
    "event_time='...', a stream's name, to any other join. Behind wm.enrich, the stream's own time "
    "column stays the event time"
)


#: How Spark calls it if it refuses a window over a column that has no watermark.
_REFUSED = "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"


def explain_refusals() -> None:
    """From now on, if Spark refuses a query with a join of ours because of its output mode, its
    exception has a note that says what the event time is behind a join. (Spark asks nobody before,
    and its message knows of no join. Nothing else about a query's start is changed.)"""
    for name in ("start", "toTable"):
        begin = getattr(DataStreamWriter, name)
        if not hasattr(begin, _EXPLAINED):
            setattr(DataStreamWriter, name, _explained(begin))


_EXPLAINED = "_watersmeet_explained"


def _explained(begin: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(begin)
    def begun(writer: Any, *args: Any, **options: Any) -> Any:
        try:
            return begin(writer, *args, **options)
        except AnalysisException as error:
            with contextlib.suppress(Exception):
                if error.getCondition() == _REFUSED and JOIN in LogicalPlan.of(writer._df).text:
                    error.add_note(f"{BEHIND}.")
            raise

    setattr(begun, _EXPLAINED, True)
    return begun


def following(plan: LogicalPlan) -> list[str]:
    """The columns of watermarks that follow one another, the last one first. Streams that were
    united or joined may have one each: those are side by side."""
    # Walking through the plan takes a call for each node, so it is looked at as text before.
    return _following(plan) if SETS in plan.text else []


def behind_join(plan: LogicalPlan) -> str | None:
    """A column on which a watermark is set behind a join or enrichment of ours that has one before
    it."""
    text = plan.text
    return _behind_join(plan, None) if -1 < text.find(SETS) < text.rfind(JOIN) else None


def straight_from_join(plan: LogicalPlan) -> bool:
    """Are the rows of a plan some of those of a join of ours, and no others?"""
    while not _is_join(plan):
        if plan.kind not in ("Project", "Filter", "SubqueryAlias"):
            return False
        [plan] = plan.children
    return True


def _following(plan: LogicalPlan) -> list[str]:
    longest: list[str] = max(map(_following, plan.children), key=len, default=[])
    return [plan.watermark_column, *longest] if _sets(plan) else longest


def _behind_join(plan: LogicalPlan, last: str | None) -> str | None:
    """``last`` is the column of the last watermark that follows the plan."""
    if last is not None and _is_join(plan):
        return last if _following(plan) else None
    if _sets(plan):
        last = plan.watermark_column
    found = (_behind_join(child, last) for child in plan.children)
    return next((column for column in found if column is not None), None)


def _is_join(plan: LogicalPlan) -> bool:
    return plan.kind == OBSERVES and is_ours(plan.observation)


def _sets(plan: LogicalPlan) -> bool:
    return plan.kind == SETS
