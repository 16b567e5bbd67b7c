"""Ranks: values as 64-bit numbers, in the order in which Spark compares them.

A value that is less than another has a rank that is not greater. Of most types the ranks are
*exact*: a lesser value has a lesser rank. Of texts, binary values and long decimals they are not:
their first bytes or digits are the rank. NaN is greater than any number; -0.0 equals 0.0.
"""

from __future__ import annotations

import polars as pl
from pyspark.sql import types as T

from watersmeet.spark.sql.nodes import computed

#: No rank is less, or greater.
LEAST, GREATEST = -(2**63), 2**63 - 1
#: So many digits always fit into 64 bits, and so many bytes.
_DIGITS = 18
_BYTES = 8


def ranked(value: pl.Expr, kind: T.DataType) -> tuple[pl.Expr, bool] | None:
    """The ranks of values of a Spark type, and whether they are exact; None if there are none."""
    match kind:
        case T.FloatType() | T.DoubleType():
            return number_rank(value.cast(pl.Float64)), True
        case T.DecimalType() if kind.precision > _DIGITS:
            rest = pl.lit(10 ** (kind.precision - _DIGITS), dtype=pl.Int128)
            return (value // rest).cast(pl.Int64), False
        case T.StringType() | T.BinaryType():
            return text_rank(value.cast(pl.Binary)), False
        case T.DateType():
            return value.cast(pl.Int32).cast(pl.Int64), True
    return None if computed(kind) is None else (value.cast(pl.Int64), True)


def number_rank(value: pl.Expr) -> pl.Expr:
    """The rank of a double: its bits, in order.

    >>> numbers = [float("nan"), float("inf"), 1.5, 0.0, -0.0, -1.5, float("-inf"), None]
    >>> frame = pl.DataFrame({"x": numbers}, schema={"x": pl.Float64})
    >>> ranks = frame.select(number_rank(pl.col("x"))).to_series().to_list()
    >>> ranks[:-1] == sorted(ranks[:-1], reverse=True), ranks[3] == ranks[4], ranks[-1]
    (True, True, None)
    """
    bits = value.reinterpret(dtype=pl.Int64)
    rank = pl.when(bits < 0).then(bits ^ GREATEST).otherwise(bits)
    return (
        pl.when(value.is_nan())
        .then(pl.lit(GREATEST, dtype=pl.Int64))
        .when(value == 0)
        .then(pl.lit(0, dtype=pl.Int64))
        .otherwise(rank)
    )


def text_rank(value: pl.Expr) -> pl.Expr:
    """The rank of a binary value: its first bytes, in order.

    >>> texts = ["b", "abcdefghz", "abcdefgha", "é"]
    >>> frame = pl.DataFrame({"s": texts}).select(text_rank(pl.col("s").cast(pl.Binary)))
    >>> b, z, a, e = frame.to_series().to_list()
    >>> a == z < b < e
    True
    """
    first = (value + pl.lit(bytes(_BYTES))).bin.slice(0, _BYTES)
    unsigned = first.bin.reinterpret(dtype=pl.UInt64, endianness="big")
    return (unsigned ^ pl.lit(1 << 63, dtype=pl.UInt64)).reinterpret(signed=True)


def hashed(value: pl.Expr) -> pl.Expr:
    """A number that equal values share, and hardly any others do. It is not in their order."""
    return pl.when(value.is_not_null()).then(value.hash(seed=0).reinterpret(signed=True))
