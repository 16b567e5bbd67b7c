"""The observations of joins, by which Spark counts: their names, and how these are found again.

Each operator of a join has an observation in the query's plan, named after the join. So it is by
these names that a plan or a progress report of Spark's says which joins are in a query.
"""

from __future__ import annotations

from collections.abc import Iterable

#: What observes, in a plan.
OBSERVES = "CollectMetrics"
_PREFIX = "watersmeet: "


def observation_name(name: str) -> str:
    """The name of a join's observation."""
    return f"{_PREFIX}{name}"


def name_observed(observation: str) -> str:
    """The name of the join of an observation."""
    return observation.removeprefix(_PREFIX)


def is_ours(observation: str) -> bool:
    """Is it the observation of a join of ours?"""
    return observation.startswith(_PREFIX)


def observed_in(plan: str, known: Iterable[str]) -> set[str]:
    """Which of the ``known`` observations are in a plan of Spark's. (An observation's name is
    followed by a list; a name may begin with another one.)

    >>> sorted(observed_in("CollectMetrics a, [x]\\n+- CollectMetrics a, [b, [y]", ["a", "a, [b"]))
    ['a', 'a, [b']
    """
    found = set()
    for observed in plan.split(f"{OBSERVES} ")[1:]:
        names = [name for name in known if observed.startswith(f"{name}, [")]
        if names:
            found.add(max(names, key=len))
    return found
