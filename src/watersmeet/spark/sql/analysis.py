"""Spark's analyzer reads the condition; what it refuses, and what we refuse, is explained.

Spark parses, resolves and types the condition over empty relations of the streams'
schemas, so its own implicit casts are in the tree. No job runs.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from watersmeet.conditions.terms import ColumnOf
from watersmeet.errors import PredicateError, did_you_mean
from watersmeet.spark.jvm.conditions import ResolvedCondition, filtered
from watersmeet.spark.jvm.objects import JavaError, JavaObject, message

#: What `where` knows, as messages name it.
SUPPORTED = (
    *("and", "or", "not", "in", "between", "is null", "like", "rlike", "case", "if", "coalesce"),
    *("nullif", "greatest", "least", "div", "pmod", "abs", "sign", "floor", "ceil", "round"),
    *("sqrt", "cast", "isnan", "lower", "upper", "length", "concat", "substring", "left", "right"),
    *("trim", "startswith", "endswith", "contains", "split", "date_add", "date_sub", "datediff"),
    *("dateadd", "timestampadd", "timestampdiff", "regexp", "regexp_like"),
    *(
        "date_trunc",
        "unix_timestamp",
        "year",
        "quarter",
        "month",
        "day",
        "hour",
        "minute",
        "second",
        "size",
    ),
    *("array_contains", "arrays_overlap"),
)
#: The reference, as it is installed.
GUIDE = Path(__file__).parents[2] / "docs" / "reference.md"
_LISTS = f"{GUIDE} lists what `where` knows, under Conditions"

#: How many columns a message lists.
_LISTED = 20

#: What to do instead of a subquery, and instead of a function that `where` does not know.
_NO_SUBQUERY = "Join that table first, like wm.enrich(views, table, on='key'), or with Spark."
OWN_FUNCTION = "A function of your own is given by wm.predicate(function, 'views', 'clicks')."

#: What Spark says of a subquery that is none: its table is not known, or it has no parentheses.
_SUBQUERY = "TABLE_OR_VIEW_NOT_FOUND", "UNSUPPORTED_TYPED_LITERAL", "PARSE"
_SELECT, _TEXT = re.compile(r"\bselect\b", re.IGNORECASE), re.compile(r"'[^']*'")

_HINTS = {
    "PARSE": "Give a Spark SQL condition, as in 'a.x < b.y'.",
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": "Give a condition, as in 'a.x < b.y'.",
    "INVALID_WHERE_CONDITION": "Aggregates and windows have no place in a join's condition.",
}


@dataclass(frozen=True)
class Condition:
    """A resolved condition: its Catalyst tree, and which columns it may refer to.

    The attributes of ``resolved`` and ``columns`` are parallel: Spark's ids beside (stream,
    column).
    """

    spark: SparkSession
    sql: str
    resolved: ResolvedCondition
    columns: tuple[ColumnOf, ...]

    @property
    def root(self) -> JavaObject:
        """The top of the tree."""
        return self.resolved.root

    def column(self, attribute: JavaObject) -> ColumnOf:
        """The column that an attribute of the tree stands for."""
        return self.columns[self.resolved.index(attribute)]


def analyzed(spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]) -> Condition:
    """The condition as Spark understands it."""
    try:
        with without_spark_log():
            plan = filtered(spark, sql, streams)
    except PySparkException as error:
        _explain(sql, error, [(name, frame.columns) for name, frame in streams])
    resolved = ResolvedCondition.of(spark, plan)
    _refuse_what_changes(sql, resolved)
    columns = tuple((i, name) for i, (_, frame) in enumerate(streams) for name in frame.columns)
    return Condition(spark, sql, resolved, columns)


def _refuse_what_changes(sql: str, condition: ResolvedCondition) -> None:
    """A pair must match or not, whenever and wherever it is looked at."""
    if condition.has_subquery:
        fail(sql, "it contains a subquery", _NO_SUBQUERY)
    if condition.depends_on_moment:
        hint = "A pair's result may not depend on when it is computed: compare columns."
        fail(sql, "it depends on the current time, user or session", hint)
    if not condition.is_deterministic:
        hint = "A pair must give the same result whenever it is computed."
        fail(sql, "it is not deterministic", hint)


@contextmanager
def without_spark_log() -> Iterator[None]:
    """PySpark logs an error in SQL with the JVM's whole stack; our message has its reason."""
    logger: logging.Logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def supported(given: str) -> str:
    """What `where` knows that is most like what was given, and where the rest is listed."""
    if given in SUPPORTED:
        return f"{_LISTS}, with the types that it knows {given} of."
    # Below 0.7 are names that share letters by chance: least, for levenshtein.
    near = difflib.get_close_matches(given, SUPPORTED, n=3, cutoff=0.7)
    similar = f"Similar {'is' if len(near) == 1 else 'are'} {', '.join(near)}; " if near else ""
    return f"{similar}{_LISTS}."


def fail(sql: str, wrong: str, right: str) -> NoReturn:
    """Refuse the condition: what is wrong with it, and what would be right."""
    raise PredicateError(f"where={sql!r}: {wrong}. {right}".rstrip()) from None


def reason(error: PySparkException | JavaError) -> str:
    """Spark's own reason: its first line, without the codes around it."""
    text = error.getMessage() if isinstance(error, PySparkException) else message(error)
    first = (text or str(error)).strip().splitlines()[0]
    return str(first).split("] ", 1)[-1].split(" SQLSTATE:")[0].rstrip(" .;")


def _explain(
    sql: str, error: PySparkException, streams: Sequence[tuple[str, Sequence[str]]]
) -> NoReturn:
    """Say what the analyzer did not accept, in terms of the streams."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    if condition.startswith("UNRESOLVED_COLUMN"):
        _unknown_column(sql, parameters["objectName"].replace("`", ""), streams)
    if condition.startswith("AMBIGUOUS_REFERENCE"):
        choices = parameters["referenceNames"].strip("[]").replace("`", "")
        hint = f"Put the stream's name before it: {' or '.join(choices.split(', '))}."
        fail(sql, f"{parameters['name'].replace('`', '')} is a column of several streams", hint)
    if condition.startswith("UNRESOLVED_ROUTINE"):
        known = supported(parameters["routineName"].strip("`").lower())
        fail(sql, reason(error), f"{known} {OWN_FUNCTION}")
    if condition.startswith(_SUBQUERY) and _SELECT.search(_TEXT.sub("", sql)):
        fail(sql, "it contains a subquery", _NO_SUBQUERY)
    hint = next((text for prefix, text in _HINTS.items() if condition.startswith(prefix)), "")
    fail(sql, reason(error), hint)


def _unknown_column(sql: str, given: str, streams: Sequence[tuple[str, Sequence[str]]]) -> NoReturn:
    qualified = [f"{name}.{column}" for name, columns in streams for column in columns]
    plain = [column for _, columns in streams for column in columns]
    known = qualified if "." in given else plain
    listed = ", ".join(qualified[:_LISTED])
    more = len(qualified) - _LISTED
    rest = f" and {more} more" if more > 0 else ""
    hint = f"{did_you_mean(given, known)} The columns are {listed}{rest}."
    fail(sql, f"there is no column {given}", hint.strip())
