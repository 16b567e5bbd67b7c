"""Which conditions are formulas of numbers (:mod:`watersmeet.conditions.formula`)."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from pyspark.sql import types as T

from watersmeet.conditions.formula import Formula
from watersmeet.conditions.terms import ColumnOf
from watersmeet.spark.jvm.objects import elements
from watersmeet.spark.sql.nodes import Node, type_of
from watersmeet.spark.sql.translation import Translation

_LOGIC = {"And": "and", "Or": "or"}
_COMPARISONS = {
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "EqualTo": "=",
}
_ARITHMETIC = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "UnaryMinus": "negative",
    "Abs": "abs",
}
#: The types of numbers, and the largest value of each.
_MOST: dict[type[T.DataType], float] = {
    T.ByteType: 2**7 - 1,
    T.ShortType: 2**15 - 1,
    T.IntegerType: 2**31 - 1,
    T.LongType: 2**63 - 1,
    T.DoubleType: sys.float_info.max,
}


def formula_of(t: Translation, node: Node) -> Formula | None:
    """A condition as a formula, if it is one."""
    node = t.meant(node)
    name, parts = node.nodeName(), list[Any]()
    if name == "Not":
        equal = formula_of(t, node.child())
        return replace(equal, symbol="<>") if equal is not None and equal.symbol == "=" else None
    if name in _LOGIC:
        parts = [formula_of(t, child) for child in elements(node.children())]
        return None if None in parts else Formula(_LOGIC[name], tuple(parts))
    if name in _COMPARISONS:
        parts = [_number(t, child) for child in elements(node.children())]
        return None if None in parts else Formula(_COMPARISONS[name], tuple(parts))
    return None


def _number(t: Translation, node: Node) -> Formula | ColumnOf | float | None:
    """A double or a whole number, if it is a column, a constant, or made of these."""
    node = t.meant(node)
    most = _MOST.get(type(type_of(node)))
    if most is None:
        return None
    if node.foldable():
        value: float | None = t.evaluated(node)
        return value
    name = node.nodeName()
    if name == "AttributeReference":
        return t.condition.column(node)
    if name == "Cast":
        return _cast(t, node)
    if name not in _ARITHMETIC:
        return None
    parts: list[Any] = [_number(t, child) for child in elements(node.children())]
    return None if None in parts else Formula(_ARITHMETIC[name], tuple(parts), most)


def _cast(t: Translation, node: Node) -> Formula | ColumnOf | float | None:
    """A number as one of a type that has room for it. Whole numbers of all types are computed
    alike."""
    number, source, target = _number(t, node.child()), type_of(node.child()), type_of(node)
    if number is None or source == target:
        return number
    if isinstance(source, T.DoubleType) or _MOST[type(source)] > _MOST[type(target)]:
        return None
    return Formula("double", (number,)) if isinstance(target, T.DoubleType) else number
