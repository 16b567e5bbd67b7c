"""The leaves of a plan: what they read, files and others."""

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
            for status in elements(self._index.allFiles())
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

    @property
    def moved(self) -> list[tuple[str, str]]:
        """Its partitions, as values and folder, whose values only the catalog tells: their folders
        are not named after these."""
        if not self._is_in_catalog_partitions:
            return []
        spec, base = self._index.partitionSpec(), f"{self.paths[0]}/"
        columns = [name.lower() for name in spec.partitionColumns().fieldNames()]
        partitions = [
            (str(each.values()), str(each.path())) for each in elements(spec.partitions())
        ]
        return sorted(each for each in partitions if _named(each[1], base) != columns)

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
        index = self._index
        statuses = elements(index.allFiles())
        paths = [path for status in statuses if (path := status.getPath()).toString() in names]
        option = packages(spark).scala.Option
        sources = packages(spark).org.apache.spark.sql.execution.datasources
        return sources.InMemoryFileIndex(
            java_session(spark),
            sequence(spark, paths),
            self._java.options(),
            option.apply(self._java.schema()),
            scala_object(sources, "NoopCache"),
            option.apply(index.partitionSpec()),
            option.apply(None),
        )

    @property
    def _java(self) -> JavaObject:
        return self.leaf.java.relation()

    @property
    def _location(self) -> JavaObject:
        return self._java.location()

    @property
    def _index(self) -> JavaObject:
        """What lists its files. Of a table in partitions that the catalog knows, that is made from
        what the catalog has of them now."""
        if not self._is_in_catalog_partitions:
            return self._location
        no_filter = self.leaf.java.children()  # an empty sequence, as it is a leaf
        return self._location.filterPartitions(no_filter)

    @property
    def _is_in_catalog_partitions(self) -> bool:
        return simple_class(self._location) == "CatalogFileIndex"


@dataclass(frozen=True)
class Source:
    """What a ``leaf`` of a plan reads that is not over files."""

    leaf: LogicalPlan

    @property
    def options(self) -> dict[str, str]:
        """The options that a table of a database, or one of a connector, is read with."""
        if self.leaf.kind == "DataSourceV2Relation":
            return {**self.leaf.java.options().asCaseSensitiveMap()}
        if self.leaf.kind == "LogicalRelation":
            relation = self.leaf.java.relation()
            if simple_class(relation) == "JDBCRelation":
                pairs = elements(relation.jdbcOptions().parameters().toSeq())
                return {pair._1(): pair._2() for pair in pairs}
        return {}

    @property
    def catalog(self) -> str | None:
        """The name of the catalog of a connector that it is found in, if it is in one."""
        if self.leaf.kind != "DataSourceV2Relation":
            return None
        catalog = self.leaf.java.catalog()
        return str(catalog.get().name()) if catalog.isDefined() else None


def catalog_tables(plan: LogicalPlan) -> set[str]:
    """The names of the tables of the session's catalog that a plan reads."""
    relations = (leaf.java for leaf in plan.leaves if leaf.kind == "LogicalRelation")
    tables = (relation.catalogTable() for relation in relations)
    return {table.get().identifier().quotedString() for table in tables if table.isDefined()}


def _named(folder: str, base: str) -> list[str] | None:
    """The columns that a folder below another one is named after.

    >>> _named("file:/ads/day=1/Hour=2", "file:/ads/")
    ['day', 'hour']
    >>> _named("file:/elsewhere/day=1", "file:/ads/")
    """
    if not folder.startswith(base):
        return None
    return [part.partition("=")[0].lower() for part in folder.removeprefix(base).split("/")]


def _with_first(case_class: JavaObject, first: JavaObject, *further: JavaObject) -> JavaObject:
    """A copy of an object of Scala's that has another first field."""
    fields = [case_class.productElement(i) for i in range(1, case_class.productArity())]
    return case_class.copy(first, *fields, *further)
