"""Policies: what goals, budgets, tuning and defaults come to, for one run.

A policy is resolved once, when a join is planned (:mod:`watersmeet.plan.policy`). The operator
follows it, ``explain`` prints it, and nothing works it out again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class ShardBudget:
    """One shard's part of a budget: bytes of ``memory``, ``rate`` in rows a second, or
    its ``speed``: the part of a core's time that it has, if the rate is to be measured;
    ``fanout``, the results that one new row may make."""

    overflow: str
    memory: int | None = None
    rate: float | None = None
    speed: float | None = None
    fanout: int | None = None

    def shared(self, before: int, now: int) -> ShardBudget:
        """A shard's part, if ``now`` that many shards share what was divided by ``before``."""
        ratio = before / now
        return replace(
            self,
            memory=None if self.memory is None else self.memory * before // now,
            rate=None if self.rate is None else self.rate * ratio,
            speed=None if self.speed is None else min(1.0, self.speed * ratio),
        )


@dataclass(frozen=True)
class IndexPolicy:
    """How a window is stored: with an index at first or without, and whether that may change
    with what is measured. ``why`` says what it was decided by."""

    indexed: bool
    adaptive: bool
    why: str = ""


@dataclass(frozen=True)
class Schedule:
    """In which order new rows are processed: ``streams`` orders the streams, ``rows`` those of a
    stream: as they came, or by ``value``, those first that a punctuation is about. ``quota``
    limits the rows of a stream that are processed in a row; None: all there are."""

    streams: str = "priority"
    rows: str = "sequential"
    quota: int | None = None


@dataclass(frozen=True)
class EquiPolicy:
    """How an equality join runs.

    ``shards`` is the number of parts that are stepped on their own, ``cores`` of them side by side.
    ``index[i]`` and
    ``invalidation`` say how windows are stored and when expired rows leave; ``purge_after`` is
    the number of punctuations after which rows with closed keys are purged; ``schedule`` is the
    order in which new rows are processed, and ``probe_orders[i]`` that in which those of stream i
    probe the other windows until something is measured. ``in_stages``: what is in memory is
    probed first, what is on disk later.
    """

    shards: int
    index: tuple[IndexPolicy, ...]
    invalidation: str
    purge_after: int
    schedule: Schedule
    probe_orders: tuple[tuple[int, ...], ...]
    budget: ShardBudget | None = None
    in_stages: bool = False
    cores: int | None = None

    def on(self, shards: int) -> EquiPolicy:
        """The same, on another number of shards: they share the query's budget. (What the rates
        suggested for a window at first stays: it changes with what is measured.)"""
        budget = None if self.budget is None else self.budget.shared(self.shards, shards)
        return replace(self, shards=shards, budget=budget)

    @property
    def memory(self) -> int | None:
        """The bytes that a shard may take, if a budget says so."""
        return None if self.budget is None else self.budget.memory


@dataclass(frozen=True)
class SliceWeights:
    """Nanoseconds, measured on the machine (:mod:`watersmeet.cost.calibration`).

    ``compare``  for a pair, with a predicate as cheap as one can be
    ``send``     for a row, to be packed and unpacked
    ``byte``     for each byte of it
    ``step``     for a step without rows
    """

    compare: float
    send: float
    byte: float
    step: float


@dataclass(frozen=True)
class ExpectedSlices:
    """What the cost model says of the number of slices: the ``best`` one for the goal; around it,
    (slices, output, latency): how many times the output of one slice, and the seconds from a new
    row to its results. It was assumed that ``comparing`` a pair and ``sending`` a row of
    ``row_bytes`` to one slice take so many seconds. With the number that runs, a slice must receive
    ``bandwidth`` bytes a second so that it never waits; None where rows are searched. The
    ``weights`` are for the same model while the join runs."""

    best: int
    curve: tuple[tuple[int, float, float], ...]
    comparing: float
    sending: float
    row_bytes: float
    bandwidth: float | None
    weights: SliceWeights


@dataclass(frozen=True)
class RingPolicy:
    """How a join without a key runs.

    ``shards`` is the number of parts that are stepped on their own, ``cores`` of them side by side.
    New rows are stored in the first ``slices`` of them, and probe the first ``reach``: an earlier
    run may have had more slices. ``everywhere``: every shard has a slice, however many there turn
    out to be; otherwise these numbers were asked for. ``order`` is that of the hops: hop j stores
    the rows of stream ``order[j]``, and should add ``partial[j]`` partial results a second;
    ``cross_products`` tells who meets a stream that no condition connects: driver, stream, pairs a
    second. ``goal`` is what the number of slices is judged by.
    """

    shards: int
    slices: int
    reach: int
    order: tuple[int, ...]
    partial: tuple[float, ...] = ()
    cross_products: tuple[tuple[int, int, float], ...] = ()
    expected_slices: ExpectedSlices | None = None
    goal: str = "throughput"
    budget: ShardBudget | None = None
    cores: int | None = None
    everywhere: bool = False

    def on(self, shards: int, *, reach: int = 0) -> RingPolicy:
        """The same, on another number of shards, of which so many are reached at least."""
        reach = shards if self.everywhere else min(max(self.reach, reach), shards)
        return replace(
            self,
            shards=shards,
            slices=shards if self.everywhere else min(self.slices, shards),
            reach=reach,
            budget=None if self.budget is None else self.budget.shared(self.reach, reach),
        )

    @property
    def dealt(self) -> int | None:
        """How many shards new rows are dealt to; None: all."""
        return None if self.everywhere else self.slices

    @property
    def reached(self) -> int | None:
        """How many shards are probed; None: all."""
        return None if self.everywhere else self.reach

    @property
    def memory(self) -> int | None:
        """The bytes that a shard may take, if a budget says so."""
        return None if self.budget is None else self.budget.memory
