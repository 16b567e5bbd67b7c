"""What all parts of one step share.

**No cycles.** The parts of a step refer to the context and to the parts made before them; the
context refers to none of them. A cycle of references would keep the step's segments open until
garbage is collected, which workers hardly ever do.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.operators.base import Counters
from watersmeet.operators.equi.layout import JoinLayout
from watersmeet.operators.equi.output import Output
from watersmeet.operators.equi.state import EquiState


@dataclass(frozen=True)
class StepContext:
    """The join's layout, a shard's state, the step's counters and the results' builder. It lives
    for one step."""

    layout: JoinLayout
    state: EquiState
    counters: Counters
    output: Output

    @property
    def names(self) -> list[str]:
        """The streams' names."""
        return [stream.name for stream in self.layout.inputs]


def other_stream(stream: int) -> int:
    """The other one of two streams."""
    return 1 - stream
