"""The predicates of a ring join, in the order that costs least
(:mod:`watersmeet.conditions.cascade`). What is measured is kept from step to step, and fades."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from watersmeet.conditions.cascade import Cascade, PredicateStatistics
from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.ring.counters import RingCounters
from watersmeet.joins.ring.layout import RingLayout
from watersmeet.joins.ring.search.block import Block
from watersmeet.joins.ring.search.crossing import Crossed
from watersmeet.rows.columns import Bools, Positions

#: Comparisons that take longer than this, in seconds, are worth a note in the metrics.
LONG = 30.0


class RingCascade:
    """Applies the predicates of a join; lives for a step."""

    def __init__(
        self, layout: RingLayout, measured: Sequence[PredicateStatistics], counters: RingCounters
    ) -> None:
        self._layout = layout
        self._cascade = Cascade(measured)
        self._counters = counters
        for known in measured:
            known.fade()

    def satisfying(self, due: Sequence[int], block: Block) -> Positions:
        """Which of the combinations satisfy the predicates of these numbers, by position."""

        def holding(number: int, left: Positions | None) -> Positions:
            part = block if left is None else block.at(left)
            return self._holding(self._layout.conditions.predicates[number], part)

        return self._cascade.satisfying(due, len(block), holding)

    def crossed(self, due: Sequence[int], block: Crossed) -> Bools:
        """The same, by probing row and place in the run, where formulas say all. Each is computed
        for all pairs: that is cheaper than to gather those that are left."""
        mask: Bools | None = None
        for number in due:
            formula = self._layout.conditions.predicates[number].formula
            assert formula is not None, "all that is due is a formula"
            began = time.perf_counter()
            holds = block.mask(formula)
            self._cascade.measure(number, len(block), int(np.count_nonzero(holds)), began)
            mask = holds if mask is None else mask & holds
        assert mask is not None, "there is a predicate to apply"
        return mask

    def finish(self) -> None:
        """Count the time that predicates took; if it was long, note which of them took it."""
        counters, seconds = self._counters, self._cascade.seconds
        total = sum(seconds)
        counters.predicate_ms += round(total * 1000)
        if total < LONG:
            return
        slowest = max(range(len(seconds)), key=seconds.__getitem__)
        counters.notes.append(
            f"{counters.pairs:,} pairs were compared in {total:,.0f} s, in {counters.blocks:,} "
            f"blocks; {self._layout.conditions.predicates[slowest].text} took "
            f"{seconds[slowest] / total:.0%} of the time"
        )

    def _holding(self, predicate: Predicate, block: Block) -> Positions:
        """Where a predicate holds."""
        columns = [
            block.column(of, self._layout.streams[of].rows.stored[name], again=predicate.forgets)
            for of, name in predicate.columns
        ]
        return predicate.satisfying(columns)
