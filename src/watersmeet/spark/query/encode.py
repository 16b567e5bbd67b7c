"""Encoding rows by their layout, in Spark SQL: so that the JVM does it, before Python."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.rows.layout import Code, Content, Encoding, Flag, Key, RowLayout
from watersmeet.spark.query.inputs import quoted

#: Where the second hash of a row's content begins, so that it differs from the first.
_SEED = "watersmeet"
#: Nested values as text, with all there is in them.
_AS_TEXT = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def encoded(df: DataFrame, layout: RowLayout) -> DataFrame:
    """The user's rows as they are stored."""
    return df.select(*(_column(df, encoding).alias(name) for name, encoding in layout.columns))


def spark_type(name: str) -> str:
    """A type's name that no setting changes: what ``timestamp`` means, one does."""
    return "timestamp_ltz" if name == "timestamp" else name


def _column(df: DataFrame, encoding: Encoding) -> Column:
    if isinstance(encoding, Flag):
        return F.coalesce(F.expr(encoding.when), F.lit(False))
    if isinstance(encoding, Key):
        return _canonical_key(F.col(quoted(encoding.column)), encoding.type)
    if isinstance(encoding, Code):
        keys = [_column(df, key) for key in encoding.keys]
        return _exact_code(keys[0], encoding.keys[0].type) if encoding.exact else _hashed_code(keys)
    if isinstance(encoding, Content):
        return _content_hash(df, encoding)
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


def _content_hash(df: DataFrame, content: Content) -> Column:
    """A hash of the values in some columns. Spark's own hash refuses maps, skips nulls, and does
    not tell -0.0 from 0.0: (1, null) has the hash of (null, 1), as columns and within nested
    values."""
    values: list[Column] = [F.lit(_SEED)] if content.complete else []
    for name in content.columns:
        column, kind = F.col(quoted(name)), df.schema[name].dataType
        if _nested(kind) and (content.complete or not _hashable(kind)):
            values.append(F.to_json(F.struct(column), _AS_TEXT))
        elif content.complete:
            values += [column.isNull(), column]
            if isinstance(kind, T.FloatType | T.DoubleType):
                values.append(_negative_zero(column))
        else:
            values.append(column)
    return F.xxhash64(*values) if values else F.lit(0).cast("bigint")


def _negative_zero(column: Column) -> Column:
    """Is a value a zero with a sign? SQL sees the sign only in the text."""
    return (column == 0) & column.cast("string").startswith("-")


def _nested(kind: T.DataType) -> bool:
    return isinstance(kind, T.ArrayType | T.StructType) or not _hashable(kind)


def _hashable(kind: T.DataType) -> bool:
    """Does Spark's hash take values of the type?"""
    if isinstance(kind, T.ArrayType):
        return _hashable(kind.elementType)
    if isinstance(kind, T.StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    return not isinstance(kind, T.MapType | T.VariantType)
