"""How a step matches rows: in pairs or in combinations. The choice is made here, once a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.limits.debts import Debts
from watersmeet.joins.equi.match.combinations import CombinationMatcher
from watersmeet.joins.equi.match.pair_probe import PairProbe
from watersmeet.joins.equi.match.pairs import PairMatcher
from watersmeet.joins.equi.promises.promised_keys import Promised
from watersmeet.rows.columns import Bools
from watersmeet.segments.segment import Segment


class Matcher(Protocol):
    """Matches new rows with stored ones. It lives for a step."""

    def arrive(self, stream: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows of one stream make with what is stored of the others; then
        the new rows are stored."""
        ...

    def unmatched(self, stream: int, rows: pa.RecordBatch, due: Bools) -> Iterator[pa.RecordBatch]:
        """The results for those of a stored segment's rows that are ``due``: of a preserved
        stream, not marked as matched, and expired."""
        ...


def matcher_of(context: StepContext, promised: Promised, probe: PairProbe, debts: Debts) -> Matcher:
    """The matcher for the number of streams that the join has."""
    if len(context.layout.inputs) == 2:
        return PairMatcher(context, promised, probe, debts)
    return CombinationMatcher(context)
