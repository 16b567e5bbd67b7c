"""Casts, by the families of both types; most of them Spark's analyzer inserts by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import polars as pl
from pyspark.sql import types as T

from watersmeet.spark.sql import semantics
from watersmeet.spark.sql.nodes import Node, computed, type_of
from watersmeet.spark.sql.numbers import WIDER
from watersmeet.spark.sql.semantics import DECIMAL_DIGITS

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation

#: Of a value, its Spark type, the type it becomes, and the session's zone.
_Conversion = Callable[[pl.Expr, Any, Any, str], pl.Expr]


def cast(t: Translation, node: Node) -> pl.Expr:
    source, target = type_of(node.child()), type_of(node)
    if source == target:
        return t(node.child())
    families = _family(source), _family(target)
    convert = _CASTS.get(families)
    if families in _WITHOUT_ANSI and node.evalMode().toString() == "LEGACY":
        convert = _WITHOUT_ANSI[families]
    coarser = isinstance(target, T.DayTimeIntervalType) and target.endField < source.endField
    if convert is None or coarser:
        names = [part.dataType().catalogString() for part in (node.child(), node)]
        t.refuse(node, f"the cast from {names[0]} to {names[1]}")
    return convert(t(node.child()), source, target, t.zone)


def _family(kind: T.DataType) -> str:
    if type(kind) in WIDER:
        return "integral"
    if isinstance(kind, T.FloatType | T.DoubleType):
        return "float"
    return kind.typeName()


def _plain(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return value.cast(computed(target))


def _checked(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return semantics.checked(value, computed(target))


def _to_boolean(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return value != 0


def _to_decimal(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    decimal = isinstance(source, T.DecimalType)
    scale, digits = (source.scale, source.precision) if decimal else (0, 19)
    value = value.cast(pl.Int128)
    if digits + target.scale - scale > DECIMAL_DIGITS:
        # Rescaled, the greatest values would not fit into 128 bits: they are no `target` either.
        value = semantics.bounded(value, DECIMAL_DIGITS - max(target.scale - scale, 0))
    return semantics.bounded(semantics.rescaled(value, scale, target.scale), target.precision)


def _from_decimal(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    if type(target) in WIDER:
        one = pl.lit(10**source.scale, dtype=pl.Int128)
        return semantics.checked(semantics.truncated_quotient(value, one), computed(target))
    return semantics.decimal_to_float(value, source.precision, source.scale).cast(computed(target))


def _from_text(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    if type(target) in WIDER:
        return semantics.text_to_integer(value, computed(target))
    return semantics.text_to_float(value, computed(target))


def _from_text_truncated(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return semantics.text_to_truncated(value, computed(target))


def _to_local(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return semantics.to_local(value, zone).cast(computed(target))


def _to_instant(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return semantics.to_instant(value.cast(pl.Datetime("us")), zone)


def _to_seconds(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    return semantics.checked(value.cast(pl.Int64) // 1_000_000, computed(target))


def _to_fractional_seconds(value: pl.Expr, source: Any, target: Any, zone: str) -> pl.Expr:
    micros = value.cast(pl.Int64).cast(pl.Float64)
    return semantics.quotient(micros, pl.lit(1e6)).cast(computed(target))


_CASTS: dict[tuple[str, str], _Conversion] = {
    **dict.fromkeys(product(["boolean"], ["integral", "float", "string"]), _plain),
    **dict.fromkeys(product(["integral"], ["float", "string"]), _plain),
    **dict.fromkeys(product(["integral", "float"], ["boolean"]), _to_boolean),
    **dict.fromkeys(product(["integral", "float"], ["integral"]), _checked),
    ("float", "float"): _plain,
    **dict.fromkeys(product(["integral", "decimal"], ["decimal"]), _to_decimal),
    **dict.fromkeys(product(["decimal"], ["integral", "float"]), _from_decimal),
    **dict.fromkeys(product(["string"], ["integral", "float"]), _from_text),
    **dict.fromkeys(product(["date"], ["string", "timestamp_ntz"]), _plain),
    **dict.fromkeys(product(["date", "timestamp_ntz"], ["timestamp"]), _to_instant),
    **dict.fromkeys(product(["timestamp"], ["date", "timestamp_ntz"]), _to_local),
    ("timestamp", "integral"): _to_seconds,
    ("timestamp", "float"): _to_fractional_seconds,
    ("timestamp_ntz", "date"): _plain,
    ("daytimeinterval", "daytimeinterval"): _plain,
}
#: What means something else with ANSI mode off.
_WITHOUT_ANSI: dict[tuple[str, str], _Conversion] = {
    ("string", "integral"): _from_text_truncated,
}
