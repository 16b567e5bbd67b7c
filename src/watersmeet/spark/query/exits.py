"""How rows leave the stateful operator: as results, or as capsules for the next operator.

Either way a column is added that carries the step's counters, in a row of their own; it is null in
all other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from watersmeet.rows.columns import concat
from watersmeet.rows.gathering import Gathering
from watersmeet.spark.query.capsule import CAPSULE_ARROW, PACK_ROWS, Pack
from watersmeet.spark.query.counters import REPORT

#: Result pieces are gathered into frames of about this number of rows or bytes.
FRAME_ROWS = 1 << 18
FRAME_BYTES = 8 << 20
#: A batch of at most this number of bytes is small.
SMALL_BYTES = 64 << 10
_REPORT = pa.field(REPORT, pa.string())


#: What an operator that hands rows on emits: the number of an input of the next one, and rows.
HandedRows: TypeAlias = tuple[int, pa.RecordBatch]

Emitted = TypeVar("Emitted", contravariant=True)


class Exit(Protocol[Emitted]):
    """Turns what a step emits into batches of one schema."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the batches."""

    def batches(self, emitted: Iterator[Emitted], *, first: bool) -> Iterator[pa.RecordBatch]:
        """What leaves; ``first``: is the step that of the first shard?"""

    def in_task(self, limit: int | None) -> Exit[Emitted]:
        """The same, as the query needs it that this task belongs to: at most ``limit`` bytes are
        gathered, if there is one."""


@dataclass(frozen=True)
class ResultExit:
    """Results leave as they are, in batches that are large enough to be cheap and small enough
    to stream: of about so many ``rows``, or bytes (``size``)."""

    schema: pa.Schema
    rows: int = FRAME_ROWS
    size: int = FRAME_BYTES

    def batches(
        self, emitted: Iterator[pa.RecordBatch], *, first: bool
    ) -> Iterator[pa.RecordBatch]:
        gathering = Gathering(self.rows, self.size)
        for batch in emitted:
            yield from gathering.add(batch)
        yield from gathering.rest()

    def in_task(self, limit: int | None) -> ResultExit:
        return self if limit is None else replace(self, size=min(self.size, limit))


@dataclass(frozen=True)
class CapsuleExit:
    """Rows leave as capsules for the next operator, by the pack of the input that they are for.
    The first shard also wakes every shard of that operator."""

    packs: tuple[Pack, ...]

    @property
    def schema(self) -> pa.Schema:
        return CAPSULE_ARROW

    def batches(self, emitted: Iterator[HandedRows], *, first: bool) -> Iterator[pa.RecordBatch]:
        if first:
            yield self.packs[0].heartbeat()
        gathering = [Gathering(PACK_ROWS, pack.limit) for pack in self.packs]
        for number, rows in emitted:
            for batch in gathering[number].add(rows):
                yield from self.packs[number].packed(batch)
        for pack, gathered in zip(self.packs, gathering, strict=True):
            for batch in gathered.rest():
                yield from pack.packed(batch)

    def in_task(self, limit: int | None) -> CapsuleExit:
        return CapsuleExit(tuple(pack.in_task(limit) for pack in self.packs))


def with_last_report(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, report: Callable[[], str]
) -> Iterator[pa.RecordBatch]:
    """All batches, with the column for counters, and the report, which is asked for when all of
    them have been taken. A small last batch takes it along: each frame takes a millisecond in
    PySpark, whatever is in it."""
    small: list[pa.RecordBatch] = []
    for rows in batches:
        yield from small
        small = [with_report(rows)]
        if rows.nbytes > SMALL_BYTES:
            yield from small
            small = []
    yield concat([*small, report_row(schema, report())])


def with_report(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows with the column for counters, which is null."""
    return rows.append_column(_REPORT, pa.nulls(len(rows), _REPORT.type))


def report_row(schema: pa.Schema, text: str) -> pa.RecordBatch:
    """A row that is no result: it carries the step's counters and notes."""
    nothing = [pa.nulls(1, field.type) for field in schema]
    columns = [*nothing, pa.array([text], _REPORT.type)]
    return pa.RecordBatch.from_arrays(columns, schema=schema.append(_REPORT))
