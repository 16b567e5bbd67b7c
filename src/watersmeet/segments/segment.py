"""A segment: rows of one stream that arrived together, with an index by key and time.

Invariant: a segment is immutable. Its rows stay in the order in which they arrived, and the index
(:mod:`watersmeet.segments.index`) is beside them. So a merge copies rows without moving them, and
merges only the sorted indexes. A bit about a row ("has matched") keeps its position.

Rule: an index is made when it is first asked for. A segment whose index nobody asks for is *plain*:
it costs nothing to keep, and a probe scans it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.rows.columns import codes_of, concat, times_of
from watersmeet.rows.widths import row_bytes
from watersmeet.segments.index import Index


class Sized(Protocol):
    """Something that takes memory."""

    @property
    def nbytes(self) -> int:
        """How many bytes."""


Made = TypeVar("Made", bound=Sized)

_INDEX_COLUMNS = ("#codes", "#times", "#order")
#: The facts about a segment that its form in the cache has besides columns.
_KNOWN = ("min_time", "max_time", "widest", "index")


@dataclass(frozen=True)
class Segment:
    """Rows and the bounds of their times.

    Invariant: no row has a null code (except in a segment that stays plain), and every time is in
    ``[min_time, max_time]``. A null time (which only a join without a window stores) is before all
    others; the times of a stream without time are zero.
    """

    rows: pa.RecordBatch
    min_time: int
    max_time: int

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Segment:
        """A plain segment of rows without null codes."""
        times = times_of(rows)
        bounds = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        return cls(rows, *bounds)

    @classmethod
    def merge(cls, segments: Sequence[Segment], *, indexed: bool = True) -> Segment:
        """One segment with the rows of all, in the given order."""
        rows = concat([segment.rows for segment in segments])
        bounds = min(s.min_time for s in segments), max(s.max_time for s in segments)
        merged = cls(rows, *bounds).with_widest(max(segment.widest for segment in segments))
        if indexed:
            merged.with_index(Index.merge([segment.index for segment in segments]))
        return merged

    @cached_property
    def index(self) -> Index:
        """The index; it is made now if there is none yet."""
        return Index.of(codes_of(self.rows), times_of(self.rows))

    @cached_property
    def widest(self) -> int:
        """The bytes of the widest row. Rows are measured now if they have not been before."""
        return int(np.max(row_bytes(self.rows, np.arange(len(self))), initial=0))

    @property
    def has_index(self) -> bool:
        """Has the index been made? Asking does not make it."""
        return "index" in self.__dict__

    def indexed(self) -> Segment:
        """This segment, with its index made."""
        index = self.index
        assert len(index.order) == len(self), "every row has its place in the index"
        return self

    def with_index(self, index: Index) -> Segment:
        """This segment, with an index that was made before."""
        self.__dict__["index"] = index
        return self

    def with_widest(self, widest: int) -> Segment:
        """This segment, whose rows have been measured before."""
        self.__dict__["widest"] = widest
        return self

    def kept(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """Data made of the rows: kept under that name, or made now. They are kept as long as the
        segment is open, which may be longer than a step; and equal rows of another stream, or of
        another query, are the same segment (:mod:`watersmeet.state.part_names`). So the name must
        say everything that the data depend on, besides the rows."""
        made: dict[Hashable, Made] = self.__dict__.setdefault("made", {})
        if name not in made:
            made[name] = make()
        return made[name]

    def close(self) -> None:
        """Forget the data made of the rows. They are made again if they are asked for."""
        self.__dict__.pop("made", None)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the rows take, with the index if there is one, and with other
        data made of the rows. They grow while the segment is in use."""
        made: dict[Hashable, Sized] = self.__dict__.get("made", {})
        kept = sum(each.nbytes for each in made.values())
        return int(self.rows.nbytes) + (20 * len(self) if self.has_index else 0) + kept

    def to_batch(self) -> pa.RecordBatch:
        """Rows, and the index if there is one, as one record batch: the form in the local cache."""
        columns, names = [*self.rows.columns], [*self.rows.schema.names]
        if self.has_index:
            index = self.index
            columns += [pa.array(index.codes), pa.array(index.times), pa.array(index.order)]
            names += _INDEX_COLUMNS
        known = (self.min_time, self.max_time, self.widest, self.has_index)
        metadata = {name: str(int(value)) for name, value in zip(_KNOWN, known, strict=True)}
        return pa.RecordBatch.from_arrays(columns, names, metadata=metadata)

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> Segment:
        """The inverse of :meth:`to_batch`; nothing is copied."""
        metadata = batch.schema.metadata
        *bounds, widest, indexed = (int(metadata[name.encode()]) for name in _KNOWN)
        user = batch.num_columns - (len(_INDEX_COLUMNS) if indexed else 0)
        rows = batch.select(list(range(user))).replace_schema_metadata(None)
        segment = cls(rows, *bounds).with_widest(widest)
        if indexed:
            arrays = (batch.column(user + i).to_numpy(zero_copy_only=True) for i in range(3))
            segment.with_index(Index(*arrays))
        return segment
