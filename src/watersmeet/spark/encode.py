"""Encoding rows by their layout, in Spark SQL: so that the JVM does it, before Python."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from watersmeet.rows.layout import Code, Encoding, Flag, Key, RowLayout
from watersmeet.spark.inputs import quoted


def encoded(df: DataFrame, layout: RowLayout) -> DataFrame:
    """The user's rows as they are stored."""
    return df.select(*(_column(encoding).alias(name) for name, encoding in layout.columns))


def spark_type(name: str) -> str:
    """A type's name that no setting changes: what ``timestamp`` means, one does."""
    return "timestamp_ltz" if name == "timestamp" else name


def _column(encoding: Encoding) -> Column:
    if isinstance(encoding, Flag):
        return F.coalesce(F.expr(encoding.when), F.lit(False))
    if isinstance(encoding, Key):
        return _canonical_key(F.col(quoted(encoding.column)), encoding.type)
    if isinstance(encoding, Code):
        keys = [_column(key) for key in encoding.keys]
        return _exact_code(keys[0], encoding.keys[0].type) if encoding.exact else _hashed_code(keys)
    return F.col(quoted(encoding.column))


def _canonical_key(column: Column, kind: str) -> Column:
    """Equal keys as equal bytes: one NaN, and no negative zero."""
    key = column.cast(spark_type(kind))
    if kind not in ("float", "double"):
        return key
    return (
        F.when(F.isnan(key), F.lit(float("nan")).cast(kind))
        .when(key == 0, F.lit(0.0).cast(kind))
        .otherwise(key)
    )


def _exact_code(key: Column, kind: str) -> Column:
    if kind == "date":
        return F.unix_date(key).cast("bigint")
    if kind == "timestamp":
        return F.unix_micros(key)
    return key.cast("bigint")


def _hashed_code(keys: list[Column]) -> Column:
    complete = F.lit(True)
    for key in keys:
        complete = complete & key.isNotNull()
    return F.when(complete, F.xxhash64(*keys))
