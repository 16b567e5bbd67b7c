"""Which conditions are formulas of doubles (:mod:`watersmeet.rows.formula`)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T

from watersmeet.rows.formula import Formula
from watersmeet.rows.terms import ColumnOf
from watersmeet.spark.sql.nodes import elements, type_of
from watersmeet.spark.sql.translation import Translation

_LOGIC = {"And": "and", "Or": "or"}
_COMPARISONS = {
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_ARITHMETIC = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "UnaryMinus": "negative",
    "Abs": "abs",
}


def formula_of(t: Translation, node: Any) -> Formula | None:
    """A condition as a formula, if it is one."""
    node = t.meant(node)
    name = node.nodeName()
    parts: list[Any]
    if name in _LOGIC:
        parts = [formula_of(t, child) for child in elements(node.children())]
        return None if None in parts else Formula(_LOGIC[name], tuple(parts))
    if name in _COMPARISONS:
        parts = [_number(t, child) for child in elements(node.children())]
        return None if None in parts else Formula(_COMPARISONS[name], tuple(parts))
    return None


def _number(t: Translation, node: Any) -> Formula | ColumnOf | float | None:
    """A double, if it is a column, a constant, or made of these."""
    node = t.meant(node)
    if not isinstance(type_of(node), T.DoubleType):
        return None
    if node.foldable():
        value = t.evaluated(node)
        return None if value is None else float(value)
    name = node.nodeName()
    if name == "AttributeReference":
        return t.condition.column(node)
    if name not in _ARITHMETIC:
        return None
    parts: list[Any] = [_number(t, child) for child in elements(node.children())]
    return None if None in parts else Formula(_ARITHMETIC[name], tuple(parts))
