"""Tuning: how a join works, where any way gives the same result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

#: How a window may be stored: as the cost model says, or always one way.
Index = Literal["auto", "always", "never"]
INDEXES: tuple[str, ...] = get_args(Index)
#: When expired rows leave: whenever the watermark moves, or when their window is probed.
Invalidation = Literal["active", "lazy"]
INVALIDATIONS: tuple[str, ...] = get_args(Invalidation)
#: Which stream's new rows are processed first: as the goal says, or always by one policy.
Driver = Literal[
    "auto",
    "timestamp",
    "round-robin",
    "consumption-rate",
    "initial-output-size",
    "output-rate",
]
DRIVERS: tuple[str, ...] = get_args(Driver)


@dataclass(frozen=True)
class Tuning:
    """How a join works. Nothing here changes a result: only time and memory.

    Parameters
    ----------
    index
        How windows are stored: ``"auto"`` (as the cost model says, for the rates that are
        measured), ``"always"`` with an index, or ``"never"``; or a dict from stream name to one
        of these.
    invalidation
        When expired rows leave: ``"active"``, whenever the watermark moves, or ``"lazy"``, when
        their window is probed.
    driver
        Which stream's new rows are processed first in a micro-batch: ``"auto"`` (as ``goal``
        says), ``"timestamp"``, ``"round-robin"``, ``"consumption-rate"``,
        ``"initial-output-size"`` or ``"output-rate"``.
    purge_after
        After how many punctuations rows with closed keys are purged; as ``goal`` says, if it is
        not given.
    """

    index: Index | Mapping[str, Index] = "auto"
    invalidation: Invalidation = "active"
    driver: Driver = "auto"
    purge_after: int | None = None
