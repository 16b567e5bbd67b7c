"""Several predicates, one after the other: those first that reject most for their cost.

**Rule.** A predicate that costs c for a pair and holds for the share s of them has the rank
(s - 1) / c. Applied in ascending order of their ranks, predicates cost least in all; the result is
the same in any order. Costs and shares are measured as pairs are compared, and older measurements
fade. A predicate that has not been measured yet is tried on a few pairs first.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.operators.ring.block import Block, Crossed
from watersmeet.operators.ring.counters import RingCounters
from watersmeet.operators.ring.layout import RingLayout
from watersmeet.rows.columns import Bools, Positions
from watersmeet.rows.predicate import Predicate

#: Where a predicate is not measured yet, this many pairs are compared first.
_FEW = 256
#: What a step measures weighs less by this factor in each step after it.
_FADE = 0.9
#: Comparisons that take longer than this, in seconds, are worth a note in the metrics.
LONG = 30.0


@dataclass
class Measured:
    """How many pairs a predicate has compared, for how many it held, and the seconds that it
    took; what is older counts less."""

    pairs: float = 0.0
    passed: float = 0.0
    seconds: float = 0.0

    @property
    def selectivity(self) -> float | None:
        """The share of pairs for which it held; None before there were any."""
        return self.passed / self.pairs if self.pairs else None

    @property
    def rank(self) -> float:
        """The lower, the sooner it is to be applied.

        >>> cheap, selective = Measured(100, 50, 0.001), Measured(100, 1, 0.01)
        >>> cheap.rank < selective.rank
        True
        """
        if not self.pairs:
            return -np.inf
        return (self.passed - self.pairs) / max(self.seconds, 1e-9)

    def fade(self) -> None:
        self.pairs *= _FADE
        self.passed *= _FADE
        self.seconds *= _FADE


class Cascade:
    """Applies the predicates of a join; lives for a step."""

    def __init__(
        self, layout: RingLayout, measured: Sequence[Measured], counters: RingCounters
    ) -> None:
        self._layout = layout
        self._measured = measured
        self._counters = counters
        self._seconds = [0.0] * len(measured)
        for known in measured:
            known.fade()

    def satisfying(self, due: Sequence[int], block: Block) -> Positions:
        """Which of the combinations satisfy the predicates of these numbers, by position."""
        unknown = len(due) > 1 and any(not self._measured[number].pairs for number in due)
        if not unknown or len(block) <= _FEW:
            return self._filtered(due, block)
        parts = np.arange(_FEW), np.arange(_FEW, len(block))
        return np.concatenate([part[self._filtered(due, block.at(part))] for part in parts])

    def crossed(self, due: Sequence[int], block: Crossed) -> Positions:
        """The same, where formulas say all. Each is computed for all pairs: that is cheaper than to
        gather those that are left."""
        mask: Bools | None = None
        for number in due:
            predicate = self._layout.conditions.predicates[number]
            assert predicate.formula is not None, "all that is due is a formula"
            began = time.perf_counter()
            holds = block.mask(predicate.formula, self._names(predicate))
            self._measure(number, len(block), int(np.count_nonzero(holds)), began)
            mask = holds if mask is None else mask & holds
        assert mask is not None, "there is a predicate to apply"
        return np.flatnonzero(mask)

    def finish(self) -> None:
        """Count the time that predicates took; if it was long, note which of them took it."""
        counters, total = self._counters, sum(self._seconds)
        counters.predicate_ms += round(total * 1000)
        if total < LONG:
            return
        slowest = max(range(len(self._seconds)), key=self._seconds.__getitem__)
        counters.notes.append(
            f"{counters.pairs:,} pairs were compared in {total:,.0f} s, in {counters.blocks:,} "
            f"blocks; {self._layout.conditions.predicates[slowest].text} took "
            f"{self._seconds[slowest] / total:.0%} of the time"
        )

    def _filtered(self, due: Sequence[int], block: Block) -> Positions:
        left: Positions | None = None
        for number in sorted(due, key=lambda number: self._measured[number].rank):
            began = time.perf_counter()
            part = block if left is None else block.at(left)
            holds = self._holding(self._layout.conditions.predicates[number], part)
            self._measure(number, len(part), len(holds), began)
            left = holds if left is None else left[holds]
            if not len(left):
                break
        assert left is not None, "there is a predicate to apply"
        return left

    def _measure(self, number: int, pairs: int, passed: int, began: float) -> None:
        """Note that a predicate held for so many of these pairs, and took the time since then."""
        took, measured = time.perf_counter() - began, self._measured[number]
        measured.pairs += pairs
        measured.passed += passed
        measured.seconds += took
        self._seconds[number] += took

    def _names(self, predicate: Predicate) -> dict[tuple[int, str], str]:
        """What the columns of a predicate are called where they are stored."""
        return {
            (of, name): self._layout.streams[of].rows.stored[name] for of, name in predicate.columns
        }

    def _holding(self, predicate: Predicate, block: Block) -> Positions:
        """Where a predicate holds."""
        columns = [
            block.column(of, stored, again=predicate.forgets)
            for (of, _), stored in self._names(predicate).items()
        ]
        return predicate.satisfying(columns)
