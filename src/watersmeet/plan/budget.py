"""Budgets: what a join may use, and whether it can keep to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from watersmeet import sizes
from watersmeet.errors import BudgetError
from watersmeet.plan.arguments import one_of
from watersmeet.spec.budget import OVERFLOWS, Budget
from watersmeet.spec.join_type import JoinType
from watersmeet.spec.stream import StreamSpec


def checked_budget(
    streams: Sequence[StreamSpec], budget: object, *, how: JoinType, windowed: bool
) -> Budget | None:
    """The budget in bytes and rows a second. The join must be able to keep to it."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget={budget!r} is not a wm.Budget: give wm.Budget(memory='2 GB').")
    if budget.memory is None and budget.rate is None and budget.fanout is None:
        raise BudgetError(
            "budget: it limits nothing. Give memory='2 GB', rate=50_000, or fanout=10_000."
        )
    one_of(budget.overflow, OVERFLOWS, argument="budget: overflow", error=BudgetError)
    if not streams[0].streaming:
        raise BudgetError("budget: it is for streams; a batch run takes what it needs.")
    _check_rate(streams, budget)
    _check_fanout(budget)
    if budget.overflow == "shed" and how.emits_unmatched:
        raise BudgetError(
            f"budget: overflow='shed' with how={how.name!r} would call rows unmatched only because "
            "their match was shed. Give overflow='spill' or 'fail', or an inner or semi join."
        )
    limited = budget.memory is not None or budget.rate is not None
    if budget.overflow == "shed" and limited and not windowed:
        raise BudgetError(
            "budget: overflow='shed' needs windows: give within='1 hour', or overflow='spill'."
        )
    memory = budget.memory
    return replace(
        budget,
        memory=None if memory is None else sizes.parse(memory, argument="budget: memory"),
    )


def _check_rate(streams: Sequence[StreamSpec], budget: Budget) -> None:
    rate = budget.rate
    if rate is None:
        return
    number = isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0
    if not number and rate != "measured":
        raise BudgetError(
            f"budget: rate={rate!r} must be rows a second above 0, or 'measured': the rate at "
            "which the join finds itself able to work."
        )
    if budget.overflow != "shed":
        raise BudgetError(
            f"budget: rate={rate!r} with overflow={budget.overflow!r}: what is too fast can only "
            "be shed. Give overflow='shed', or leave out rate."
        )
    if len(streams) > 2:
        raise BudgetError(
            f"budget: rate={rate!r} is divided between two streams; {len(streams)} are given. "
            "Leave out rate: Spark's own maxFilesPerTrigger or maxOffsetsPerTrigger slow a source."
        )
    untimed = [stream.name for stream in streams if stream.time is None]
    if untimed:
        raise BudgetError(
            f"budget: rate={rate!r} needs to know how fast the streams are, by their times, and "
            f"{', '.join(untimed)} has none. Give its time column."
        )


def _check_fanout(budget: Budget) -> None:
    fanout = budget.fanout
    if fanout is None:
        return
    if isinstance(fanout, bool) or not isinstance(fanout, int) or fanout < 1:
        raise BudgetError(
            f"budget: fanout={fanout!r} must be a whole number of results above 0: as many as one "
            "new row may make."
        )
    if budget.overflow == "spill":
        raise BudgetError(
            f"budget: fanout={fanout!r} with overflow='spill': say what happens to a row that "
            "makes more results. Give overflow='shed' (the rest is left out) or 'fail'."
        )
