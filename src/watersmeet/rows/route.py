"""Routes: to which shards a stream's rows go.

A route is part of the state's format: a change moves rows away from the state they belong to.
It depends on the content of a row, never on its position: a map task that is run again may see its
rows in another order. (Rows without a key are dealt by count before that, in a way that does not
depend on their order either: :mod:`watersmeet.rows.dealing`.)

======================  ==============================================================
:class:`ByKey`          to one shard, that of its key; the rows of a table that is
                        staged by the same hash find the stream's there
:class:`Home`           to one shard, that of its code
:class:`First`          to the first shard
:class:`Everywhere`     to every shard
:class:`StoredInOne`    to every shard, to be stored in one of them, its home, and to
                        probe all
======================  ==============================================================

New rows are dealt to the first ``slices`` shards; the first ``reach`` shards may hold rows. Without
these numbers, or if there are fewer shards, all shards are meant.

**Example.** There are three shards, and the code of a row belongs to shard 1::

    Home          to shard 1
    Everywhere    to the shards 0, 1 and 2
    StoredInOne   to the shards 0, 1 and 2; in 1 it is at home, and stored; it probes all three
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.rows.columns import CODE, HOME, PUNCTUATION, Ints, codes_or_zero, has_code
from watersmeet.rows.shard import shard_numbers

#: A shard's number, and rows for it.
ShardRows = tuple[int, pa.RecordBatch]


class Route(Protocol):
    """Where rows go."""

    def deal(self, rows: pa.RecordBatch, shards: int) -> Iterator[ShardRows]:
        """The rows for each shard; a shard may come several times, or not at all."""


@dataclass(frozen=True)
class Everywhere:
    """Every row goes to every shard."""

    reach: int | None = None

    def deal(self, rows: pa.RecordBatch, shards: int) -> Iterator[ShardRows]:
        for number in range(_first(self.reach, shards)):
            yield number, rows


@dataclass(frozen=True)
class First:
    """Every row goes to the first shard."""

    def deal(self, rows: pa.RecordBatch, shards: int) -> Iterator[ShardRows]:
        yield 0, rows


@dataclass(frozen=True)
class Home:
    """A row goes to the shard of its code, which is not null."""

    slices: int | None = None

    def deal(self, rows: pa.RecordBatch, shards: int) -> Iterator[ShardRows]:
        yield from _dealt(
            rows, shard_numbers(rows.column(CODE), _first(self.slices, shards)), shards
        )


@dataclass(frozen=True)
class ByKey:
    """A row goes to the shard of its key; a punctuation of more than one key to all of them."""

    def deal(self, rows: pa.RecordBatch, shards: int) -> Iterator[ShardRows]:
        if shards == 1:
            yield 0, rows
            return
        rows, everywhere = _for_one_shard(rows)
        yield from _dealt(rows, _numbers(rows, shards), shards)
        if len(everywhere):
            yield from Everywhere().deal(everywhere, shards)


@dataclass(frozen=True)
class StoredInOne:
    """Every row goes to every shard, with a column that tells which one stores it: the shard of its
    code. In other shards, the columns ``home_only`` are null."""

    slices: int | None = None
    reach: int | None = None
    home_only: tuple[str, ...] = ()

    def deal(self, rows: pa.RecordBatch, shards: int) -> Iterator[ShardRows]:
        numbers = _numbers(rows, _first(self.slices, shards))
        for number in range(_first(self.reach, shards)):
            home = numbers == number
            if not self.home_only:
                yield number, rows.append_column(HOME, pa.array(home))
                continue
            yield number, _at_home(rows.filter(pa.array(home)), home=True)
            visitors = rows.filter(pa.array(~home))
            yield number, _at_home(_without(visitors, self.home_only), home=False)


def with_reach(route: Route, least: int) -> Route:
    """The same route, to at least so many shards, if it leads to several.

    >>> with_reach(Everywhere(2), 4), with_reach(Everywhere(), 4), with_reach(First(), 4)
    (Everywhere(reach=4), Everywhere(reach=None), First())
    """
    if isinstance(route, Everywhere | StoredInOne) and route.reach is not None:
        return replace(route, reach=max(route.reach, least))
    return route


def with_slices(route: Route, slices: int | None) -> Route:
    """The same route, with other slices, if it has any and others are asked for.

    >>> with_slices(Home(2), 4), with_slices(Home(2), None), with_slices(First(), 4)
    (Home(slices=4), Home(slices=2), First())
    """
    if slices is not None and isinstance(route, Home | StoredInOne):
        return replace(route, slices=slices)
    return route


def _first(asked: int | None, shards: int) -> int:
    """How many shards are meant. (The query may have fewer than it was planned for.)"""
    return shards if asked is None else min(asked, shards)


def _at_home(rows: pa.RecordBatch, *, home: bool) -> pa.RecordBatch:
    return rows.append_column(HOME, pa.array(np.full(len(rows), home)))


def _without(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """The rows, with nulls in those columns."""
    columns = [
        pa.nulls(len(rows), field.type) if field.name in names else column
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _dealt(rows: pa.RecordBatch, numbers: Ints, shards: int) -> Iterator[ShardRows]:
    """The rows of each shard, given each row's."""
    # Sixteen bits make numpy sort by radix: one pass, whatever the number of rows.
    numbers = numbers.astype(np.uint16 if shards <= 1 << 16 else np.int64)
    order = np.argsort(numbers, kind="stable")
    rows = rows.take(pa.array(order))
    ends = np.searchsorted(numbers[order], np.arange(shards), side="right").tolist()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > start:
            yield number, rows.slice(start, end - start)


def _numbers(rows: pa.RecordBatch, shards: int) -> Ints:
    """The shard of each row: that of its key. A row with a null key matches nothing, so it may go
    anywhere. One shard for all of them might get too many, so a hash of its other columns
    decides."""
    codes = rows.column(CODE)
    if not codes.null_count:
        return shard_numbers(codes, shards)
    flat = [field.name for field in rows.schema if not pa.types.is_nested(field.type)]
    content = pl.DataFrame(pl.from_arrow(rows.filter(codes.is_null()).select(flat)))
    filled = codes_or_zero(rows).copy()
    filled[~has_code(rows)] = content.hash_rows(seed=0).to_numpy().view(np.int64)
    return shard_numbers(pa.array(filled), shards)


def _for_one_shard(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The rows that belong to the shard of their key, and those that belong to every
    shard: punctuations of more than one key."""
    if PUNCTUATION not in rows.schema.names or not rows.column(CODE).null_count:
        return rows, rows.slice(0, 0)
    wide = pc.and_(rows.column(PUNCTUATION).fill_null(False), rows.column(CODE).is_null())
    return rows.filter(pc.invert(wide)), rows.filter(wide)
