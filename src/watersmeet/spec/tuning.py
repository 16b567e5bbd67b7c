"""Tuning: how a join works, where any way gives the same result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

#: How a window may be stored: as the cost model says, or always one way.
IndexChoice = Literal["auto", "always", "never"]
INDEXES: tuple[IndexChoice, ...] = get_args(IndexChoice)
#: When expired rows leave: whenever the watermark moves, or when their window is probed.
Invalidation = Literal["active", "lazy"]
INVALIDATIONS: tuple[Invalidation, ...] = get_args(Invalidation)
#: Which stream's new rows are processed first: as the goal says, or always by one policy.
DriverChoice = Literal[
    "auto",
    "timestamp",
    "round-robin",
    "consumption-rate",
    "initial-output-size",
    "output-rate",
]
DRIVERS: tuple[DriverChoice, ...] = get_args(DriverChoice)


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
    slices
        Of a join without a key: over how many shards the stored rows of a stream are dealt, and
        to how many new rows are sent. At most ``spark.sql.shuffle.partitions``, which is the
        default, unless the cost model promises a clearly shorter latency with fewer and
        ``goal="early"``; ``"auto"``: as many as the model says. It may change when a query is
        started again.
    draining
        The number of slices of an earlier run with more of them, until their rows have expired:
        new rows are still sent to those. A query finds it out from its checkpoint; give it if a
        message asks for it.
    order
        Of a join of three and more streams without a key: the names of the streams in the order
        in which their rows are met.
    """

    index: IndexChoice | Mapping[str, IndexChoice] = "auto"
    invalidation: Invalidation = "active"
    driver: DriverChoice = "auto"
    purge_after: int | None = None
    slices: int | Literal["auto"] | None = None
    draining: int | None = None
    order: Sequence[str] | None = None
