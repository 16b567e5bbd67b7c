"""From the SQL text of ``where`` to a predicate that a Python worker evaluates.

::

    text ─► Spark's analyzer ─► typed Catalyst tree ─► Polars expression ─► workers

Spark parses, resolves and types the condition over empty DataFrames of the streams'
schemas, so its own implicit casts are in the tree; no job runs. Constant parts are
computed by Spark. Each other node is translated by the function that ``_NODES`` has
for its name; a node that has none is refused while the join is planned.

The predicate means what Spark means: three-valued logic, NaN equal to itself and
greater than any number, decimals rounded half up, texts compared by bytes, times in
the session's zone. One thing differs. Where Spark's ANSI mode stops the query (a
division by zero, an overflow, a text that is no number, an index outside of an
array), the predicate's value is null there, so that the pair does not match: one bad
row must not stop a stream. A part that is constant is an error when the join is
planned. Powers may differ from Spark's in the last bit.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NoReturn

import polars as pl
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from watersmeet.errors import PredicateError, did_you_mean
from watersmeet.operators import predicate as semantics
from watersmeet.operators.predicate import DECIMAL_DIGITS, Predicate

#: What the message about an unsupported function offers instead.
SUPPORTED = (
    "Supported are and, or, not, comparisons, in, between, is null, like, rlike, case, if, "
    "coalesce, nullif, greatest, least, + - * / div %, pmod, abs, sign, floor, ceil, round, sqrt, "
    "pow, & | ^, cast, isnan, lower, upper, length, concat, substring, left, right, trim, "
    "startswith, endswith, contains, times and dates +- intervals, date_add, date_sub, datediff, "
    "timestampadd, timestampdiff, date_trunc, unix_timestamp, year to second, size, "
    "array_contains, array elements and struct fields."
)
_INSTEAD = "For an inner join, the same condition can be applied to the result: .where(...)."

#: How many columns a message lists.
_LISTED = 20


def translate(spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]) -> Predicate:
    """The predicate of a condition over the streams, given as (name, DataFrame)."""
    condition, attributes = _analyzed(spark, sql, streams)
    _refuse_what_changes(sql, condition)
    translation = _Translation(spark, sql, attributes)
    expression = translation(condition)
    if not translation.inputs:
        _fail(sql, "the condition mentions no column", "Compare columns, as in 'a.x < b.y'.")
    return Predicate(sql, tuple(translation.inputs), expression)


# Analysis by Spark


def _analyzed(
    spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]
) -> tuple[Any, dict[int, tuple[int, str]]]:
    """The resolved condition, and which (stream, column) each attribute id stands for."""
    frames: list[Any] = [
        spark.createDataFrame([], frame.schema).alias(name) for name, frame in streams
    ]
    attributes = {
        attribute.exprId().id(): (index, column)
        for index, frame in enumerate(frames)
        for attribute, column in zip(
            _each(frame._jdf.queryExecution().analyzed().output()), frame.columns, strict=True
        )
    }
    try:
        with _without_spark_log():
            filtered = functools.reduce(lambda left, right: left.crossJoin(right), frames)
            plan = filtered.where(sql)._jdf.queryExecution().analyzed()
    except AnalysisException as error:
        _explain_refusal(sql, error, [(name, frame.columns) for name, frame in streams])
    jvm: Any = spark._jvm
    plan = jvm.org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions.apply(plan)
    return plan.condition(), attributes


@contextmanager
def _without_spark_log() -> Iterator[None]:
    """PySpark logs an analysis error with the JVM's whole stack; ours says it in a line."""
    logger: logging.Logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _each(seq: Any) -> Iterator[Any]:
    """The elements of a Scala collection."""
    iterator = seq.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _each_node(node: Any) -> Iterator[Any]:
    yield node
    for child in _each(node.children()):
        yield from _each_node(child)


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _refuse_what_changes(sql: str, condition: Any) -> None:
    """A pair must match or not, whenever and wherever it is looked at."""
    for node in _each_node(condition):
        name = _name(node)
        if name in ("ScalarSubquery", "Exists", "InSubquery", "ListQuery"):
            _fail(sql, "it contains a subquery", "Join that table first, with wm.enrich.")
        if name.startswith("Current") or name in ("Now", "LocalTimestamp"):
            hint = "A pair's result may not depend on when it is computed: compare columns."
            _fail(sql, f"{node.prettyName()}() changes with the time or the session", hint)
        if not node.deterministic() and all(c.deterministic() for c in _each(node.children())):
            hint = "A pair must give the same result whenever it is computed."
            _fail(sql, f"{node.prettyName()}() is not deterministic", hint)


# Messages


def _fail(sql: str, wrong: str, right: str) -> NoReturn:
    raise PredicateError(f"where={sql!r}: {wrong}. {right}".rstrip()) from None


def _reason(error: Any) -> str:
    """Spark's own reason: its first line, without the codes around it."""
    text = error.getMessage() if isinstance(error, PySparkException) else None
    first = (text or str(error)).strip().splitlines()[0]
    return first.split("] ", 1)[-1].split(" SQLSTATE:")[0].rstrip(" .;")


