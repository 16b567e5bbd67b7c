"""The leaves of a plan that read files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.objects import (
    JavaObject,
    elements,
    java_session,
    packages,
    scala_object,
    sequence,
    simple_class,
)
from watersmeet.spark.jvm.plans import LogicalPlan
from watersmeet.table.origin import File


@dataclass(frozen=True)
class FileRelation:
    """A relation over files, as Spark's own formats are: a ``leaf`` of a plan."""

    leaf: LogicalPlan

    @classmethod
    def at(cls, leaf: LogicalPlan) -> FileRelation | None:
        """The relation at a leaf of a plan; None if it is not one over files."""
        if leaf.kind != "LogicalRelation":
            return None
        relation = cls(leaf)
        return relation if simple_class(relation._java) == "HadoopFsRelation" else None

    @property
    def format(self) -> str:
        """What its files are, in Spark's words."""
        return str(self._java.toString())

    @property
    def paths(self) -> list[str]:
        """The files and folders that it is read from."""
        return [path.toString() for path in elements(self._location.rootPaths())]

    @property
    def files(self) -> frozenset[File]:
        """Its files, as Spark has listed them."""
        return frozenset(
            File(status.getPath().toString(), status.getLen(), status.getModificationTime())
            for status in elements(self._location.allFiles())
        )

    @property
    def options(self) -> list[tuple[str, str]]:
        """The options that it is read with."""
        return [(pair._1(), pair._2()) for pair in elements(self._java.options().toSeq())]

    @property
    def schemas(self) -> list[str]:
        """Its columns as JSON: as the plan has them, as files do, and as folders do."""
        schemas = self.leaf.java.schema(), self._java.dataSchema(), self._java.partitionSchema()
        return [schema.json() for schema in schemas]

    def refresh(self) -> None:
        """List its files again."""
        self._location.refresh()

    def only(self, spark: SparkSession, paths: Collection[str]) -> FileRelation:
        """The same, of the files of these paths alone, as they are now."""
        location = self._index_of(spark, paths)
        relation = _with_first(self._java, location, java_session(spark))
        return FileRelation(LogicalPlan(_with_first(self.leaf.java, relation)))

    def _index_of(self, spark: SparkSession, names: Collection[str]) -> JavaObject:
        """An index of some files, with the same values of partition columns."""
        statuses = elements(self._location.allFiles())
        paths = [path for status in statuses if (path := status.getPath()).toString() in names]
        option = packages(spark).scala.Option
        sources = packages(spark).org.apache.spark.sql.execution.datasources
        return sources.InMemoryFileIndex(
            java_session(spark),
            sequence(spark, paths),
            self._java.options(),
            option.apply(self._java.schema()),
            scala_object(sources, "NoopCache"),
            option.apply(self._location.partitionSpec()),
            option.apply(None),
        )

    @property
    def _java(self) -> JavaObject:
        return self.leaf.java.relation()

    @property
    def _location(self) -> JavaObject:
        return self._java.location()


def _with_first(case_class: JavaObject, first: JavaObject, *further: JavaObject) -> JavaObject:
    """A copy of an object of Scala's that has another first field."""
    fields = [case_class.productElement(i) for i in range(1, case_class.productArity())]
    return case_class.copy(first, *fields, *further)
