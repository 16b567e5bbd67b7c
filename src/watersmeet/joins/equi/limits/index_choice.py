"""Whether a window's segments get an index, or stay plain; and when that choice changes.

After every micro-batch with data the cost model is asked what each window would cost either way,
for the averages of what the streams have brought. A window switches when the other way has been
clearly cheaper for several micro-batches in a row. Existing segments stay as they are, and every
segment is probed by what it has: so a switch costs nothing and changes no result.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.cost.engine import Direction, Weights, indexed_cost, plain_cost
from watersmeet.joins.equi.flow import Flow
from watersmeet.state.window import Window

#: The other way is clearly cheaper if it costs less than this share of the present one.
CLEARLY = 0.8
#: A window switches when that was so for this many micro-batches in a row.
PATIENCE = 3


def measured_workload(own: Flow, others: Sequence[Flow], stored: float) -> Direction:
    """What a window has to do: new rows of the other streams probe the stream's own window."""
    return Direction(
        probes=sum(flow.rows for flow in others),
        probing=max((flow.present for flow in others), default=0.0),
        rows=own.rows,
        stored=stored,
        keys=own.keys or 1.0,
    )


def switch_indexes(
    names: Sequence[str], flows: Sequence[Flow], windows: Sequence[Window], weights: Weights
) -> list[str]:
    """Switch each window for which that has been clearly cheaper long enough; notes that say
    what changed, and why."""
    notes = []
    for position, (name, flow, window) in enumerate(zip(names, flows, windows, strict=True)):
        others = [other for i, other in enumerate(flows) if i != position]
        workload = measured_workload(flow, others, window.rows)
        indexed, plain = indexed_cost(workload, weights), plain_cost(workload, weights)
        present, other = (indexed, plain) if flow.indexed else (plain, indexed)
        flow.switch_votes = flow.switch_votes + 1 if other < CLEARLY * present else 0
        if flow.switch_votes >= PATIENCE:
            flow.indexed, flow.switch_votes = not flow.indexed, 0
            way = "with an index" if flow.indexed else "plain"
            notes.append(
                f"{name} is stored {way} from now on: {other / 1e6:.2f} ms a micro-batch instead "
                f"of {present / 1e6:.2f} ms, for {workload}"
            )
    return notes
