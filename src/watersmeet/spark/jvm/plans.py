"""The logical plans of Spark's: of a DataFrame, and of a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from watersmeet.spark.jvm.objects import (
    JavaObject,
    elements,
    java_session,
    packages,
    sequence,
    simple_class,
)


@dataclass(frozen=True)
class PlanNode:
    """A node of a plan, or of an expression in it."""

    java: JavaObject

    @property
    def class_name(self) -> str:
        """The full name of its class."""
        return str(self.java.getClass().getName())

    @property
    def children(self) -> list[Self]:
        return [type(self)(child) for child in elements(self.java.children())]

    def tree(self) -> Iterator[Self]:
        """The node, and all below it, from the top down."""
        yield self
        for child in self.children:
            yield from child.tree()

    def field(self, name: str) -> str:
        """A field of its class, as text."""
        return str(getattr(self.java, name)())


@dataclass(frozen=True)
class LogicalPlan(PlanNode):
    """A plan, or the part of one from a node down."""

    @classmethod
    def of(cls, df: DataFrame) -> LogicalPlan:
        """What a DataFrame computes, as Spark's analyzer has resolved it."""
        java: JavaObject = df._jdf
        return cls(java.queryExecution().analyzed())

    @property
    def kind(self) -> str:
        """What its first node does: "Project", for example."""
        return simple_class(self.java)

    @property
    def text(self) -> str:
        """The plan, for people to read."""
        return str(self.java.toString())

    @property
    def json(self) -> str:
        """The plan, as Spark writes it."""
        return str(self.java.toJSON())

    @property
    def is_deterministic(self) -> bool:
        """Does it give the same each time, as far as Spark knows?"""
        return bool(self.java.deterministic())

    @property
    def subqueries(self) -> list[LogicalPlan]:
        """The plans of the subqueries in its expressions."""
        return [LogicalPlan(plan) for plan in elements(self.java.subqueriesAll())]

    @property
    def leaves(self) -> list[LogicalPlan]:
        """Its leaves, and those of its subqueries."""
        return [
            LogicalPlan(leaf)
            for plan in (self, *self.subqueries)
            for leaf in elements(plan.java.collectLeaves())
        ]

    @property
    def line(self) -> list[LogicalPlan]:
        """Its nodes from the top down, as long as each has one child."""
        nodes = [self]
        while len(children := nodes[-1].children) == 1:
            nodes += children
        return nodes

    @property
    def expressions(self) -> list[PlanNode]:
        """The expressions of its first node."""
        return [PlanNode(expression) for expression in elements(self.java.expressions())]

    @property
    def canonical_text(self) -> str:
        """Its first node, for people to read, without what differs between two equal ones."""
        return str(self.java.canonicalized().simpleString(2**31 - 1))

    @property
    def observation(self) -> str:
        """The name of the observation, of a plan that begins with one."""
        return str(self.java.name())

    @property
    def watermark_column(self) -> str:
        """The column of the watermark, of a plan that begins by setting one."""
        return str(self.java.eventTime().name())

    def over(self, spark: SparkSession, child: LogicalPlan) -> LogicalPlan:
        """Its first node, over another plan."""
        return LogicalPlan(self.java.withNewChildren(sequence(spark, [child.java])))

    def rows(self, spark: SparkSession) -> DataFrame:
        """What it computes, computed anew."""
        dataset = packages(spark).org.apache.spark.sql.classic.Dataset
        return DataFrame(dataset.ofRows(java_session(spark), self.java), spark)