def _explain_refusal(
    sql: str, error: AnalysisException, streams: Sequence[tuple[str, Sequence[str]]]
) -> NoReturn:
    """Say what Spark's analyzer did not accept, in terms of the streams."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        _unknown_column(sql, parameters["objectName"].replace("`", ""), streams)
    if condition.startswith("AMBIGUOUS_REFERENCE"):
        choices = parameters["referenceNames"].strip("[]").replace("`", "")
        hint = f"Put the stream's name before it: {' or '.join(choices.split(', '))}."
        _fail(sql, f"{parameters['name'].replace('`', '')} is a column of several streams", hint)
    hints = {
        "PARSE": "Give a Spark SQL condition, as in 'a.x < b.y'.",
        "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": "Give a condition, as in 'a.x < b.y'.",
        "INVALID_WHERE_CONDITION": "Aggregates and windows have no place in a join's condition.",
        "UNRESOLVED_ROUTINE": SUPPORTED,
    }
    hint = next((text for prefix, text in hints.items() if condition.startswith(prefix)), "")
    _fail(sql, _reason(error), hint)


def _unknown_column(sql: str, given: str, streams: Sequence[tuple[str, Sequence[str]]]) -> NoReturn:
    qualified = [f"{name}.{column}" for name, columns in streams for column in columns]
    plain = [column for _, columns in streams for column in columns]
    known = qualified if "." in given else plain
    listed = ", ".join(qualified[:_LISTED])
    more = len(qualified) - _LISTED
    rest = f" and {more} more" if more > 0 else ""
    hint = f"{did_you_mean(given, known)} The columns are {listed}{rest}."
    _fail(sql, f"there is no column {given}", hint.strip())


# Types

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

#: The range of each integral type, and the next wider type that no single step overflows.
_INTEGRAL: dict[type[T.DataType], tuple[int, Any]] = {
    T.ByteType: (8, pl.Int16()),
    T.ShortType: (16, pl.Int32()),
    T.IntegerType: (32, pl.Int64()),
    T.LongType: (64, pl.Int128()),
}


@functools.cache
def _parsed_type(ddl: str) -> T.DataType:
    return T.DataType.fromDDL(ddl)


def _computed(kind: T.DataType) -> Any:
    """The Polars type a value of an atomic type is computed in; None if there is none."""
    if isinstance(kind, T.DecimalType):
        return pl.Int128()
    if isinstance(kind, T.StringType) and kind != T.StringType():
        return None  # a collation compares in its own way
    return _ATOMIC.get(type(kind))


def _stored(kind: T.DataType) -> Any:
    """The Polars type of a column as it arrives; None if there is none."""
    if isinstance(kind, T.DecimalType):
        return pl.Decimal(DECIMAL_DIGITS, kind.scale)
    if isinstance(kind, T.ArrayType):
        element = _stored(kind.elementType)
        return None if element is None else pl.List(element)
    if isinstance(kind, T.StructType):
        fields = {field.name: _stored(field.dataType) for field in kind.fields}
        return None if None in fields.values() else pl.Struct(fields)
    return _computed(kind)


# Translation


class _Translation:
    """One walk over a condition: Catalyst nodes in, Polars expressions out.

    ``inputs`` collects the columns it meets, in the order of their positions.
    """

    def __init__(
        self, spark: SparkSession, sql: str, attributes: dict[int, tuple[int, str]]
    ) -> None:
        self.spark: Any = spark
        self.sql = sql
        self.attributes = attributes
        self.inputs: dict[tuple[int, str], int] = {}
        self.common: dict[str, pl.Expr] = {}

    def __call__(self, node: Any) -> pl.Expr:
        """The expression of a node of atomic type."""
        if _computed(self.type(node)) is None:
            self.refuse(node, f"a value of type {node.dataType().catalogString()}")
        if node.foldable():
            return self.literal(node)
        translate_node = _NODES.get(_name(node))
        if translate_node is None:
            self.refuse(node, f"the function {node.prettyName()}")
        return translate_node(self, node)

    def children(self, node: Any) -> list[pl.Expr]:
        return [self(child) for child in _each(node.children())]

    def type(self, node: Any) -> Any:
        return _parsed_type(node.dataType().sql())

    def operand_type(self, node: Any) -> Any:
        """The type of a node's first child."""
        return self.type(node.children().head())

    def zone(self, node: Any) -> str:
        """The zone a node computes in, with a fixed offset in its shortest form."""
        times = self.spark._jvm.org.apache.spark.sql.catalyst.util.DateTimeUtils
        return str(times.getZoneId(node.timeZoneId().get()).normalized().getId())

    def constant(self, node: Any) -> Any:
        """The value of a constant part, computed by Spark, in Spark's own form."""
        if not node.foldable():
            self.refuse(node, f"the varying argument {node.sql()}")
        try:
            return node.eval(None)
        except (PySparkException, Py4JJavaError) as error:
            _fail(self.sql, f"{node.sql()} has no value: {_reason(error)}", "Correct the constant.")

    def literal(self, node: Any) -> pl.Expr:
        value, kind = self.constant(node), self.type(node)
        dtype = _computed(kind)
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

    def stored(self, node: Any) -> pl.Expr:
        """A column, or a part of one, as it arrives: the only values that may be nested."""
        access = _ACCESS.get(_name(node))
        if access is None:
            self.refuse(node, f"a value of type {node.dataType().catalogString()}")
        return access(self, node)

    def input(self, node: Any) -> pl.Expr:
        column = self.attributes[node.exprId().id()]
        dtype = _stored(self.type(node))
        if dtype is None:
            self.refuse(node, f"a column of type {node.dataType().catalogString()}")
        position = self.inputs.setdefault(column, len(self.inputs))
        return pl.col(str(position)).cast(dtype)

    def legacy(self, node: Any) -> bool:
        """Does the session compute without ANSI mode, so that integers wrap around?"""
        return str(node.evalMode().toString()) == "LEGACY"

    def refuse(self, node: Any, what: str) -> NoReturn:
        where = "" if node.sql() in what else f" (in {node.sql()})"
        _fail(self.sql, f"{what}{where} is not supported", f"{SUPPORTED} {_INSTEAD}")


