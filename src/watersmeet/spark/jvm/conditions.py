"""A SQL condition over several DataFrames, as Spark's analyzer resolves it. No job runs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from watersmeet.spark.jvm.objects import JavaObject, java_session, packages

#: Each comparison, and the one that holds where it does not.
_OPPOSITES = {
    "LessThan": "GreaterThanOrEqual",
    "LessThanOrEqual": "GreaterThan",
    "GreaterThan": "LessThanOrEqual",
    "GreaterThanOrEqual": "LessThan",
}


@dataclass(frozen=True)
class ResolvedCondition:
    """The tree of a condition in Catalyst, from its ``root`` down, and the ``attributes`` that it
    may refer to: all columns of the DataFrames, one DataFrame after the other."""

    spark: SparkSession
    root: JavaObject
    attributes: JavaObject

    @classmethod
    def of(cls, spark: SparkSession, plan: JavaObject) -> ResolvedCondition:
        """The condition of a plan of :func:`filtered`, with functions in place of those that Spark
        replaces by others."""
        catalyst = packages(spark).org.apache.spark.sql.catalyst
        root = catalyst.optimizer.ReplaceExpressions.apply(plan).condition()
        sequence = getattr(catalyst.expressions, "package$AttributeSeq")
        return cls(spark, root, sequence(plan.output()))

    def index(self, attribute: JavaObject) -> int:
        """Which of the attributes an attribute of the tree is."""
        return int(self.attributes.indexOf(attribute.exprId()))

    @property
    def has_subquery(self) -> bool:
        return bool(self.root.containsPattern(self._patterns.PLAN_EXPRESSION()))

    @property
    def depends_on_moment(self) -> bool:
        """Does it depend on the current time, user or session?"""
        return bool(self.root.containsPattern(self._patterns.CURRENT_LIKE()))

    @property
    def is_deterministic(self) -> bool:
        return bool(self.root.deterministic())

    @property
    def _patterns(self) -> JavaObject:
        return packages(self.spark).org.apache.spark.sql.catalyst.trees.TreePattern


def filtered(spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]) -> JavaObject:
    """The plan of a condition over empty relations with the schemas of DataFrames, each by its
    name; what the analyzer refuses is raised."""
    session = java_session(spark)
    nothing = packages(spark).java.util.ArrayList()
    relations = [
        session.createDataFrame(nothing, frame._jdf.schema()).alias(name) for name, frame in streams
    ]
    product = functools.reduce(lambda left, right: left.crossJoin(right), relations)
    return product.where(sql).queryExecution().analyzed()


def without_negation(spark: SparkSession, node: JavaObject) -> JavaObject:
    """A node that holds for the same rows, and is no negation, if Spark knows one that is not:
    ``NOT a.x < b.x`` is ``a.x >= b.x``, also of NaN and null, and ``NOT (p OR q)`` is ``NOT p AND
    NOT q``."""
    if node.nodeName() != "Not":
        return node
    child, expressions = node.child(), packages(spark).org.apache.spark.sql.catalyst.expressions
    name = child.nodeName()
    if name == "Not":
        return child.child()
    if name == "Or":
        return expressions.And(expressions.Not(child.left()), expressions.Not(child.right()))
    if name in _OPPOSITES:
        return getattr(expressions, _OPPOSITES[name])(child.left(), child.right())
    return node


def without_null(spark: SparkSession, node: JavaObject) -> JavaObject:
    """An ordinary equality in place of one by which nulls are equal, if one side is never null: it
    holds for the same rows."""
    if node.nodeName() != "EqualNullSafe" or (node.left().nullable() and node.right().nullable()):
        return node
    expressions = packages(spark).org.apache.spark.sql.catalyst.expressions
    return expressions.EqualTo(node.left(), node.right())


def time_zone(spark: SparkSession) -> str:
    """The session's zone, with a fixed offset in its shortest form."""
    times = packages(spark).org.apache.spark.sql.catalyst.util.DateTimeUtils
    zone = times.getZoneId(spark.conf.get("spark.sql.session.timeZone"))
    return str(zone.normalized().getId())
