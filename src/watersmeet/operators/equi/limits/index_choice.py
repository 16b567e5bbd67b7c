"""How a window is held: with an index, or plain. Decided, and decided again.

After every micro-batch with data the cost model is asked what each window would cost
either way, for what the streams have brought on average. A window changes its way when
the other one has been clearly cheaper for several micro-batches in a row. Segments
that are there stay as they are, and every segment is probed as it is: so a change costs
nothing, and changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.cost.engine import Direction, Weights, keeping_indexed, keeping_plain
from watersmeet.operators.equi.flow import Flow
from watersmeet.state.window import Window

#: The other way must cost less than this share of the present one's cost,
CLEARLY = 0.8
#: for so many micro-batches in a row.
PATIENCE = 3


def direction(own: Flow, others: Sequence[Flow], stored: float) -> Direction:
    """The others' new rows probe the stream's own window."""
    return Direction(
        probes=sum(flow.rows for flow in others),
        probing=max((flow.present for flow in others), default=0.0),
        rows=own.rows,
        stored=stored,
        keys=own.keys or 1.0,
    )


def reconsider(
    names: Sequence[str], flows: Sequence[Flow], windows: Sequence[Window], weights: Weights
) -> list[str]:
    """Let each window change its way of holding rows; what changed, and why."""
    notes = []
    for position, (name, flow, window) in enumerate(zip(names, flows, windows, strict=True)):
        others = [other for i, other in enumerate(flows) if i != position]
        d = direction(flow, others, window.rows)
        indexed, plain = keeping_indexed(d, weights), keeping_plain(d, weights)
        present, other = (indexed, plain) if flow.indexed else (plain, indexed)
        flow.leaning = flow.leaning + 1 if other < CLEARLY * present else 0
        if flow.leaning >= PATIENCE:
            flow.indexed, flow.leaning = not flow.indexed, 0
            way = "with an index" if flow.indexed else "plain"
            notes.append(
                f"{name} is held {way} from now on: {other / 1e6:.2f} ms a micro-batch instead of "
                f"{present / 1e6:.2f} ms, for {d}"
            )
    return notes
