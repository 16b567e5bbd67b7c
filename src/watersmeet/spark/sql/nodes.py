"""What all handlers of Catalyst nodes need: a node's parts, and Spark's types in Polars."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from pyspark.sql import types as T

from watersmeet.spark.jvm.objects import JavaObject, elements
from watersmeet.spark.sql.semantics import DECIMAL_DIGITS

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation

#: In SQL: what is quoted, a number with its type behind it, and a number that is cast.
_QUOTED = re.compile(r"('(?:[^'\\]|\\.)*'|`[^`]*`)")
_TYPED = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:E-?\d+)?)(?:BD|[LDYS])\b")
_CAST = re.compile(r"CAST\((-?\d+(?:\.\d+)?(?:E-?\d+)?) AS [A-Z]+(?:\(\d+,\d+\))?\)")

#: A node of a condition that Spark has analyzed: an expression of Catalyst's, in the JVM.
Node: TypeAlias = JavaObject
#: Gives the expression of a node of one class.
Handler = Callable[["Translation", Node], pl.Expr]

_ATOMIC: dict[type[T.DataType], Any] = {
    T.BooleanType: pl.Boolean(),
    T.ByteType: pl.Int8(),
    T.ShortType: pl.Int16(),
    T.IntegerType: pl.Int32(),
    T.LongType: pl.Int64(),
    T.FloatType: pl.Float32(),
    T.DoubleType: pl.Float64(),
    T.StringType: pl.String(),
    T.BinaryType: pl.Binary(),
    T.DateType: pl.Date(),
    T.TimestampType: pl.Datetime("us", "UTC"),
    T.TimestampNTZType: pl.Datetime("us"),
    T.DayTimeIntervalType: pl.Duration("us"),
}


def of(function: Callable[..., pl.Expr]) -> Handler:
    """A node that is a function of its children."""
    return lambda t, node: function(*t.children(node))


def readable(sql: str) -> str:
    """Catalyst's SQL with numbers as a person writes them: without their types.

    >>> readable("(CAST(0.05BD AS DOUBLE) * 3L) < `5L` AND x = '5L'")
    "(0.05 * 3) < `5L` AND x = '5L'"
    """
    # What is quoted stays as it is: every second part.
    parts = _QUOTED.split(sql)
    parts[::2] = [_CAST.sub(r"\1", _TYPED.sub(r"\1", part)) for part in parts[::2]]
    return "".join(parts)


def type_of(node: Node) -> Any:
    # Not by its SQL name: what ``TIMESTAMP`` means there, a setting of the session decides.
    return _parsed_type(node.dataType().json())


def operand_type(node: Node) -> Any:
    """The type of a node's first child."""
    return type_of(node.children().head())


@functools.cache
def _parsed_type(json: str) -> T.DataType:
    return T._parse_datatype_json_string(json)


def computed(kind: T.DataType) -> Any:
    """The Polars type a value of an atomic type is computed in; None if there is none."""
    if isinstance(kind, T.DecimalType):
        return pl.Int128()
    if isinstance(kind, T.StringType) and kind != T.StringType():
        return None  # a collation compares in its own way
    return _ATOMIC.get(type(kind))


def is_array(kind: T.DataType) -> bool:
    """Is it a type of arrays whose values can be compared?"""
    return isinstance(kind, T.ArrayType) and computed(kind.elementType) is not None


def stored(kind: T.DataType) -> Any:
    """The Polars type of a column as it arrives; None if there is none."""
    if isinstance(kind, T.DecimalType):
        return pl.Decimal(DECIMAL_DIGITS, kind.scale)
    if isinstance(kind, T.ArrayType):
        element = stored(kind.elementType)
        return None if element is None else pl.List(element)
    if isinstance(kind, T.StructType):
        fields = {field.name: stored(field.dataType) for field in kind.fields}
        return None if None in fields.values() else pl.Struct(fields)
    return computed(kind)


#: For each comparison: is its left side the lesser one, is it the greater one, do both differ?
COMPARISONS = {
    "LessThan": (True, False, True),
    "LessThanOrEqual": (True, False, False),
    "GreaterThan": (False, True, True),
    "GreaterThanOrEqual": (False, True, False),
    "EqualTo": (True, True, False),
}


def in_order(node: Node) -> list[tuple[Any, Any, bool]]:
    """What a comparison says: which side is the lesser, which one the greater, and whether they
    differ. Two sides that are equal are either."""
    left, right = elements(node.children())
    lesser, greater, strict = COMPARISONS[node.nodeName()]
    return [(left, right, strict)] * lesser + [(right, left, strict)] * greater
