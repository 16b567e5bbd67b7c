"""How a stream's rows are stored: which columns they have, and what each is computed from.

A backend encodes rows by this alone: Spark in SQL expressions
(:mod:`watersmeet.spark.query.encode`), a local run over Arrow arrays
(:mod:`watersmeet.rows.encode`). The user's names never appear among the stored names: they may be
anything.

A key's *code* is 64 bits by which rows are dealt out, sorted and probed. A single key of an
integral, date or timestamp type is *exact*: the code is its value, and equal codes are equal
keys. Any other key is hashed to its code, its columns are stored beside it, and rows with equal
codes are compared again by them. A null in the key makes a null code, which matches nothing.

Rows of a join without a key have a code too: a hash of their content, by which they are dealt out
evenly, whatever their times. Where a row must be known again, a second hash is its *check*: rows
with equal codes and checks have equal content, except by a chance of 2**-128.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from watersmeet.rows.columns import (
    CHECK,
    CODE,
    HIGH,
    LOW,
    PUNCTUATION,
    TIME,
    key_name,
    value_name,
)
from watersmeet.spec.join import exact_key
from watersmeet.spec.stream import StreamSpec


@dataclass(frozen=True)
class Key:
    """A key column, in the type in which it is compared and with equal keys as equal bytes: one
    NaN, and no negative zero."""

    column: str
    type: str

    def alters(self, type: str) -> bool:
        """May it differ from the column that it is made of, which is of that type?"""
        return type != self.type or type in ("float", "double")


@dataclass(frozen=True)
class Code:
    """The code of a key."""

    keys: tuple[Key, ...]
    exact: bool


@dataclass(frozen=True)
class Value:
    """A column as it is."""

    column: str


@dataclass(frozen=True)
class Flag:
    """Does a SQL condition over the stream's columns hold? A null counts as no."""

    when: str


@dataclass(frozen=True)
class Content:
    """A hash of the values in some columns: rows of equal content have the same hash. With
    ``complete``, other rows have it only by chance: nulls and nested values count too."""

    columns: tuple[str, ...]
    complete: bool = False


Encoding = Key | Code | Value | Flag | Content


@dataclass(frozen=True)
class RowLayout:
    """``columns`` are the stored columns in order, each with its encoding; ``stored`` has, for each
    column of the user's, the name of the stored column."""

    columns: tuple[tuple[str, Encoding], ...]
    stored: dict[str, str]


def row_layout(
    stream: StreamSpec,
    keys: Sequence[str],
    key_types: Sequence[str],
    *,
    needed: Collection[str],
    as_came: Collection[str] = (),
) -> RowLayout:
    """Rows with a key, their time, and the columns that are ``needed``. Those of the key are read
    as they are compared, but for some that are needed ``as_came``."""
    exact = exact_key(key_types)
    parts = tuple(Key(name, kind) for name, kind in zip(keys, key_types, strict=True))
    columns: list[tuple[str, Encoding]] = [(CODE, Code(parts, exact))]
    stored = {name: CODE if exact else key_name(i) for i, name in enumerate(keys)}
    if stream.punctuation is not None:
        columns.append((PUNCTUATION, Flag(stream.punctuation.when)))
        for name, bound in ((LOW, stream.punctuation.low), (HIGH, stream.punctuation.high)):
            if exact and bound is not None:
                columns.append((name, Code((Key(bound, key_types[0]),), exact)))
    if stream.time is not None:
        columns.append((TIME, Value(stream.time)))
        stored.setdefault(stream.time, TIME)
    if not exact:
        columns += [(key_name(i), part) for i, part in enumerate(parts)]
        for part in parts:
            if part.column in as_came and part.alters(stream.column(part.column).type):
                del stored[part.column]
    return _with_values(columns, stored, needed)


def keyless_layout(
    stream: StreamSpec, *, needed: Collection[str], identified: bool = False
) -> RowLayout:
    """Rows without a key: the hash of their content, their time, and the columns that are
    ``needed``. ``identified``: must a row be known again?"""
    timed = [] if stream.time is None else [stream.time]
    content = tuple(dict.fromkeys([*timed, *sorted(needed)]))
    columns: list[tuple[str, Encoding]] = [(CODE, Content(content))]
    stored: dict[str, str] = {}
    if identified:
        columns.append((CHECK, Content(content, complete=True)))
    if stream.time is not None:
        columns.append((TIME, Value(stream.time)))
        stored[stream.time] = TIME
    return _with_values(columns, stored, needed)


def _with_values(
    columns: Sequence[tuple[str, Encoding]], stored: Mapping[str, str], needed: Collection[str]
) -> RowLayout:
    """A layout with these columns, and with the ``needed`` ones that are not among them. Those are
    numbered in the order of their names: so other columns of the stream, and their order, do not
    matter for what is stored."""
    names = sorted({*needed} - stored.keys())
    values = {name: value_name(number) for number, name in enumerate(names)}
    added = [(values[name], Value(name)) for name in names]
    return RowLayout((*columns, *added), {**stored, **values})
