"""Arithmetic, with Spark's result types.

An integral result is computed one type wider, and is null if it does not fit; a
decimal one is computed in 128 bits, and refused if its digits might not fit those.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl
from pyspark.sql import types as T

from watersmeet.spark.jvm.objects import elements
from watersmeet.spark.sql import semantics
from watersmeet.spark.sql.nodes import Handler, Node, computed, of, operand_type, type_of
from watersmeet.spark.sql.semantics import DECIMAL_DIGITS

if TYPE_CHECKING:
    from watersmeet.spark.sql.translation import Translation

_Operation = Callable[[pl.Expr, pl.Expr], pl.Expr]

#: For each integral type, one that no single operation on it overflows.
WIDER: dict[type[T.DataType], Any] = {
    T.ByteType: pl.Int16(),
    T.ShortType: pl.Int32(),
    T.IntegerType: pl.Int64(),
    T.LongType: pl.Int128(),
}


def _checked(operate: Callable[..., pl.Expr]) -> Handler:
    """An operation whose operands and result (numbers or intervals) are of one type."""

    def handler(t: Translation, node: Node) -> pl.Expr:
        kind, operands = type_of(node), t.children(node)
        wider = WIDER.get(type(kind))
        if wider is None:
            return operate(*operands)
        return semantics.checked(operate(*(a.cast(wider) for a in operands)), computed(kind))

    return handler


def _arithmetic(operate: _Operation, decimal: Callable[[Translation, Node], pl.Expr]) -> Handler:
    """An operation that decimals have in their own way."""
    plain = _checked(operate)

    def handler(t: Translation, node: Node) -> pl.Expr:
        kind = type_of(node)
        if isinstance(kind, T.DecimalType):
            return semantics.bounded(decimal(t, node), kind.precision)
        return plain(t, node)

    return handler


# Decimals


def _operands(t: Translation, node: Node) -> tuple[Any, Any, pl.Expr, pl.Expr]:
    left, right = (type_of(child) for child in elements(node.children()))
    return left, right, *t.children(node)


def _need_digits(t: Translation, node: Node, digits: int) -> None:
    if digits > DECIMAL_DIGITS:
        t.refuse(node, f"arithmetic that needs decimals of {digits} digits")


def _aligned(t: Translation, node: Node) -> tuple[int, pl.Expr, pl.Expr]:
    """Two decimals at their greater scale."""
    left, right, a, b = _operands(t, node)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    _need_digits(t, node, whole + scale)
    a, b = semantics.rescaled(a, left.scale, scale), semantics.rescaled(b, right.scale, scale)
    return scale, a, b


def _decimal_sum(operate: _Operation) -> Handler:
    def handler(t: Translation, node: Node) -> pl.Expr:
        scale, a, b = _aligned(t, node)
        # The sum of two numbers of 38 digits may exceed 128 bits; then it is an overflow.
        fits = operate(a.cast(pl.Float64), b.cast(pl.Float64)).abs() < 1.6e38
        return semantics.rescaled(pl.when(fits).then(operate(a, b)), scale, type_of(node).scale)

    return handler


def _decimal_product(t: Translation, node: Node) -> pl.Expr:
    left, right, a, b = _operands(t, node)
    _need_digits(t, node, left.precision + right.precision)
    return semantics.rescaled(a * b, left.scale + right.scale, type_of(node).scale)


def _decimal_quotient(t: Translation, node: Node) -> pl.Expr:
    left, right, a, b = _operands(t, node)
    shift = type_of(node).scale - left.scale + right.scale
    _need_digits(t, node, left.precision + shift if shift >= 0 else DECIMAL_DIGITS + 1)
    return semantics.rounded_quotient(semantics.rescaled(a, 0, shift), b)


# Whole quotients and remainders


def _whole_operands(t: Translation, node: Node) -> tuple[int, pl.Expr, pl.Expr]:
    """The operands as Int128, and the scale they share."""
    kind = operand_type(node)
    if isinstance(kind, T.DecimalType):
        return _aligned(t, node)
    if type(kind) not in WIDER:
        t.refuse(node, f"{node.prettyName()} of {kind.simpleString()}")
    a, b = t.children(node)
    return 0, a.cast(pl.Int128), b.cast(pl.Int128)


def _integral_divide(t: Translation, node: Node) -> pl.Expr:
    _, a, b = _whole_operands(t, node)
    return semantics.checked(semantics.truncated_quotient(a, b), pl.Int64())


def _remainder(operate: _Operation) -> Handler:
    def handler(t: Translation, node: Node) -> pl.Expr:
        kind = type_of(node)
        scale, a, b = _whole_operands(t, node)
        rest = operate(a, b)
        if isinstance(kind, T.DecimalType):
            return semantics.bounded(semantics.rescaled(rest, scale, kind.scale), kind.precision)
        return rest.cast(computed(kind))

    return handler


# Rounding


def _whole(decimal: _Operation, double: Callable[[pl.Expr], pl.Expr]) -> Handler:
    """Floor and ceil, to a bigint or a decimal without fraction."""

    def handler(t: Translation, node: Node) -> pl.Expr:
        source, (value,) = operand_type(node), t.children(node)
        if isinstance(source, T.DecimalType):
            return decimal(value, pl.lit(10**source.scale, dtype=pl.Int128))
        if type(source) in WIDER:
            return value
        number = pl.when(value.is_nan()).then(0.0).otherwise(value)
        return semantics.checked(double(number), pl.Int64())

    return handler


def _round(t: Translation, node: Node) -> pl.Expr:
    source, kind = operand_type(node), type_of(node)
    if not isinstance(source, T.DecimalType) and type(source) not in WIDER:
        t.refuse(node, f"round of {source.simpleString()}")
    if t.constant(node.scale()) < 0:
        t.refuse(node, "round to tens")
    value = t(node.child())
    if type(source) in WIDER:
        return value
    return semantics.bounded(semantics.rescaled(value, source.scale, kind.scale), kind.precision)


HANDLERS: dict[str, Handler] = {
    "Add": _arithmetic(lambda a, b: a + b, _decimal_sum(lambda a, b: a + b)),
    "Subtract": _arithmetic(lambda a, b: a - b, _decimal_sum(lambda a, b: a - b)),
    "Multiply": _arithmetic(lambda a, b: a * b, _decimal_product),
    "Divide": _arithmetic(semantics.quotient, _decimal_quotient),
    "IntegralDivide": _integral_divide,
    "Remainder": _remainder(semantics.remainder),
    "Pmod": _remainder(semantics.positive_remainder),
    "UnaryMinus": _checked(lambda a: a * -1),
    "Abs": _checked(lambda a: a.abs()),
    "Signum": of(lambda a: a.sign()),
    "Floor": _whole(lambda a, one: a // one, lambda a: a.floor()),
    "Ceil": _whole(lambda a, one: 0 - (0 - a) // one, lambda a: a.ceil()),
    "Round": _round,
    "Sqrt": of(lambda a: a.sqrt()),
    "IsNaN": of(lambda a: a.is_nan().fill_null(False)),
    "NaNvl": of(lambda a, b: pl.when(a.is_nan()).then(b).otherwise(a)),
    "BitwiseAnd": of(lambda a, b: a & b),
    "BitwiseOr": of(lambda a, b: a | b),
    "BitwiseXor": of(lambda a, b: a ^ b),
}
