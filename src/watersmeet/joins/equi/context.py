"""What all parts of one step share.

**No cycles.** The parts of a step refer to the context and to the parts made before them; the
context refers to none of them. A cycle of references would keep the step's segments open until
garbage is collected, which workers hardly ever do.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.state import EquiState
from watersmeet.rows.output import Output


@dataclass(frozen=True)
class StepContext:
    """The join's layout, a shard's state and the step's counters. It lives for one step."""

    layout: EquiLayout
    state: EquiState
    counters: EquiCounters

    @property
    def output(self) -> Output:
        """Builds results."""
        return self.layout.output

    @property
    def names(self) -> list[str]:
        """The streams' names."""
        return [stream.name for stream in self.layout.inputs]


def other_stream(stream: int) -> int:
    """The other one of two streams."""
    return 1 - stream
