"""In which order new rows look into the other streams' windows.

A row that meets nothing in one window is done with, and looks into no further one. So the
window in which fewest rows meet something comes first (multiway paper, section 3.1). How
many do is measured: every few micro-batches, a sample of a stream's new rows looks into all
windows. A sequence changes when another one is clearly cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.cost.multiway import most_selective_first, probes
from watersmeet.operators.equi.flow import Flow

#: A stream's rows are sampled in its first micro-batch and every so many after that;
EVERY = 8
#: so many of them.
SAMPLE = 512
#: Another sequence must cost less than this share of the present one's cost.
CLEARLY = 0.9


def is_due(flow: Flow) -> bool:
    """Is it time to sample the stream's new rows? Once in a micro-batch is enough."""
    return flow.sampled is None or (flow.steps % EVERY == 0 and flow.sampled != flow.steps)


def reconsider(
    driver: int, flow: Flow, names: Sequence[str], *, through: int | None = None
) -> list[str]:
    """Let new rows of a stream take another sequence from now on; what changed, and why."""
    best = most_selective_first(driver, flow.meeting, through=through)
    if best == flow.sequence:
        return []
    if flow.sequence and probes(best, flow.meeting) > CLEARLY * probes(flow.sequence, flow.meeting):
        return []
    flow.sequence = best
    looks = ", then ".join(f"{names[i]} (met by {flow.meeting[i]:.1%})" for i in best)
    return [f"new rows of {names[driver]} look into {looks} from now on"]
