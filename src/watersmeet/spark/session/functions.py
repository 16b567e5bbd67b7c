"""Functions of the user's that travel to the workers."""

from __future__ import annotations

from pyspark import cloudpickle

from watersmeet.errors import PredicateError
from watersmeet.plan.join_arguments import conditions_of
from watersmeet.spec.predicate import PredicateFunction


def check_functions(where: object) -> None:
    """Refuse a function in ``where`` that cannot travel, before Spark tries it: its error names no
    function, and is a page long."""
    for condition in conditions_of(where):
        if isinstance(condition, PredicateFunction):
            _check(condition)


def _check(given: PredicateFunction) -> None:
    try:
        cloudpickle.dumps(given.function)  # type: ignore[no-untyped-call]
    except Exception as error:  # what it refers to may fail with anything
        first = str(error).strip().splitlines()[:1]
        reason = first[0].partition(". ")[0] if first else ""
        raise PredicateError(
            f"where={given.text}: the function cannot be sent to the workers: "
            f"{type(error).__name__}: {reason}. It may refer to plain values and modules, not to "
            "the Spark session, DataFrames, connections or locks: take the values out of these "
            "before, and open connections in the function."
        ) from None
