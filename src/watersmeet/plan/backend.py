"""What planning asks of the place where a join will run."""

from __future__ import annotations

from typing import Protocol

from watersmeet.conditions.terms import Term
from watersmeet.cost.engine import Weights
from watersmeet.cost.slices import SliceWeights


class Backend(Protocol):
    """Spark, or this process alone (:mod:`watersmeet.testing`)."""

    @property
    def shards(self) -> int:
        """The number of parts of the state."""

    @property
    def cores(self) -> int | None:
        """How many shards are stepped side by side; None: not known."""

    def weights(self) -> Weights:
        """How fast the machine is."""

    def slice_weights(self) -> SliceWeights:
        """How fast it compares and sends rows."""

    def translate(self, sql: str) -> tuple[Term, ...]:
        """The terms of a condition in SQL over the streams."""
