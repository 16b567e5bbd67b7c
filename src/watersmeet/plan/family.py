"""Which family of joins a call is about: with a key, the equality join; without, the ring join.

The key is given by ``on``, or read from ``where``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from watersmeet.plan import equi, ring
from watersmeet.plan.backend import Backend
from watersmeet.plan.join import JoinPlan
from watersmeet.plan.keys import Keys
from watersmeet.plan.where.matching import read_where
from watersmeet.spec.stream import StreamSpec


def plan_join(
    streams: Sequence[StreamSpec],
    backend: Backend,
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: object = None,
    how: str = "inner",
    where: object = None,
    **options: Any,
) -> JoinPlan:
    """Plan a join for a backend; the arguments are what ``wm.join`` takes."""
    matching = read_where(streams, backend, on=on, within=within, where=where, how=how)
    if matching.on is None and where is not None:
        return ring.plan_join(streams, backend, matching, how=how, **options)
    return equi.plan_join(streams, backend, matching, how=how, **options)
