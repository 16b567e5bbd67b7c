"""What a window costs in this engine: vectorised, a micro-batch at a time.

This is the model of the window paper (:mod:`watersmeet.cost.window`), section 3, with the constants
of this engine, and with the cost of a call, which is not negligible here. Sorted segments take the
place of the hash table. As in the paper, a join has two *directions*, each with its own cost: "A to
B" is the cost of probing B's window with A's new rows, and of keeping B's window.

**Example.** On a machine with the weights below, 100 new rows of A probe B's window in each
micro-batch. A window to which 100 rows are added is cheaper to scan than to sort; one to which
10,000 are added is not. Costs are in milliseconds:

>>> weights = Weights(sort=70, merge=20, search=100, scan=3, hit=30, call=200_000)
>>> for rows, stored in ((100, 360_000), (10_000, 36_000_000)):
...     both = Direction(probes=100, probing=1.0, rows=rows, stored=stored, keys=10_000)
...     print(*(round(cost(both, weights) / 1e6, 1) for cost in (indexed_cost, plain_cost)))
2.1 1.6
3.6 154.8
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """Nanoseconds, measured on the machine (:mod:`watersmeet.cost.calibration`).

    ``sort``    for a new row, to be put into order with those of its batch
    ``merge``   for a row, each time that it is merged into a larger segment
    ``search``  for a row that searches in one sorted segment
    ``scan``    for a stored row that a scan looks at
    ``hit``     for a stored row that a scan's filter lets through
    ``call``    for a probe of one segment, whatever its size
    """

    sort: float
    merge: float
    search: float
    scan: float
    hit: float
    call: float


#: A window of sorted segments has about this many, once four of a size have become one
#: (:mod:`watersmeet.state.compaction`); a plain one is merged up to this many rows.
SEGMENTS = 10
PLAIN_ROWS = 200_000
_FAN = 4


@dataclass(frozen=True)
class Direction:
    """What a micro-batch brings on average, for new rows of A and the window of B:
    ``probes`` new rows of A, in a share ``probing`` of the batches; ``rows`` new rows of
    B; ``stored`` rows in B's window, with that many ``keys``."""

    probes: float
    probing: float
    rows: float
    stored: float
    keys: float

    @property
    def per_batch(self) -> float:
        """New rows of A in a batch that has any."""
        return self.probes / self.probing if self.probing else 0.0

    @property
    def sorted_segments(self) -> float:
        return max(1.0, min(SEGMENTS, self.stored / max(self.rows, 1.0)))

    @property
    def plain_segments(self) -> float:
        return max(1.0, self.stored / max(self.rows, PLAIN_ROWS))

    def __str__(self) -> str:
        return (
            f"{self.rows:,.0f} new rows and {self.probes:,.0f} probes a micro-batch, "
            f"{self.stored:,.0f} stored rows, about {self.keys:,.0f} keys"
        )


def expected_directions(
    rates: Sequence[float | None],
    keys: Sequence[float | None],
    seconds: Sequence[float | None],
) -> list[Direction | None]:
    """What to expect of each window before any row has come: from the declared rates, for
    micro-batches of a second; None where a rate is unknown."""
    directions: list[Direction | None] = []
    for position, (rate, known, time) in enumerate(zip(rates, keys, seconds, strict=True)):
        others = [other for i, other in enumerate(rates) if i != position]
        if rate is None or time is None or None in others:
            directions.append(None)
            continue
        probes = float(sum(other or 0.0 for other in others))
        stored = rate * time
        keys_there = known or stored or 1.0
        directions.append(Direction(probes, min(1.0, probes), rate, stored, keys_there))
    return directions


def indexed_cost(d: Direction, w: Weights) -> float:
    """Nanoseconds a micro-batch, A to B, for a window of sorted segments.

    As equation 3, with three changes. A batch is sorted at once and expires with its segment, so
    nothing is searched when rows expire. A row is merged a few times instead. A probe visits each
    of about ten segments, whatever the keys."""
    times_merged = max(0.0, math.log(max(d.stored / SEGMENTS / max(d.rows, 1.0), 1.0), _FAN))
    upkeep = d.rows * (w.sort + w.merge * times_merged)
    segments = d.sorted_segments
    probe = _searching(d.per_batch, d.stored / segments, d.keys, w) + w.call
    return upkeep + d.probing * segments * probe


def plain_cost(d: Direction, w: Weights) -> float:
    """Nanoseconds a micro-batch, A to B, for a window without an index.

    As equation 2, with one change. All new rows of a batch share one scan of the window, so the
    cost depends on the number of batches in which A has rows, not on A's rows. Only stored rows
    with a key of one of the new rows are compared further."""
    segments = d.plain_segments
    size = d.stored / segments
    if size < d.per_batch:
        probe = size * w.sort + _searching(d.per_batch, size, d.keys, w)
    else:
        probe = _searching(size, d.per_batch, d.keys, w) + d.per_batch * w.sort / segments
    return d.probing * segments * (probe + w.call)


def _searching(searchers: float, among: float, keys: float, w: Weights) -> float:
    """Nanoseconds for rows that search in a sorted index. Where many search among few, a filter
    comes first (:mod:`watersmeet.segments.probe`)."""
    if among > 4 * searchers:
        return searchers * w.search
    found = 1 - math.exp(-among / max(keys, 1.0))
    return searchers * (w.scan + found * w.hit)
