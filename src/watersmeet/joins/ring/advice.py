"""Advice: would another order of the hops make far fewer partial results, or another number of
slices serve the goal far better?

The order is fixed for a checkpoint, and the number of slices for a run. They were chosen by
declared rates, or by assumptions. Measurements tell more. Each hop makes some of them, and one of
its shards hands them on to the next hop; one is enough, because slices are alike. The last hop
knows all measurements, compares the present order with the best one, and notes that in the metrics.

Invariant: measurements differ when a micro-batch is executed again, but they always take the same
number of bytes on their way. So they do not change how a step's input is cut
(:mod:`watersmeet.spark.query.chunks`).

**Example.** Streams 0, 1 and 2 bring 10 rows a second and store 100 each. Two conditions, between 0
and 1 and between 1 and 2, let a hundredth through. The order is 0, 1, 2::

    hop 0 measures   the rates, the rows of stream 0, the condition between 0 and 1
    hop 1 measures   the rows of stream 1, both conditions
    hop 2 measures   the rows of stream 2, the condition between 1 and 2; then it compares
                     0, 1, 2: 1,010 + 10 partial results a second    1, 0, 2: 20 + 10

The second order makes 34 times fewer. That is more than a factor of 3, so it is noted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from watersmeet.cost.hop_order import UNKNOWN_SELECTIVITY, Link, Streams
from watersmeet.cost.slices import CLEARLY, SliceModel
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.state import RingState

_TEXT = "text"
#: Measurements are a text of so many characters for each stream and each condition, filled up with
#: spaces. Their numbers always need less.
_ROOM = 256
#: Another order is noted if it makes fewer partial results by this factor.
_MUCH = 3.0


@dataclass
class Measurements:
    """The measurements of the hops so far: the new ``rows`` of a micro-batch and the ``stored``
    rows of each stream; the bytes of a new row; the ``selectivity`` of each condition, by number;
    the seconds that a predicate takes for a pair (``cost``)."""

    rows: list[float] = field(default_factory=list)
    stored: dict[str, float] = field(default_factory=dict)
    row_bytes: float = 0.0
    selectivity: dict[str, float] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)

    def add(self, state: RingState, holds: Sequence[int], slices: int) -> None:
        """Add the measurements of a shard. Its slice is like all others."""
        for stream in holds:
            self.stored[str(stream)] = float(state.slice_of(stream).rows * slices)
        for number, measured in enumerate(state.measured):
            if measured.selectivity is not None:
                self.selectivity[str(number)] = measured.selectivity
                self.cost[str(number)] = measured.seconds / measured.pairs

    def to_batch(self, conditions: int) -> pa.RecordBatch:
        """The form in which they travel, of a join with so many conditions."""
        text, room = json.dumps(vars(self)), _ROOM * (len(self.rows) + conditions)
        assert len(text) <= room, "measurements always take the same number of bytes"
        return pa.RecordBatch.from_pydict({_TEXT: [text.ljust(room)]})

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Measurements:
        return cls(**json.loads(batch.column(_TEXT)[0].as_py()))

    def streams(self, layout: RingLayout) -> Streams:
        """What they say about the streams."""
        conditions = layout.conditions
        assumed = conditions.shares(UNKNOWN_SELECTIVITY)
        return Streams(
            tuple(self.rows),
            tuple(max(1.0, self.stored[str(stream)]) for stream in range(len(layout.streams))),
            tuple(
                Link(streams, self.selectivity.get(str(number), assumed[number]))
                for number, streams in enumerate(conditions.streams)
            ),
        )

    def comparing(self, layout: RingLayout) -> float | None:
        """T_j: seconds to compare a new row with a stored one, by searches and predicates; None if
        no predicate has been measured yet."""
        count, shares = len(layout.conditions.predicates), self.selectivity
        found = 1.0
        for number in range(count, len(layout.conditions.streams)):
            found *= shares.get(str(number), 1.0)
        evaluated = [(self.cost[str(n)], shares[str(n)]) for n in range(count) if str(n) in shares]
        if not evaluated:
            return None
        total = 0.0
        # In the order in which they are applied: first those that reject most for their time.
        for cost, share in sorted(evaluated, key=lambda each: (each[1] - 1) / max(each[0], 1e-12)):
            total += found * cost
            found *= share
        return total


def better_slices(measured: Measurements, layout: RingLayout) -> tuple[int, str] | None:
    """A number of slices that serves the goal far better, and why; None if none does."""
    policy = layout.policy
    known, comparing = policy.expected_slices, measured.comparing(layout)
    if known is None or comparing is None or len(measured.stored) < len(layout.streams):
        return None
    model = SliceModel.of(
        measured.streams(layout),
        policy.order,
        known.weights,
        comparing=comparing,
        row_bytes=measured.row_bytes,
    )
    if not model.drivers:
        return None
    best = model.best(policy.goal, most=policy.shards)
    gain = model.gain(policy.goal, policy.slices, best)
    if gain < CLEARLY:
        return None
    what = "give results in a shorter time" if policy.goal == "early" else "give more results"
    times = model.times
    return best, (
        f"as measured, {best} slices would {what} than {policy.slices}, by a factor of {gain:.1f}: "
        f"{times.T_j * 1e6:,.2g} us to compare two rows, {times.T_s * 1e6:,.2g} us to send a row "
        f"of {measured.row_bytes:,.0f} bytes to a slice"
    )


def better_order(
    measured: Measurements, layout: RingLayout
) -> tuple[tuple[int, ...], float] | None:
    """An order that makes far fewer partial results, and by which factor; None if none does."""
    streams = measured.streams(layout)
    best = streams.best_order(cross_products=True)
    now, then = (sum(streams.partial_results(order)) for order in (layout.policy.order, best))
    if now <= _MUCH * max(then, 1.0):
        return None
    return best, now / max(then, 1.0)


def advise(measured: Measurements, layout: RingLayout, state: RingState) -> list[str]:
    """Notes about the order and the number of slices, if they are new."""
    return [*_of_order(measured, layout, state), *_of_slices(measured, layout, state)]


def _of_order(measured: Measurements, layout: RingLayout, state: RingState) -> Iterator[str]:
    better = better_order(measured, layout) if len(layout.streams) > 2 else None
    order = None if better is None else list(better[0])
    if better is not None and order != state.advised:
        names = ", ".join(repr(layout.streams[stream].name) for stream in better[0])
        yield (
            f"as measured, the order {names} would make {better[1]:,.0f} times fewer partial "
            f"results. To take it: wm.relocate(..., order=[{names}]), or a new checkpoint."
        )
    state.advised = order


def _of_slices(measured: Measurements, layout: RingLayout, state: RingState) -> Iterator[str]:
    better = better_slices(measured, layout)
    if better is not None and better[0] != state.advised_slices:
        yield f"{better[1]}. To take it: tuning=wm.Tuning(slices={better[0]})."
    state.advised_slices = None if better is None else better[0]
