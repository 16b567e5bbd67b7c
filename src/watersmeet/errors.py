"""What can go wrong, by whose fault.

::

    WatersmeetError
    ├── PlanError       a mistake in the call; found while planning, never in a task
    │   ├── UnknownColumnError, AmbiguousColumnError, TimeColumnError
    │   ├── KeyTypeError, UnsupportedTypeError
    │   ├── DurationError, WindowError, UnboundedStateError
    │   ├── StreamNameError, MixedInputError
    │   ├── JoinTypeError, PredicateError, BudgetError, StrategyError
    │   └── PunctuationError
    ├── SessionError    the Spark session is not set up
    ├── StateError      a checkpoint that does not fit the query
    ├── ViolationError  a stream brought a row that it had promised not to bring
    ├── StagedTableError  a table that was staged for wm.enrich cannot be read or written
    ├── OverBudgetError  a budget with overflow="fail" would be exceeded
    ├── PredicateFunctionError  a function given by wm.predicate failed
    └── InternalError   a bug of Watersmeet itself

A message names the argument, the value that was given, and what would be right.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WatersmeetError(Exception):
    """The root of every error that Watersmeet raises on purpose."""


class PlanError(WatersmeetError, ValueError):
    """A mistake in the call: the join cannot be planned as it was asked for."""


class UnknownColumnError(PlanError):
    """A column was named that its stream does not have."""


class AmbiguousColumnError(PlanError):
    """A name stands for more than one column."""


class TimeColumnError(PlanError):
    """A stream's time is missing, of a wrong type, or has no watermark."""


class KeyTypeError(PlanError):
    """Key columns of different streams have types that do not compare."""


class UnsupportedTypeError(PlanError):
    """A column's type cannot be used where the column stands."""


class DurationError(PlanError):
    """A text or value is not a duration of fixed length."""


class WindowError(PlanError):
    """``within`` is missing where the join cannot do without it."""


class UnboundedStateError(PlanError):
    """Nothing would ever leave the state, and the user did not ask for that."""


class StreamNameError(PlanError):
    """A stream's name is unusable, taken, unknown, or missing from a dict of streams."""


class MixedInputError(PlanError):
    """Some inputs are batch DataFrames and others streaming ones."""


class JoinTypeError(PlanError):
    """``how`` is not a join type."""


class PredicateError(PlanError):
    """``where`` is not a usable condition."""


class BudgetError(PlanError):
    """A budget that says nothing, or that this join cannot keep to."""


class StrategyError(PlanError):
    """``goal``, ``violations`` or a value in ``tuning`` is not a known one."""


class PunctuationError(PlanError):
    """What is said about a stream's keys or punctuations does not fit the stream."""


class ViolationError(WatersmeetError):
    """A row came that a punctuation, an order or a unique key had excluded."""


class OverBudgetError(WatersmeetError):
    """The state would take more memory than the budget allows, and is not to spill."""


class PredicateFunctionError(WatersmeetError):
    """A function given by ``wm.predicate`` raised an error, or returned no booleans."""


class SessionError(WatersmeetError):
    """The Spark session lacks a setting; the message gives its exact name and value."""


class StateError(WatersmeetError):
    """A checkpoint's state was written by a query that does not fit this one."""


class StagedTableError(WatersmeetError):
    """A table that was staged for ``wm.enrich`` is gone or damaged, or could not be staged."""


class InternalError(WatersmeetError):
    """An invariant of Watersmeet itself is broken. Please report it."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A hint to append to a message: the known name that is most like the given one.

    >>> did_you_mean("ad_ID ", ["price", "ad_id"])
    " Did you mean 'ad_id'?"
    >>> did_you_mean("zebra", ["price", "ad_id"])
    ''
    """
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(given.strip().lower(), by_lower, n=1)
    return f" Did you mean {by_lower[close[0]]!r}?" if close else ""
