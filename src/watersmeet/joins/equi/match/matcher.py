"""What matches rows in a step: in pairs (:mod:`.pairs`) or in combinations
(:mod:`.combinations`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from watersmeet.rows.columns import Bools
from watersmeet.segments.segment import Segment


class Matcher(Protocol):
    """Matches new rows with stored ones. It lives for a step."""

    def arrive(self, stream: int, fresh: Segment) -> Iterator[pa.RecordBatch]:
        """The results that new rows of one stream make with what is stored of the others; then
        the new rows are stored."""

    def unmatched(self, stream: int, rows: pa.RecordBatch, due: Bools) -> Iterator[pa.RecordBatch]:
        """The results for those of a stored segment's rows that are ``due``: of a preserved
        stream, not marked as matched, and expired."""