_Handler = Callable[[_Translation, Any], pl.Expr]


def _of(function: Callable[..., pl.Expr]) -> _Handler:
    """A node that is a function of its children."""
    return lambda t, node: function(*t.children(node))


# Columns and their parts


def _struct_field(t: _Translation, node: Any) -> pl.Expr:
    name = t.type(node.child()).fields[node.ordinal()].name
    return t.stored(node.child()).struct.field(name)


def _array_item(t: _Translation, node: Any) -> pl.Expr:
    index = t(node.ordinal())
    return t.stored(node.child()).list.get(pl.when(index >= 0).then(index), null_on_oob=True)


_ACCESS: dict[str, _Handler] = {
    "AttributeReference": _Translation.input,
    "GetStructField": _struct_field,
    "GetArrayItem": _array_item,
}


def _value(t: _Translation, node: Any) -> pl.Expr:
    stored = t.stored(node)
    return stored.to_physical() if isinstance(t.type(node), T.DecimalType) else stored


def _is_null(t: _Translation, node: Any) -> pl.Expr:
    child = node.child()
    atomic = _computed(t.type(child)) is not None
    return (t(child) if atomic else t.stored(child)).is_null()


def _size(t: _Translation, node: Any) -> pl.Expr:
    length = t.stored(node.child()).list.len().cast(pl.Int32)
    return length.fill_null(-1) if node.legacySizeOfNull() else length


def _array_contains(t: _Translation, node: Any) -> pl.Expr:
    if isinstance(t.type(node.right()), T.DecimalType):
        t.refuse(node, "array_contains of decimals")
    array, value = t.stored(node.left()), t(node.right())
    unknown = array.list.eval(pl.element().is_null()).list.any()
    found = array.list.contains(value)
    return pl.when(value.is_not_null() & (found | ~unknown)).then(found)


# Logic


def _in(t: _Translation, node: Any) -> pl.Expr:
    value, choices = t(node.value()), list(_each(node.list()))
    if all(choice.foldable() for choice in choices):
        constants = pl.concat([pl.select(t.literal(choice)).to_series() for choice in choices])
        return _in_constants(value, constants)
    return functools.reduce(lambda a, b: a | b, [value == t(choice) for choice in choices])


def _in_constants(value: pl.Expr, choices: pl.Series) -> pl.Expr:
    """As a chain of `or`: a null among the choices makes "not found" unknown."""
    known = choices.drop_nulls()
    found = value.is_in(known.implode())
    return found if len(known) == len(choices) else pl.when(found).then(True)


def _case(t: _Translation, node: Any) -> pl.Expr:
    *branches, default = [*t.children(node), pl.lit(None)]
    if len(branches) % 2:
        default = branches.pop()
    result = default
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = pl.when(condition).then(value).otherwise(result)
    return result


def _with(t: _Translation, node: Any) -> pl.Expr:
    """Spark names a part that it uses twice, as in `between`."""
    for definition in _each(node.defs()):
        t.common[definition.id().toString()] = t(definition.child())
    return t(node.child())


# Arithmetic


def _arithmetic(operate: Callable[[pl.Expr, pl.Expr], pl.Expr], decimal: Any) -> _Handler:
    """An operation on two numbers (or intervals) of one type."""

    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        kind = t.type(node)
        if isinstance(kind, T.DecimalType):
            return semantics.bounded(decimal(t, node, kind), kind.precision)
        a, b = t.children(node)
        if type(kind) not in _INTEGRAL or t.legacy(node):
            return operate(a, b)
        _, wider = _INTEGRAL[type(kind)]
        return semantics.checked(operate(a.cast(wider), b.cast(wider)), _computed(kind))

    return translate_node


def _decimals(t: _Translation, node: Any) -> tuple[Any, Any, pl.Expr, pl.Expr]:
    left, right = (t.type(child) for child in _each(node.children()))
    return left, right, *t.children(node)


def _need_digits(t: _Translation, node: Any, digits: int) -> None:
    if digits > DECIMAL_DIGITS:
        t.refuse(node, f"arithmetic that needs decimals of {digits} digits")


