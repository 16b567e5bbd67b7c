"""Which family of joins a call is about: with a key, the equality join; without, the ring join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.plan import equi, ring
from watersmeet.plan.backend import Backend
from watersmeet.plan.join import JoinPlan
from watersmeet.spec.stream import StreamSpec


def plan_join(streams: Sequence[StreamSpec], backend: Backend, **options: Any) -> JoinPlan:
    """Plan a join for a backend; ``options`` are what ``wm.join`` takes."""
    if options.get("on") is None and options.get("where") is not None:
        return ring.plan_join(streams, backend, **options)
    return equi.plan_join(streams, backend, **options)
