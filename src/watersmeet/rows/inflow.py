"""What a micro-batch brings of one input, over all shards: how many rows and bytes, and the bounds
of their times.

**Invariant.** It follows from the rows alone. So however they are cut, and whichever task packs
them, the same micro-batch has the same inflow: that of its parts, added up.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.columns import TIME


@dataclass
class Inflow:
    """So many ``rows``, of ``size`` bytes; ``oldest`` and ``newest`` are the bounds of their
    times in microseconds, None without any.

    >>> one, other = Inflow(2, 80, oldest=5, newest=7), Inflow(1, 40, oldest=3, newest=3)
    >>> one.merge(other)
    >>> Inflow.from_bytes(one.to_bytes())
    Inflow(rows=3, size=120, oldest=3, newest=7)
    """

    rows: int = 0
    size: int = 0
    oldest: int | None = None
    newest: int | None = None

    def add(self, rows: pa.RecordBatch | None) -> None:
        """Count rows, as they are stored."""
        if rows is None or not len(rows):
            return
        oldest = newest = None
        if TIME in rows.schema.names:
            bounds = pc.min_max(rows.column(TIME).view(pa.int64())).as_py()
            oldest, newest = bounds["min"], bounds["max"]
        self.merge(Inflow(len(rows), rows.nbytes, oldest, newest))

    def merge(self, other: Inflow) -> None:
        """Count what another part of the micro-batch has brought."""
        self.rows += other.rows
        self.size += other.size
        if other.oldest is not None and other.newest is not None:
            self.oldest = other.oldest if self.oldest is None else min(self.oldest, other.oldest)
            self.newest = other.newest if self.newest is None else max(self.newest, other.newest)

    def to_bytes(self) -> bytes:
        """Their form on the way to the shards."""
        return json.dumps(astuple(self)).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Inflow:
        """The inverse of :meth:`to_bytes`."""
        return cls(*json.loads(value))
