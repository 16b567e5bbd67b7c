"""The ring join as a family: it takes calls without a key."""

from __future__ import annotations

from watersmeet.joins.family import Family
from watersmeet.joins.operator import JoinStreamCounters
from watersmeet.joins.ring.counters import RingCounters, RingMetrics
from watersmeet.joins.ring.plan import plan_join
from watersmeet.plan.call import JoinCall
from watersmeet.plan.where.matching import Matching


def takes(asked: JoinCall, matching: Matching) -> bool:
    """Does a condition alone say what matches?"""
    return matching.on is None and asked.where is not None


RING = Family(RingCounters.family, RingMetrics, JoinStreamCounters, takes, plan_join)
