"""Several predicates, one after the other: first those that reject most for their cost.

**Rule.** A predicate that costs c for a pair and holds for the share s of pairs has the precedence
(s - 1) / c. In ascending order of precedence, predicates cost least in all; the result is the same
in any order. Costs and shares are measured as pairs are compared. A predicate that has not
been measured yet is tried on a few pairs first.

**Example.** Predicate A costs 1 us and holds for half of the pairs; B costs 10 us and holds for a
hundredth of them. A has the precedence -0.5 / 1 = -0.5, and B has -0.99 / 10 = -0.099::

    A, then B    1 + 0.5 * 10   =  6.00 us for a pair
    B, then A    10 + 0.01 * 1  = 10.01 us for a pair
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.rows.columns import Positions

#: If a predicate has not been measured yet, this many pairs are compared first.
_FEW = 256
#: Old measurements fade: they weigh less by this factor.
_FADE = 0.9

#: Gets the number of a predicate, and the positions of some pairs (None: of all pairs). Returns the
#: pairs for which the predicate holds, by their number among these.
Holding = Callable[[int, Positions | None], Positions]


@dataclass
class PredicateStatistics:
    """How many pairs a predicate has compared, for how many it held, and the seconds that it
    took. Older measurements may count less."""

    pairs: float = 0.0
    passed: float = 0.0
    seconds: float = 0.0

    @property
    def selectivity(self) -> float | None:
        """The share of pairs for which it held; None before it has compared any."""
        return self.passed / self.pairs if self.pairs else None

    @property
    def precedence(self) -> float:
        """The lower it is, the sooner the predicate is applied.

        >>> cheap = PredicateStatistics(pairs=100, passed=50, seconds=0.001)
        >>> selective = PredicateStatistics(pairs=100, passed=1, seconds=0.01)
        >>> cheap.precedence < selective.precedence
        True
        """
        if not self.pairs:
            return -np.inf
        return (self.passed - self.pairs) / max(self.seconds, 1e-9)

    def add(self, pairs: int, passed: int, seconds: float) -> None:
        """It held for so many of these pairs, and took the time."""
        self.pairs += pairs
        self.passed += passed
        self.seconds += seconds

    def fade(self) -> None:
        self.pairs *= _FADE
        self.passed *= _FADE
        self.seconds *= _FADE


class Cascade:
    """Applies predicates, known by their numbers, and measures them. ``seconds`` is the time that
    each has taken in this cascade."""

    def __init__(self, measured: Sequence[PredicateStatistics]) -> None:
        self._measured = measured
        self.seconds = [0.0] * len(measured)

    def satisfying(self, due: Sequence[int], count: int, holding: Holding) -> Positions:
        """Which of so many pairs satisfy the predicates of these numbers, by position."""
        unknown = len(due) > 1 and any(not self._measured[number].pairs for number in due)
        if not unknown or count <= _FEW:
            return self._filtered(due, None, count, holding)
        parts = np.arange(_FEW), np.arange(_FEW, count)
        return np.concatenate([self._filtered(due, part, len(part), holding) for part in parts])

    def measure(self, number: int, pairs: int, passed: int, began: float) -> None:
        """Note that a predicate held for so many of these pairs, and took the time since then."""
        took = time.perf_counter() - began
        self._measured[number].add(pairs, passed, took)
        self.seconds[number] += took

    def _filtered(
        self, due: Sequence[int], left: Positions | None, count: int, holding: Holding
    ) -> Positions:
        for number in sorted(due, key=lambda number: self._measured[number].precedence):
            began = time.perf_counter()
            holds = holding(number, left)
            self.measure(number, count, len(holds), began)
            left, count = holds if left is None else left[holds], len(holds)
            if not count:
                break
        assert left is not None, "there is a predicate to apply"
        return left
