"""The terms of a condition: what it joins by AND, and what each of them says of the streams."""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl
from pyspark.sql import types as T

from watersmeet.conditions.predicate import SqlPredicate, input_name
from watersmeet.conditions.terms import ColumnOf, Equality, Term
from watersmeet.spark.jvm.conditions import without_negation, without_null
from watersmeet.spark.jvm.objects import elements
from watersmeet.spark.sql.analysis import Condition
from watersmeet.spark.sql.comparisons import comparisons_of
from watersmeet.spark.sql.formulas import formula_of
from watersmeet.spark.sql.gaps import gaps_of
from watersmeet.spark.sql.nodes import COMPARISONS, Node, stored, type_of
from watersmeet.spark.sql.numbers import WIDER
from watersmeet.spark.sql.translation import Translation

#: What stands behind its operand: where such a term was written does not tell where that was.
_BEHIND = re.compile(r"(not\s+)?(between|in|like|ilike|rlike|regexp|is)\b", re.IGNORECASE)


def terms_of(condition: Condition) -> tuple[Term, ...]:
    """The terms of a condition; those that always hold are left out, which may be all."""
    t = Translation(condition)
    return tuple(filter(None, (_term(t, node) for node in _conjuncts(t, condition.root))))


def _conjuncts(t: Translation, given: Node) -> Iterator[Node]:
    """The nodes that AND joins, whatever the parentheses, or could join."""
    node = without_null(t.condition.spark, without_negation(t.condition.spark, given))
    match node.nodeName():
        case "Not" if node is not given:
            yield from _conjuncts(t, node)
        case "And":
            for child in elements(node.children()):
                yield from _conjuncts(t, child)
        case "With":
            t.named(node)
            yield from _conjuncts(t, node.child())
        case _:
            yield node


def _term(t: Translation, node: Node) -> Term | None:
    """What a node says; None if it holds whatever the rows are."""
    expression, columns = t.collected(node)
    text = _text(t, node)
    if not columns:
        return None if pl.select(expression).item() is True else Term(_never(t, text))
    predicate = SqlPredicate(text, columns, expression, formula_of(t, node))
    if len({stream for stream, _ in columns}) != 2 or node.nodeName() not in COMPARISONS:
        return Term(predicate)
    return Term(predicate, _equality(t, node), gaps_of(t, node), comparisons_of(t, node))


def _never(t: Translation, text: str) -> SqlPredicate:
    """A condition that holds for no row. There is a value of it for each row, so it reads one."""
    attributes = elements(t.condition.resolved.attributes.attrs())
    both = zip(t.condition.columns, attributes, strict=True)
    known = (column for column, of in both if stored(type_of(of)) is not None)
    column = next(known, t.condition.columns[0])
    return SqlPredicate(text, (column,), pl.col(input_name(*column)).is_null() & False)


def _equality(t: Translation, node: Node) -> Equality | None:
    if node.nodeName() != "EqualTo":
        return None
    left, right = (_column(t, child) for child in elements(node.children()))
    return None if left is None or right is None else Equality(left, right)


def _column(t: Translation, given: Node) -> ColumnOf | None:
    """The column that a node is, if it is one; Spark may have cast it to a wider integral type."""
    node = t.meant(given)
    if node.nodeName() == "Cast" and _widens(type_of(node.child()), type_of(node)):
        node = t.meant(node.child())
    return t.condition.column(node) if node.nodeName() == "AttributeReference" else None


def _widens(source: T.DataType, target: T.DataType) -> bool:
    order = list(WIDER)
    integral = type(source) in order and type(target) in order
    return integral and order.index(type(source)) < order.index(type(target))


def _text(t: Translation, node: Node) -> str:
    """A term as it was written, or, where that cannot be told, as Spark writes it."""
    origin = node.origin()
    start, stop = origin.startIndex(), origin.stopIndex()
    if start.isDefined() and stop.isDefined():
        text = t.condition.sql[start.get() : stop.get() + 1]
        if not _BEHIND.match(text):
            return f"({text})" if node.nodeName() == "Or" else text
    if node.nodeName() in COMPARISONS:
        return f" {node.symbol()} ".join(map(t.text, elements(node.children())))
    return t.text(node)
