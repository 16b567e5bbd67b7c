"""A chain of operators: what both backends run.

::

    inputs ─ encode ─► hop 0 ─ routes ─► hop 1 ─ ... ─► results

A chain says everything that a backend needs to know of a join: how rows of each input are stored
and where they go, and which operators step them, one behind the other. It says nothing of where it
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from watersmeet.joins.operator import AnyOperator
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.route import Route
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.stream import StreamSpec

#: So many slices: one in every shard, however many there are.
EVERY = (1 << 31) - 1


@dataclass(frozen=True)
class Circumstances:
    """What a task learns of its query, and planning could not know. ``shards`` is how many shards
    the state has. ``reach`` is how many of them new rows must reach at least, because an earlier
    run had more slices. ``several``: does the query have several watermarks?"""

    shards: int
    reach: int = 0
    several: bool = False


@dataclass(frozen=True)
class Input:
    """One input of a chain: how its ``rows`` are stored, and the ``route`` by which they go.

    ``delay`` is how far the watermark stays behind their times, in microseconds; None: rows without
    times. ``own_watermark``: the stream brings a watermark, so none is set. ``counted``: rows of
    equal content are dealt by count. About ``packed`` bytes of rows are packed at a time; None: as
    the backend likes."""

    name: str
    rows: RowLayout
    route: Route
    delay: int | None = None
    own_watermark: bool = False
    counted: bool = False
    packed: int | None = None

    @classmethod
    def of(
        cls, stream: StreamSpec, rows: RowLayout, route: Route, *, counted: bool = False
    ) -> Input:
        """A stream as an input."""
        delay = None if stream.time is None else stream.delay or 0
        return cls(stream.name, rows, route, delay, stream.watermarked, counted)


@dataclass(frozen=True)
class Hop:
    """One operator of a chain, and the ``fingerprint`` of its state.

    ``onward`` are the routes of the rows that it hands on, one for each input of the next operator.
    The last hop has none: it gives results. ``adapted`` gives the operator for the circumstances of
    a query; None: it does not depend on them. ``slices``: rows of an operator without a key are
    dealt to so many shards, the first ones. ``waits``: may rows wait for a micro-batch without
    data?"""

    operator: AnyOperator
    fingerprint: str
    onward: tuple[Route, ...] = ()
    adapted: Callable[[Circumstances], AnyOperator] | None = None
    slices: int | None = None
    waits: bool = False


@dataclass(frozen=True)
class Chain:
    """The inputs of a join with that ``name``, and the hops that they go through, on so many
    ``shards``. ``timers``: is there a watermark to wait for? ``hold`` is how far Spark's watermark
    is held back behind that of the operators, in microseconds."""

    name: str
    inputs: Sequence[Input]
    hops: Sequence[Hop]
    shards: int
    streaming: bool
    timers: bool
    hold: int = 0

    @classmethod
    def of(cls, spec: JoinSpec, inputs: Sequence[Input], hops: Sequence[Hop], shards: int) -> Chain:
        """The chain of a join that was planned."""
        return cls(spec.name, inputs, hops, shards, spec.streaming, spec.timers, spec.hold)

    def __post_init__(self) -> None:
        given, taken = len(self.inputs), len(self.hops[0].operator.inputs)
        assert given == taken, f"a chain of {given} inputs, its first hop takes {taken}"
        for hop, following in pairwise(self.hops):
            handed, taken = len(hop.onward), len(following.operator.inputs)
            assert handed == taken, f"a hop hands on {handed} inputs, the next one takes {taken}"
        assert not any(hop.operator.expects for hop in self.hops[1:]), "only the first hop is told"
        assert not self.hops[-1].onward, "the last hop gives results"

    @property
    def fingerprints(self) -> list[str]:
        """The fingerprints of the states of all hops."""
        return [hop.fingerprint for hop in self.hops]
