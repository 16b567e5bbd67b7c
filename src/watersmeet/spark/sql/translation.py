"""The walk over a condition's Catalyst tree: nodes in, Polars expressions out.

Constant parts are computed by Spark. Each other node is translated by the function
that ``HANDLERS`` has for its name; a node that has none is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

import polars as pl
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from watersmeet.conditions.predicate import input_name
from watersmeet.conditions.terms import ColumnOf
from watersmeet.spark.jvm.conditions import time_zone
from watersmeet.spark.jvm.objects import JavaError, elements
from watersmeet.spark.sql import casts, numbers, semantics, texts, times
from watersmeet.spark.sql.analysis import (
    OWN_FUNCTION,
    Condition,
    fail,
    reason,
    supported,
    without_spark_log,
)
from watersmeet.spark.sql.nodes import (
    Handler,
    Node,
    computed,
    is_array,
    of,
    readable,
    stored,
    type_of,
)


class Translation:
    """Walks over the tree of a condition, or parts of it.

    ``inputs`` collects the columns it meets. ``common`` has the parts that Spark has given a name,
    because it uses them twice, as in `between`.
    """

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.inputs: dict[ColumnOf, None] = {}
        self.common: dict[str, Any] = {}

    def __call__(self, node: Node) -> pl.Expr:
        """The expression of a node of atomic type."""
        if computed(type_of(node)) is None:
            self.refuse(node, f"a value of type {node.dataType().catalogString()}")
        if node.foldable():
            return self.literal(node)
        handler = HANDLERS.get(node.nodeName())
        if "UDF" in node.nodeName():
            wrong = f"{node.sql()} is a user-defined function"
            fail(self.condition.sql, wrong, OWN_FUNCTION)
        if handler is None:
            self.refuse(node, f"the function {node.prettyName()}")
        return handler(self, node)

    def children(self, node: Node) -> list[pl.Expr]:
        return [self(child) for child in elements(node.children())]

    def collected(self, node: Node) -> tuple[pl.Expr, tuple[ColumnOf, ...]]:
        """The expression of a node, and the columns it reads."""
        self.inputs = {}
        expression = self(node)
        return expression, tuple(self.inputs)

    def named(self, node: Node) -> None:
        """Note what the names mean that are given by a node, and used in it."""
        for definition in elements(node.defs()):
            self.common[definition.id().toString()] = definition.child()

    def meant(self, node: Node) -> Any:
        """The node itself, or the one that is meant by a name."""
        if node.nodeName() == "CommonExpressionRef":
            return self.common[node.id().toString()]
        return node

    def text(self, node: Node) -> str:
        """A node as Spark writes it, without the name or the cast that Spark may have added."""
        meant = self.meant(node)
        if meant.nodeName() == "Cast" and type_of(meant.child()) == type_of(meant):
            meant = meant.child()
        return readable(str(meant.sql()))

    @functools.cached_property
    def zone(self) -> str:
        """The session's zone, with a fixed offset in its shortest form."""
        return time_zone(self.condition.spark)

    @functools.cached_property
    def clock_offsets(self) -> tuple[int, int]:
        """The microseconds that the session's clock is ahead of UTC: at least, and at most."""
        return semantics.clock_offsets(self.zone)

    def literal(self, node: Node) -> pl.Expr:
        value, kind = self.evaluated(node), type_of(node)
        dtype = computed(kind)
        if value is None:
            return pl.lit(None, dtype=dtype)
        if isinstance(kind, T.DecimalType):
            return pl.lit(int(Fraction(value.toString()) * 10**kind.scale), dtype=dtype)
        if isinstance(kind, T.StringType):
            return pl.lit(value.toString(), dtype=dtype)
        if dtype.is_temporal():
            days = isinstance(kind, T.DateType)
            return pl.lit(value, dtype=pl.Int32 if days else pl.Int64).cast(dtype)
        return pl.lit(value, dtype=dtype)

    def constant(self, node: Node) -> Any:
        """The value of an argument that must be constant, in Spark's own form."""
        value = self.evaluated(node) if node.foldable() else None
        if value is None:
            self.refuse(node, f"the varying or null argument {node.sql()}")
        return value

    def evaluated(self, node: Node) -> Any:
        """The value of a constant, in Spark's own form."""
        try:
            with without_spark_log():
                return node.eval(None)
        except (PySparkException, JavaError) as error:
            wrong = f"{node.sql()} has no value: {reason(error)}"
            fail(self.condition.sql, wrong, "Correct the constant.")

    def stored(self, node: Node) -> pl.Expr:
        """A column, or a part of one, as it arrives, or the parts of a text: the only values that
        may be nested."""
        match node.nodeName():
            case "AttributeReference":
                return self._input(node)
            case "GetStructField":
                name = type_of(node.child()).fields[node.ordinal()].name
                return self.stored(node.child()).struct.field(name)
            case "GetArrayItem":
                index = self(node.ordinal())
                index = pl.when(index >= 0).then(index)
                return self.stored(node.child()).list.get(index, null_on_oob=True)
            case "StringSplit":
                return texts.split(self, node)
            case "CreateArray" if not isinstance(type_of(node).elementType, T.DecimalType):
                return pl.concat_list(self.children(node))
        self.refuse(node, f"a value of type {node.dataType().catalogString()}")

    def _input(self, node: Node) -> pl.Expr:
        dtype = stored(type_of(node))
        if dtype is None:
            self.refuse(node, f"a column of type {node.dataType().catalogString()}")
        column = self.condition.column(node)
        self.inputs[column] = None
        return pl.col(input_name(*column)).cast(dtype)

    def refuse(self, node: Node, what: str) -> NoReturn:
        where = "" if node.sql() in what else f" (in {node.sql()})"
        instead = "For an inner join, the same condition can be applied to the result: .where(...)."
        right = f"{supported(str(node.prettyName()))} {instead} {OWN_FUNCTION}"
        fail(self.condition.sql, f"{what}{where} is not supported", right)


