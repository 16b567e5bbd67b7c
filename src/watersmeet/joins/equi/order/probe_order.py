"""In which order new rows probe the other streams' windows.

A row without a match in one window makes no result, and probes no further window. So the most
selective window comes first: the one in which the smallest share of rows finds a match (multiway
paper, section 3.1). These *match rates* are measured: every few micro-batches, a sample of a
stream's new rows probes all windows. A probe order changes when another one is clearly cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.cost.multiway import most_selective_first, probes
from watersmeet.joins.equi.flow import Flow

#: A stream's rows are sampled in its first micro-batch, and in every EVERY-th after that.
EVERY = 8
#: How many rows a sample has.
SAMPLE = 512
#: Another probe order must cost less than this share of the present one's cost.
CLEARLY = 0.9


def is_due(flow: Flow) -> bool:
    """Shall the stream's new rows be sampled now? At most once in a micro-batch."""
    return flow.sampled is None or (flow.steps % EVERY == 0 and flow.sampled != flow.steps)


def revise(
    driver: int, flow: Flow, names: Sequence[str], *, through: int | None = None
) -> list[str]:
    """Change the probe order of a stream's new rows if another one is clearly cheaper; a note
    that says what changed, and why."""
    rates = flow.match_rates
    best = most_selective_first(driver, rates, through=through)
    if best == flow.probe_order:
        return []
    if flow.probe_order and probes(best, rates) > CLEARLY * probes(flow.probe_order, rates):
        return []
    flow.probe_order = best
    windows = ", then ".join(f"{names[i]} (matched by {rates[i]:.1%})" for i in best)
    return [f"new rows of {names[driver]} probe {windows} from now on"]
