"""Streams: their columns, their time, and what they promise about their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from watersmeet.errors import PlanError

#: The name of a table that has no name of its own, in ``on`` and ``where``.
TABLE_NAME = "table"
#: In which order a stream's rows may come, by their keys.
Arrival = Literal["clustered", "ordered"]
ARRIVALS: tuple[str, ...] = get_args(Arrival)


@dataclass(frozen=True)
class Punctuation:
    """Rows inside a stream that say which keys it will not bring any more.

    Parameters
    ----------
    when
        A SQL condition over the stream's columns that holds for punctuations. In them, a
        key column that is not null is that constant, and a null stands for any value.
    low, high
        Columns with the bounds, both included, of a range of keys that a punctuation
        closes (null: without bound). Its key column is null then.
    """

    when: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of a stream: its name and its Spark type."""

    name: str
    type: str


@dataclass(frozen=True)
class StreamSpec:
    """One input: its columns and what is known about it.

    ``delay`` is how far the watermark stays behind the greatest time seen. ``watermarked``: the
    stream brought its own Spark watermark, whose delay that is. Then its rows are not only on time:
    they are certain to be ``ahead`` of late rows by so many microseconds. ``rows_per_second`` and
    ``distinct_keys`` are what the user expects, if given: they are used for estimates only, never
    for a result.

    ``unique``, ``arrival`` and ``punctuation`` are what the stream promises about its keys:
    each comes once; they come together or in order; they are closed by punctuations.
    ``prefix`` is put before the names of columns that several streams have.
    """

    name: str
    columns: tuple[Column, ...]
    streaming: bool
    time: str | None = None
    delay: int | None = None
    watermarked: bool = False
    ahead: int = 0
    rows_per_second: float | None = None
    distinct_keys: float | None = None
    unique: bool = False
    arrival: str | None = None
    punctuation: Punctuation | None = None
    prefix: str | None = None

    @property
    def closes(self) -> bool:
        """Does the stream ever say that a key will not come any more?"""
        return self.unique or self.arrival is not None or self.punctuation is not None

    @property
    def ends(self) -> bool:
        """Does the stream also say so of keys that have never come?"""
        return self.punctuation is not None or self.arrival == "ordered"

    def column(self, name: str) -> Column:
        """The column of that name, which the planner has made sure exists."""
        return next(column for column in self.columns if column.name == name)


def check_expected(name: str, **numbers: object) -> None:
    """Refuse expectations of a stream that are not numbers above 0."""
    for argument, number in numbers.items():
        real = isinstance(number, int | float) and not isinstance(number, bool)
        if number is not None and not (real and number > 0):  # type: ignore[operator]
            raise PlanError(f"stream {name!r}: {argument} must be a number above 0, got {number!r}")
