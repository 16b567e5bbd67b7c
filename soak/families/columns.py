"""Random columns: keys of every type, the few odd values of the conformance suite among many plain
ones; times out of order, some far behind; payloads that are carried along, some of them large."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tests.conformance.join import START, micros
from tests.conformance.strategies import INSTANT, PAYLOADS, KeyKind

SECOND = 1_000_000
#: A payload a hundred times larger than the others.
LARGE = "large " * 1000
#: So many results a case has at most, before any row is late.
MOST_RESULTS = 20_000
MOST_ROWS = 256

Tables = Mapping[str, Sequence[pa.Table]]


def key_columns(
    kind: KeyKind, side: int, plain: int, rows: int, rng: np.random.Generator
) -> list[pa.Array]:
    """The key columns of a stream: nine of ten rows have one of so many plain values in the
    first, if its type has as many."""
    columns = []
    for position, odd in enumerate(kind.values):
        types = [types[position] for types in kind.types]
        pool = list(odd) if position else [*odd, *_plain(types, plain)]
        chosen = rng.integers(0, len(pool), rows)
        if len(pool) > len(odd):
            chosen = np.where(rng.random(rows) < 0.1, rng.integers(0, len(odd), rows), chosen)
        columns.append(pa.array(pool, kind.types[side][position]).take(pa.array(chosen)))
    return columns


def _plain(types: Sequence[pa.DataType], count: int) -> list[Any]:
    """Values that fit all of these types, and are equal in all of them."""
    one = types[0]
    numbers = range(10, 10 + (min(count, 100) if pa.int8() in types else count))
    if any(map(pa.types.is_boolean, types)):
        return []
    if any(map(pa.types.is_integer, types)):
        return list(numbers)
    if pa.types.is_floating(one):
        return [number + 0.5 for number in numbers]
    if pa.types.is_decimal(one):
        return [Decimal(number) / 100 for number in numbers]
    if pa.types.is_string(one):
        return [f"key {number}" for number in numbers]
    if pa.types.is_binary(one):
        return [f"key {number}".encode() for number in numbers]
    if pa.types.is_date(one):
        return [dt.date(2000, 1, 1) + dt.timedelta(days=number) for number in numbers]
    start = dt.datetime(2000, 1, 1, tzinfo=dt.UTC if one.tz else None)
    return [start + dt.timedelta(minutes=number) for number in numbers]


def times(
    rng: np.random.Generator, rows: int, *, second: float, pace: float, delay: float, nulls: bool
) -> pa.Array:
    """Times of a file: about this second, a few up to the delay behind, some further; a third of
    them on whole quarters of a second, so that some are equal."""
    after = rng.uniform(0, pace, rows) - delay * rng.random(rows) * (rng.random(rows) < 0.3)
    after -= (delay + 3 * pace) * rng.random(rows) * (rng.random(rows) < 0.05)
    after += 2 * pace * (rng.random(rows) < 0.002)
    after = np.where(rng.random(rows) < 0.3, np.round(after * 4) / 4, after)
    instants = micros(START - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) + np.int64(second * SECOND)
    absent = (rng.random(rows) < 0.02) & nulls
    return pa.array(instants + np.int64(after * SECOND), pa.int64(), mask=absent).cast(INSTANT)


def payload(rng: np.random.Generator, rows: int, name: str, *, large: bool = False) -> pa.Array:
    """A column of one of the suite's payloads."""
    kind, values = PAYLOADS[name]
    pool = [*values, LARGE] if large and pa.types.is_string(kind) else values
    return pa.array(pool, kind).take(pa.array(rng.integers(0, len(pool), rows)))


def bursts(rng: np.random.Generator, files: int) -> list[float]:
    """How many times as many rows as usual each file has: now and then none, or a burst."""
    return rng.choice([0, 1, 8], size=files, p=[0.1, 0.83, 0.07]).tolist()


def grown(make: Callable[[int], Tables], results: Callable[[Tables], int]) -> Tables:
    """The largest input of those that are not expected to give too many results; ``make`` takes
    the usual number of rows in a file."""
    rows, made = 4, make(4)
    while rows < MOST_ROWS and results(larger := make(2 * rows)) <= MOST_RESULTS:
        rows, made = 2 * rows, larger
    return made
