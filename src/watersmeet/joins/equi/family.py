"""The equality join as a family: it takes calls that have a key."""

from __future__ import annotations

from watersmeet.joins.equi.counters import EquiCounters, EquiMetrics, EquiStreamCounters
from watersmeet.joins.equi.plan import plan_join
from watersmeet.joins.family import Family
from watersmeet.plan.call import JoinCall
from watersmeet.plan.where.matching import Matching


def takes(asked: JoinCall, matching: Matching) -> bool:
    """Is there a key, or nothing else that could say what matches?"""
    return matching.on is not None or asked.where is None


EQUI = Family(EquiCounters.family, EquiMetrics, EquiStreamCounters, takes, plan_join)