def _aligned(t: _Translation, node: Any) -> tuple[int, pl.Expr, pl.Expr]:
    """Two decimals at their greater scale."""
    left, right, a, b = _decimals(t, node)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    _need_digits(t, node, whole + scale)
    return (
        scale,
        semantics.rescaled(a, left.scale, scale),
        semantics.rescaled(b, right.scale, scale),
    )


def _decimal_sum(operate: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Any:
    def compute(t: _Translation, node: Any, kind: Any) -> pl.Expr:
        scale, a, b = _aligned(t, node)
        # The sum of two numbers of 38 digits may exceed 128 bits; then it is an overflow.
        fits = operate(a.cast(pl.Float64), b.cast(pl.Float64)).abs() < 1.6e38
        return semantics.rescaled(pl.when(fits).then(operate(a, b)), scale, kind.scale)

    return compute


def _decimal_product(t: _Translation, node: Any, kind: Any) -> pl.Expr:
    left, right, a, b = _decimals(t, node)
    _need_digits(t, node, left.precision + right.precision)
    return semantics.rescaled(a * b, left.scale + right.scale, kind.scale)


def _decimal_quotient(t: _Translation, node: Any, kind: Any) -> pl.Expr:
    left, right, a, b = _decimals(t, node)
    shift = kind.scale - left.scale + right.scale
    _need_digits(t, node, left.precision + shift if shift >= 0 else DECIMAL_DIGITS + 1)
    return semantics.rounded_quotient(semantics.rescaled(a, 0, shift), b)


def _divide(t: _Translation, node: Any) -> pl.Expr:
    kind = t.type(node)
    if isinstance(kind, T.DecimalType):
        return semantics.bounded(_decimal_quotient(t, node, kind), kind.precision)
    return semantics.quotient(*t.children(node))


def _whole_operands(t: _Translation, node: Any) -> tuple[int, pl.Expr, pl.Expr]:
    """The operands as Int128, and the scale they share."""
    if isinstance(t.operand_type(node), T.DecimalType):
        return _aligned(t, node)
    if type(t.operand_type(node)) not in _INTEGRAL:
        t.refuse(node, f"{node.prettyName()} of {t.operand_type(node).simpleString()}")
    a, b = t.children(node)
    return 0, a.cast(pl.Int128), b.cast(pl.Int128)


def _integral_divide(t: _Translation, node: Any) -> pl.Expr:
    _, a, b = _whole_operands(t, node)
    return semantics.checked(semantics.truncated_quotient(a, b), pl.Int64())


def _remainder(t: _Translation, node: Any) -> pl.Expr:
    return _remaining(t, node, semantics.remainder)


def _positive_remainder(a: pl.Expr, b: pl.Expr) -> pl.Expr:
    rest = semantics.remainder(a, b)
    return pl.when(rest < 0).then(semantics.remainder(rest + b, b)).otherwise(rest)


def _pmod(t: _Translation, node: Any) -> pl.Expr:
    return _remaining(t, node, _positive_remainder)


def _remaining(
    t: _Translation, node: Any, operate: Callable[[pl.Expr, pl.Expr], pl.Expr]
) -> pl.Expr:
    kind = t.type(node)
    scale, a, b = _whole_operands(t, node)
    rest = operate(a, b)
    if isinstance(kind, T.DecimalType):
        return semantics.bounded(semantics.rescaled(rest, scale, kind.scale), kind.precision)
    return rest.cast(_computed(kind))


def _signed(operate: Callable[[pl.Expr], pl.Expr]) -> _Handler:
    """Minus and abs: an integral type's least value has no counterpart."""

    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        kind, (value,) = t.type(node), t.children(node)
        if type(kind) not in _INTEGRAL:
            return operate(value)
        _, wider = _INTEGRAL[type(kind)]
        wide = operate(value.cast(wider))
        if node.failOnError():
            return semantics.checked(wide, _computed(kind))
        return wide.cast(_computed(kind), wrap_numerical=True)

    return translate_node


def _negative(value: pl.Expr) -> pl.Expr:
    return value * -1


def _whole(
    round_decimal: Callable[[pl.Expr, pl.Expr], pl.Expr],
    round_float: Callable[[pl.Expr], pl.Expr],
) -> _Handler:
    """Floor and ceil, to a bigint or a decimal without fraction."""

    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        source, (value,) = t.operand_type(node), t.children(node)
        if isinstance(source, T.DecimalType):
            return round_decimal(value, pl.lit(10**source.scale, dtype=pl.Int128))
        if type(source) in _INTEGRAL:
            return value
        if t.spark.conf.get("spark.sql.ansi.enabled") == "true":
            number = round_float(pl.when(value.is_nan()).then(0.0).otherwise(value))
            return semantics.checked(number, pl.Int64())
        return semantics.saturated(round_float(value), pl.Int64(), -(2**63), 2**63 - 1)

    return translate_node


def _round(t: _Translation, node: Any) -> pl.Expr:
    source, digits = t.operand_type(node), t.constant(node.scale())
    value = t(node.child())
    if digits is None or digits < 0 or digits > 15:
        t.refuse(node, f"rounding to {digits} digits")
    if isinstance(source, T.DecimalType):
        kind = t.type(node)
        return semantics.bounded(
            semantics.rescaled(value, source.scale, kind.scale), kind.precision
        )
    if type(source) in _INTEGRAL:
        return value
    return semantics.round_half_up(value, digits, _computed(source))


def _power(t: _Translation, node: Any) -> pl.Expr:
    base, exponent = t.children(node)
    if node.right().foldable() and t.constant(node.right()) == 2.0:
        return base * base
    return base.pow(exponent)


# Casts


def _family(kind: T.DataType) -> str:
    if type(kind) in _INTEGRAL:
        return "integral"
    if isinstance(kind, T.FloatType | T.DoubleType):
        return "float"
    return kind.typeName()


def _cast(t: _Translation, node: Any) -> pl.Expr:
    source, target = t.type(node.child()), t.type(node)
    if source == target:
        return t(node.child())
    convert = _CASTS.get((_family(source), _family(target)))
    if convert is None:
        _refuse_cast(t, node)
    return convert(t, node, source, target)


def _refuse_cast(t: _Translation, node: Any) -> NoReturn:
    source, target = (n.dataType().catalogString() for n in (node.child(), node))
    t.refuse(node, f"the cast from {source} to {target}")


def _plain_cast(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    return t(node.child()).cast(_computed(target))


def _cast_integral(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    value = t(node.child())
    if t.legacy(node):
        return value.cast(_computed(target), wrap_numerical=True)
    return semantics.checked(value, _computed(target))


def _cast_float_to_integral(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    value = t(node.child())
    if not t.legacy(node):
        return semantics.checked(value, _computed(target))
    # As Java: by way of an int, unless the target is a long.
    kind = T.LongType() if isinstance(target, T.LongType) else T.IntegerType()
    bits, _ = _INTEGRAL[type(kind)]
    whole = semantics.saturated(value, _computed(kind), -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return whole.cast(_computed(target), wrap_numerical=True)


def _cast_to_decimal(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    value = t(node.child()).cast(pl.Int128)
    scale = source.scale if isinstance(source, T.DecimalType) else 0
    digits = source.precision if isinstance(source, T.DecimalType) else 19
    if digits + target.scale - scale > DECIMAL_DIGITS:
        # Rescaled, the greatest values would not fit into 128 bits: they are no `target` either.
        value = semantics.bounded(value, DECIMAL_DIGITS - max(target.scale - scale, 0))
    return semantics.bounded(semantics.rescaled(value, scale, target.scale), target.precision)


def _cast_decimal_to_integral(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    whole = semantics.truncated_quotient(t(node.child()), pl.lit(10**source.scale, dtype=pl.Int128))
    if t.legacy(node):
        return whole.cast(_computed(target), wrap_numerical=True)
    return semantics.checked(whole, _computed(target))


def _cast_decimal_to_float(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    double = semantics.decimal_to_float(t(node.child()), source.precision, source.scale)
    return double.cast(_computed(target))


def _cast_text_to_number(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    if _family(target) == "float":
        return semantics.text_to_float(t(node.child()), _computed(target))
    if t.legacy(node):
        _refuse_cast(t, node)
    return semantics.text_to_integer(t(node.child()), _computed(target))


def _cast_to_local(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    return semantics.to_local(t(node.child()), t.zone(node)).cast(_computed(target))


def _cast_to_instant(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    local = t(node.child()).cast(pl.Datetime("us"))
    return semantics.to_instant(local, t.zone(node))


def _cast_seconds_to_instant(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    return _from_epoch(1_000_000)(t, node)


def _cast_instant_to_seconds(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    return semantics.checked(_epoch(1_000_000)(t, node), _computed(target))


def _cast_instant_to_float(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    micros = _micros(t(node.child())).cast(pl.Float64)
    return semantics.quotient(micros, pl.lit(1e6)).cast(_computed(target))


def _cast_interval(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    if target.endField < source.endField:
        _refuse_cast(t, node)
    return t(node.child())


def _cast_to_boolean(t: _Translation, node: Any, source: Any, target: Any) -> pl.Expr:
    return t(node.child()) != 0


_CASTS: dict[tuple[str, str], Callable[[_Translation, Any, Any, Any], pl.Expr]] = {
    ("boolean", "integral"): _plain_cast,
    ("boolean", "float"): _plain_cast,
    ("boolean", "string"): _plain_cast,
    ("integral", "boolean"): _cast_to_boolean,
    ("integral", "integral"): _cast_integral,
    ("integral", "float"): _plain_cast,
    ("integral", "decimal"): _cast_to_decimal,
    ("integral", "string"): _plain_cast,
    ("integral", "timestamp"): _cast_seconds_to_instant,
    ("float", "boolean"): _cast_to_boolean,
    ("float", "float"): _plain_cast,
    ("float", "integral"): _cast_float_to_integral,
    ("decimal", "decimal"): _cast_to_decimal,
    ("decimal", "integral"): _cast_decimal_to_integral,
    ("decimal", "float"): _cast_decimal_to_float,
    ("string", "integral"): _cast_text_to_number,
    ("string", "float"): _cast_text_to_number,
    ("date", "string"): _plain_cast,
    ("date", "timestamp"): _cast_to_instant,
    ("date", "timestamp_ntz"): _plain_cast,
    ("timestamp", "date"): _cast_to_local,
    ("timestamp", "timestamp_ntz"): _cast_to_local,
    ("timestamp", "integral"): _cast_instant_to_seconds,
    ("timestamp", "float"): _cast_instant_to_float,
    ("timestamp_ntz", "date"): _plain_cast,
    ("timestamp_ntz", "timestamp"): _cast_to_instant,
    ("daytimeinterval", "daytimeinterval"): _cast_interval,
}


# Texts


def _text(function: Callable[..., pl.Expr]) -> _Handler:
    """A function of texts; Spark has it for binary values and arrays too."""

    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        if not isinstance(t.operand_type(node), T.StringType):
            t.refuse(node, f"{node.prettyName()} of {t.operand_type(node).simpleString()}")
        return function(*t.children(node))

    return translate_node


def _length(t: _Translation, node: Any) -> pl.Expr:
    (value,) = t.children(node)
    binary = isinstance(t.operand_type(node), T.BinaryType)
    return (value.bin.size() if binary else value.str.len_chars()).cast(pl.Int32)


def _trim(strip: Callable[[pl.Expr, str], pl.Expr]) -> _Handler:
    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        text = t(node.srcStr())
        if not node.trimStr().isDefined():
            return strip(text, " ")
        characters = t.constant(node.trimStr().get())
        return pl.lit(None, pl.String) if characters is None else strip(text, characters.toString())

    return translate_node


def _like(t: _Translation, node: Any) -> pl.Expr:
    return _like_pattern(t, node, t(node.left()), t.constant(node.right()), node.escapeChar())


def _like_pattern(t: _Translation, node: Any, text: pl.Expr, pattern: Any, escape: str) -> pl.Expr:
    if pattern is None:
        return pl.lit(None, dtype=pl.Boolean)
    try:
        return text.str.contains(semantics.like_to_regex(pattern.toString(), escape))
    except ValueError as error:
        _fail(t.sql, f"{node.sql()}: {error}", "Double it to mean itself.")


def _multi_like(combine: Callable[[pl.Expr, pl.Expr], pl.Expr], *, negated: bool) -> _Handler:
    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        text = t(node.child())
        likes = [_like_pattern(t, node, text, p, "\\") for p in _each(node.patterns())]
        return functools.reduce(combine, [~like if negated else like for like in likes])

    return translate_node


def _rlike(t: _Translation, node: Any) -> pl.Expr:
    pattern = t.constant(node.right())
    if pattern is None:
        return pl.lit(None, dtype=pl.Boolean)
    try:
        regex = semantics.java_to_rust_regex(pattern.toString())
        pl.select(pl.lit("").str.contains(regex))
    except (ValueError, pl.exceptions.ComputeError) as error:
        t.refuse(node, str(error).splitlines()[0])
    return t(node.left()).str.contains(regex)


# Times

_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
_TRUNCATIONS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "1y"),
    "QUARTER": "1q",
    **dict.fromkeys(("MONTH", "MM", "MON"), "1mo"),
    "WEEK": "1w",
    **dict.fromkeys(("DAY", "DD"), "1d"),
    "HOUR": "1h",
    "MINUTE": "1m",
    "SECOND": "1s",
    "MILLISECOND": "1ms",
    "MICROSECOND": "1us",
}


def _micros(time: pl.Expr) -> pl.Expr:
    return time.cast(pl.Int64)


def _interval(micros: pl.Expr) -> pl.Expr:
    return micros.cast(pl.Int64).cast(pl.Duration("us"))


def _local(t: _Translation, node: Any, time: Any) -> pl.Expr:
    """A timestamp of either kind as a local time."""
    if isinstance(t.type(time), T.TimestampType):
        return semantics.to_local(t(time), t.zone(node))
    if isinstance(t.type(time), T.TimestampNTZType):
        return t(time)
    t.refuse(node, f"{node.prettyName()} of {time.dataType().catalogString()}")


def _plus(t: _Translation, node: Any, time: Any, interval: pl.Expr) -> pl.Expr:
    if isinstance(t.type(time), T.TimestampNTZType):
        return t(time) + interval
    return semantics.plus_interval(t(time), interval, t.zone(node))


def _timestamp_plus_interval(t: _Translation, node: Any) -> pl.Expr:
    return _plus(t, node, node.start(), t(node.interval()))


def _timestamp_plus_months(t: _Translation, node: Any) -> pl.Expr:
    months = t.constant(node.interval())
    if isinstance(t.type(node.timestamp()), T.TimestampNTZType):
        return t(node.timestamp()).dt.offset_by(f"{months}mo")
    return semantics.plus_months(t(node.timestamp()), months, t.zone(node))


def _date_plus_months(t: _Translation, node: Any) -> pl.Expr:
    date, months = _each(node.children())
    return t(date).dt.offset_by(f"{t.constant(months)}mo")


def _timestamp_add(t: _Translation, node: Any) -> pl.Expr:
    micros = _unit(t, node) * t(node.quantity()).cast(pl.Int64)
    return _plus(t, node, node.timestamp(), _interval(micros))


def _timestamp_difference(t: _Translation, node: Any) -> pl.Expr:
    unit = pl.lit(_unit(t, node), dtype=pl.Int128)
    start = _local(t, node, node.startTimestamp())
    end = _local(t, node, node.endTimestamp())
    return semantics.truncated_quotient(_micros(end - start).cast(pl.Int128), unit).cast(pl.Int64)


def _unit(t: _Translation, node: Any) -> int:
    name = str(node.unit()).upper()
    if name not in _UNITS:
        t.refuse(node, f"{node.prettyName()} in the unit {name}")
    return _UNITS[name]


def _subtract_timestamps(t: _Translation, node: Any) -> pl.Expr:
    return _local(t, node, node.left()) - _local(t, node, node.right())


def _truncate_timestamp(t: _Translation, node: Any) -> pl.Expr:
    unit = t.constant(node.format())
    every = _TRUNCATIONS.get(unit.toString().upper()) if unit is not None else None
    if every is None:
        return pl.lit(None, dtype=pl.Datetime("us", "UTC"))
    return semantics.truncated_to_unit(t(node.timestamp()), every, t.zone(node))


def _plus_days(date: pl.Expr, days: pl.Expr) -> pl.Expr:
    return (date.cast(pl.Int32) + days.cast(pl.Int32)).cast(pl.Date)


def _days_between(end: pl.Expr, start: pl.Expr) -> pl.Expr:
    return end.cast(pl.Int32) - start.cast(pl.Int32)


def _date_part(part: Callable[[pl.Expr], pl.Expr]) -> _Handler:
    return lambda t, node: part(t(node.child())).cast(pl.Int32)


def _time_part(part: Callable[[pl.Expr], pl.Expr]) -> _Handler:
    return lambda t, node: part(_local(t, node, node.child())).cast(pl.Int32)


def _instant(t: _Translation, node: Any) -> pl.Expr:
    """A node's first child, which must be a timestamp."""
    time = node.children().head()
    if not isinstance(t.type(time), T.TimestampType):
        t.refuse(node, f"{node.prettyName()} of {time.dataType().catalogString()}")
    return t(time)


def _epoch(unit: int) -> _Handler:
    """Whole units since 1970, rounded down."""
    return lambda t, node: _micros(_instant(t, node)) // unit


def _unix_timestamp(t: _Translation, node: Any) -> pl.Expr:
    """Whole seconds since 1970, rounded towards 1970: unlike Spark's other ways to them."""
    micros = _micros(_instant(t, node)).cast(pl.Int128)
    second = pl.lit(1_000_000, dtype=pl.Int128)
    return semantics.truncated_quotient(micros, second).cast(pl.Int64)


def _from_epoch(unit: int) -> _Handler:
    def translate_node(t: _Translation, node: Any) -> pl.Expr:
        number = node.children().head()
        if type(t.type(number)) not in _INTEGRAL:
            t.refuse(node, f"{node.prettyName()} of {number.dataType().catalogString()}")
        micros = t(number).cast(pl.Int128) * unit
        return semantics.checked(micros, pl.Int64()).cast(pl.Datetime("us", "UTC"))

    return translate_node


def _multiplied_interval(t: _Translation, node: Any) -> pl.Expr:
    interval, number = _each(node.children())
    if type(t.type(number)) not in _INTEGRAL:
        t.refuse(node, f"an interval times {number.dataType().catalogString()}")
    product = _micros(t(interval)).cast(pl.Int128) * t(number).cast(pl.Int128)
    return semantics.checked(product, pl.Int64()).cast(pl.Duration("us"))


#: What translates each Catalyst node.
_NODES: dict[str, _Handler] = {
    # columns
    "AttributeReference": _value,
    "GetStructField": _value,
    "GetArrayItem": _value,
    "Size": _size,
    "ArrayContains": _array_contains,
    # logic
    "Alias": _of(lambda a: a),
    "With": _with,
    "CommonExpressionRef": lambda t, node: t.common[node.id().toString()],
    "And": _of(lambda a, b: a & b),
    "Or": _of(lambda a, b: a | b),
    "Not": _of(lambda a: ~a),
    "EqualTo": _of(lambda a, b: a == b),
    "EqualNullSafe": _of(lambda a, b: a.eq_missing(b)),
    "LessThan": _of(lambda a, b: a < b),
    "LessThanOrEqual": _of(lambda a, b: a <= b),
    "GreaterThan": _of(lambda a, b: a > b),
    "GreaterThanOrEqual": _of(lambda a, b: a >= b),
    "In": _in,
    "IsNull": _is_null,
    "IsNotNull": lambda t, node: ~_is_null(t, node),
    "IsNaN": _of(lambda a: a.is_nan().fill_null(False)),
    "Coalesce": _of(lambda *values: pl.coalesce(*values)),
    "If": _of(lambda condition, a, b: pl.when(condition).then(a).otherwise(b)),
    "CaseWhen": _case,
    "NullIfResult": _of(lambda equal, value: pl.when(~equal.fill_null(False)).then(value)),
    "NaNvl": _of(lambda a, b: pl.when(a.is_nan()).then(b).otherwise(a)),
    "Greatest": _of(lambda *values: semantics.extreme(values, greatest=True)),
    "Least": _of(lambda *values: semantics.extreme(values, greatest=False)),
    # numbers
    "Add": _arithmetic(lambda a, b: a + b, _decimal_sum(lambda a, b: a + b)),
    "Subtract": _arithmetic(lambda a, b: a - b, _decimal_sum(lambda a, b: a - b)),
    "Multiply": _arithmetic(lambda a, b: a * b, _decimal_product),
    "Divide": _divide,
    "IntegralDivide": _integral_divide,
    "Remainder": _remainder,
    "Pmod": _pmod,
    "UnaryMinus": _signed(_negative),
    "Abs": _signed(lambda a: a.abs()),
    "Signum": _of(lambda a: a.sign()),
    "Floor": _whole(lambda a, one: a // one, lambda a: a.floor()),
    "Ceil": _whole(lambda a, one: 0 - (0 - a) // one, lambda a: a.ceil()),
    "Round": _round,
    "Sqrt": _of(lambda a: a.sqrt()),
    "Pow": _power,
    "BitwiseAnd": _of(lambda a, b: a & b),
    "BitwiseOr": _of(lambda a, b: a | b),
    "BitwiseXor": _of(lambda a, b: a ^ b),
    "Cast": _cast,
    # texts
    "Lower": _of(lambda a: a.str.to_lowercase()),
    "Upper": _of(lambda a: a.str.to_uppercase()),
    "Length": _length,
    "Concat": _text(lambda *values: pl.concat_str(*values)),
    "Substring": _text(semantics.substring),
    "StringTrim": _trim(lambda text, characters: text.str.strip_chars(characters)),
    "StringTrimLeft": _trim(lambda text, characters: text.str.strip_chars_start(characters)),
    "StringTrimRight": _trim(lambda text, characters: text.str.strip_chars_end(characters)),
    "StartsWith": _text(lambda a, b: a.str.starts_with(b)),
    "EndsWith": _text(lambda a, b: a.str.ends_with(b)),
    "Contains": _text(lambda a, b: a.str.contains(b, literal=True)),
    "Like": _like,
    "LikeAny": _multi_like(lambda a, b: a | b, negated=False),
    "LikeAll": _multi_like(lambda a, b: a & b, negated=False),
    "NotLikeAny": _multi_like(lambda a, b: a | b, negated=True),
    "NotLikeAll": _multi_like(lambda a, b: a & b, negated=True),
    "RLike": _rlike,
    # times
    "TimestampAddInterval": _timestamp_plus_interval,
    "TimeAdd": _timestamp_plus_interval,  # its name before Spark 4.1
    "TimestampAddYMInterval": _timestamp_plus_months,
    "DateAddYMInterval": _date_plus_months,
    "AddMonths": _date_plus_months,
    "TimestampAdd": _timestamp_add,
    "TimestampDiff": _timestamp_difference,
    "SubtractTimestamps": _subtract_timestamps,
    "SubtractDates": _of(lambda a, b: (a - b).cast(pl.Duration("us"))),
    "MultiplyDTInterval": _multiplied_interval,
    "ExtractANSIIntervalDays": _of(lambda a: a.dt.total_days().cast(pl.Int32)),
    "DateAdd": _of(_plus_days),
    "DateSub": _of(lambda date, days: _plus_days(date, 0 - days.cast(pl.Int32))),
    "DateDiff": _of(_days_between),
    "TruncTimestamp": _truncate_timestamp,
    "UnixTimestamp": _unix_timestamp,
    "ToUnixTimestamp": _unix_timestamp,
    "UnixSeconds": _epoch(1_000_000),
    "UnixMillis": _epoch(1_000),
    "UnixMicros": _epoch(1),
    "SecondsToTimestamp": _from_epoch(1_000_000),
    "MillisToTimestamp": _from_epoch(1_000),
    "MicrosToTimestamp": _from_epoch(1),
    "Year": _date_part(lambda a: a.dt.year()),
    "Quarter": _date_part(lambda a: a.dt.quarter()),
    "Month": _date_part(lambda a: a.dt.month()),
    "WeekOfYear": _date_part(lambda a: a.dt.week()),
    "DayOfYear": _date_part(lambda a: a.dt.ordinal_day()),
    "DayOfMonth": _date_part(lambda a: a.dt.day()),
    "DayOfWeek": _date_part(lambda a: a.dt.weekday() % 7 + 1),  # Sunday is 1
    "WeekDay": _date_part(lambda a: a.dt.weekday() - 1),  # Monday is 0
    "Hour": _time_part(lambda a: a.dt.hour()),
    "Minute": _time_part(lambda a: a.dt.minute()),
    "Second": _time_part(lambda a: a.dt.second()),
}