# Columns and their parts

#: Types of elements whose sets Polars does not make as Spark does: of 0.0 and -0.0, for example.
_NOT_SETS = (T.FloatType, T.DoubleType, T.DecimalType)


def _value(t: Translation, node: Node) -> pl.Expr:
    value = t.stored(node)
    return value.to_physical() if isinstance(type_of(node), T.DecimalType) else value


def _is_null(t: Translation, node: Node) -> pl.Expr:
    child = node.child()
    atomic = computed(type_of(child)) is not None
    return (t(child) if atomic else t.stored(child)).is_null()


def _size(t: Translation, node: Node) -> pl.Expr:
    size = t.stored(node.child()).list.len().cast(pl.Int32)
    return size.fill_null(-1) if node.legacySizeOfNull() else size


def _array_contains(t: Translation, node: Node) -> pl.Expr:
    if isinstance(type_of(node.right()), T.DecimalType):
        t.refuse(node, "array_contains of decimals")
    array, value = t.stored(node.left()), t(node.right())
    unknown = _has_null(array)
    found = array.list.contains(value)
    return pl.when(value.is_not_null() & (found | ~unknown)).then(found)


def _arrays_overlap(t: Translation, node: Node) -> pl.Expr:
    kind = type_of(node.left())
    if not is_array(kind) or isinstance(kind.elementType, _NOT_SETS):
        t.refuse(node, f"arrays_overlap of {kind.simpleString()}")
    one, other = t.stored(node.left()), t.stored(node.right())
    common = one.list.drop_nulls().list.set_intersection(other.list.drop_nulls())
    found = common.list.len() > 0
    filled = (one.list.len() > 0) & (other.list.len() > 0)
    unknown = filled & (_has_null(one) | _has_null(other))
    return pl.when(found | ~unknown).then(found)


def _has_null(array: pl.Expr) -> pl.Expr:
    return array.list.eval(pl.element().is_null()).list.any()


# Logic


def _equality(operate: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Handler:
    """Of values, and of arrays: in these, here as in Spark, null equals null, and NaN itself."""

    def handler(t: Translation, node: Node) -> pl.Expr:
        children = elements(node.children())
        array = is_array(type_of(children[0]))
        return operate(*(t.stored(child) if array else t(child) for child in children))

    return handler


def _in(t: Translation, node: Node) -> pl.Expr:
    value, choices = t(node.value()), elements(node.list())
    if not all(choice.foldable() for choice in choices):
        return functools.reduce(lambda a, b: a | b, [value == t(choice) for choice in choices])
    constants = pl.concat([pl.select(t.literal(choice)).to_series() for choice in choices])
    found = value.is_in(constants.drop_nulls().implode())
    # As in a chain of `or`, a null among the choices makes "not found" unknown.
    return pl.when(found).then(True) if constants.has_nulls() else found


def _case(t: Translation, node: Node) -> pl.Expr:
    branches = t.children(node)
    result = branches.pop() if len(branches) % 2 else pl.lit(None)
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = pl.when(condition).then(value).otherwise(result)
    return result


def _with(t: Translation, node: Node) -> pl.Expr:
    t.named(node)
    return t(node.child())


#: What translates each Catalyst node.
HANDLERS: dict[str, Handler] = {
    "AttributeReference": _value,
    "GetStructField": _value,
    "GetArrayItem": _value,
    "Size": _size,
    "ArrayContains": _array_contains,
    "ArraysOverlap": _arrays_overlap,
    "Alias": of(lambda a: a),
    "With": _with,
    "CommonExpressionRef": lambda t, node: t(t.meant(node)),
    "And": of(lambda a, b: a & b),
    "Or": of(lambda a, b: a | b),
    "Not": of(lambda a: ~a),
    "EqualTo": _equality(lambda a, b: a == b),
    "EqualNullSafe": _equality(lambda a, b: a.eq_missing(b)),
    "LessThan": of(lambda a, b: a < b),
    "LessThanOrEqual": of(lambda a, b: a <= b),
    "GreaterThan": of(lambda a, b: a > b),
    "GreaterThanOrEqual": of(lambda a, b: a >= b),
    "In": _in,
    "IsNull": _is_null,
    "IsNotNull": lambda t, node: ~_is_null(t, node),
    "Coalesce": of(lambda *values: pl.coalesce(*values)),
    "If": of(lambda condition, a, b: pl.when(condition).then(a).otherwise(b)),
    "CaseWhen": _case,
    "NullIfResult": of(lambda equal, value: pl.when(~equal.fill_null(False)).then(value)),
    "Greatest": of(lambda *values: semantics.extreme(values, greatest=True)),
    "Least": of(lambda *values: semantics.extreme(values, greatest=False)),
    "Cast": casts.cast,
    **numbers.HANDLERS,
    **texts.HANDLERS,
    **times.HANDLERS,
}
