"""The files that a table is read from: which there are, and the rows of only some of them.

A table is read *row by row* if it is one relation over files, with projections and filters above
it and nothing else. Then each of its rows is from one file, and the rows of some files are the same
whatever other files there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from watersmeet.table.origin import File

#: What a plan may have above a relation whose rows it reads one by one.
_BY_ROW = ("Project", "Filter", "SubqueryAlias")


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


def leaves_of(plan: Any) -> list[Any]:
    """The leaves of a plan, and of the subqueries in its expressions."""
    plans = [plan, *scala(plan.subqueriesAll())]
    return [leaf for one in plans for leaf in scala(one.collectLeaves())]


def is_of_files(leaf: Any) -> bool:
    """Is a leaf of a plan a relation over files, as Spark's own formats are?"""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return False
    return bool(leaf.relation().getClass().getSimpleName() == "HadoopFsRelation")


def read_as(leaf: Any) -> list[object]:
    """How a relation is read: in which format, from which paths, with which options; and its
    columns, as the plan has them, as files do, and as folders do."""
    relation = leaf.relation()
    paths = sorted(_paths(relation.location()))
    options = sorted((pair._1(), pair._2()) for pair in scala(relation.options().toSeq()))
    schemas = leaf.schema(), relation.dataSchema(), relation.partitionSchema()
    return [relation.toString(), paths, options, [schema.json() for schema in schemas]]


def listing_of(leaf: Any) -> Listing:
    """What a relation is read from, as Spark has listed it."""
    location = leaf.relation().location()
    return Listing(frozenset(_paths(location)), _listed(location))


def is_by_row(plan: Any) -> bool:
    """Is a plan over files read row by row?"""
    *above, leaf = _line(plan)
    kinds = {node.getClass().getSimpleName() for node in above}
    return kinds <= {*_BY_ROW} and is_of_files(leaf) and plan.subqueriesAll().isEmpty()


def only(df: DataFrame, files: frozenset[File]) -> DataFrame | None:
    """The rows of some files of a table that is read row by row; None if one has changed since it
    was listed."""
    jdf: Any = df._jdf
    *above, leaf = _line(jdf.queryExecution().analyzed())
    location = _index_of(df, leaf.relation(), files)
    if _listed(location) != files:
        return None
    jvm: Any = df.sparkSession._jvm
    session = df.sparkSession._jsparkSession
    relation = _with_first(leaf.relation(), location, session)
    plan = _with_first(leaf, relation)
    for node in reversed(above):
        plan = node.withNewChildren(jvm.PythonUtils.toSeq([plan]))
    return computed(df.sparkSession, plan)


def computed(spark: SparkSession, plan: Any) -> DataFrame:
    """The rows of a plan, computed anew."""
    jvm: Any = spark._jvm
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)


def _line(plan: Any) -> list[Any]:
    """The nodes of a plan from the top down, as long as each has one child."""
    nodes = [plan]
    while nodes[-1].children().size() == 1:
        nodes.append(nodes[-1].children().apply(0))
    return nodes


def _index_of(df: DataFrame, relation: Any, files: frozenset[File]) -> Any:
    """An index of some files of a relation, with the same values of partition columns."""
    jvm: Any = df.sparkSession._jvm
    names = {file.path for file in files}
    statuses = scala(relation.location().allFiles())
    paths = [path for status in statuses if (path := status.getPath()).toString() in names]
    sources = jvm.org.apache.spark.sql.execution.datasources
    return sources.InMemoryFileIndex(
        df.sparkSession._jsparkSession,
        jvm.PythonUtils.toSeq(paths),
        relation.options(),
        jvm.scala.Option.apply(relation.schema()),
        getattr(getattr(sources, "NoopCache$"), "MODULE$"),
        jvm.scala.Option.apply(relation.location().partitionSpec()),
        jvm.scala.Option.apply(None),
    )


def _with_first(case_class: Any, first: Any, *further: Any) -> Any:
    """A copy of an object of Scala's that has another first field."""
    fields = [case_class.productElement(i) for i in range(1, case_class.productArity())]
    return case_class.copy(first, *fields, *further)


def _paths(location: Any) -> list[str]:
    return [path.toString() for path in scala(location.rootPaths())]


def _with_parents(path: str) -> Iterator[str]:
    """A path, and the folders above it."""
    return itertools.accumulate(path.split("/"), "{}/{}".format)


def _listed(location: Any) -> frozenset[File]:
    return frozenset(
        File(status.getPath().toString(), status.getLen(), status.getModificationTime())
        for status in scala(location.allFiles())
    )


def scala(sequence: Any) -> Iterator[Any]:
    """The elements of a sequence of Scala's."""
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()
