"""The files that a table is read from: which there are, and the rows of only some of them.

A table is read *row by row* if it is one relation over files, with projections and filters above
it and nothing else. Then each of its rows is from one file, and the rows of some files are the same
whatever other files there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from watersmeet.spark.jvm.plans import LogicalPlan
from watersmeet.spark.jvm.relations import FileRelation
from watersmeet.table.origin import File

#: What a plan may have above a relation whose rows it reads one by one.
_BY_ROW = ("Project", "Filter", "SubqueryAlias", "View")


@dataclass(frozen=True)
class Listing:
    """The ``files`` of a relation, as Spark has listed them, and the ``paths`` of files and folders
    that it is read from."""

    paths: frozenset[str]
    files: frozenset[File]

    @property
    def bare(self) -> frozenset[str]:
        """The paths with no file at all.

        >>> there = frozenset({File("file:/ads/day=1/a", 1, 0), File("file:/b", 1, 0)})
        >>> Listing(frozenset({"file:/ads", "file:/b", "file:/ad", "file:/c"}), there).bare == {
        ...     "file:/ad", "file:/c"
        ... }
        True
        """
        filled = {path for file in self.files for path in _with_parents(file.path)}
        return frozenset(path for path in self.paths if path.rstrip("/") not in filled)


def listing_of(relation: FileRelation) -> Listing:
    """What a relation is read from, as Spark has listed it."""
    return Listing(frozenset(relation.paths), relation.files)


def is_by_row(plan: LogicalPlan) -> bool:
    """Is a plan over files read row by row?"""
    *above, leaf = plan.line
    by_row = {node.kind for node in above} <= {*_BY_ROW}
    return by_row and FileRelation.at(leaf) is not None and not plan.subqueries


def only(df: DataFrame, files: frozenset[File]) -> DataFrame | None:
    """The rows of some files of a table that is read row by row; None if one has changed since it
    was listed."""
    spark = df.sparkSession
    *above, leaf = LogicalPlan.of(df).line
    relation = FileRelation(leaf).only(spark, {file.path for file in files})
    if relation.files != files:
        return None
    plan = relation.leaf
    for node in reversed(above):
        plan = node.over(spark, plan)
    return plan.rows(spark)


def _with_parents(path: str) -> Iterator[str]:
    """A path, and the folders above it."""
    return itertools.accumulate(path.split("/"), "{}/{}".format)
