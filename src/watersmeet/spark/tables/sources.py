"""What a query gives other results from, besides what its plan says: what its leaves read, and the
settings of the session.

Of two leaves that read from two places, the texts differ. Spark's own text of a leaf says less: of
a table in a database its name, and not the database. What opens a place (passwords, tokens) is left
out. It may change, and the place is the same.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.plans import LogicalPlan
from watersmeet.spark.jvm.relations import FileRelation, Source

#: Leaves that are rows in the memory of this process: nothing tells where they are from.
_IN_MEMORY = ("LocalRelation", "LogicalRDD", "ExternalRDD")
#: How Java writes an object that does not say what it is, anew in each process.
_NAMELESS = re.compile(r"@[0-9a-f]{1,8}\b")
#: How Spark calls a query that a database is to answer, with a number that it counts on.
_QUERY_NAME = re.compile(r"SPARK_GEN_SUBQ_\d+")
#: What opens a place, by the names of options.
_SECRET = re.compile(r"secret|password|token|credential|access[._]?key|private[._]?key", re.I)
_CATALOG = "spark.sql.catalog."
#: Settings that have a say even if nobody has set them: their defaults come from the system.
_ASKED = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
#: Settings that change how a query runs, and not what it gives. Any other one may.
_OF_RUNNING = re.compile(
    r"spark\.sql\.(adaptive|autoBroadcast|broadcast|cbo|codegen|debug|event|execution|extensions|"
    r"files\.(max|min|open)|inMemory|metadata|optimizer|pyspark|queryExecution|redaction|repl|"
    r"shuffle|statistics|streaming|ui|warehouse)"
)


def read_as(relation: FileRelation) -> list[object]:
    """How a relation is read: in which format, from which paths, with which options; its columns,
    as the plan has them, as files do, and as folders do; and what only the catalog tells of it."""
    paths, options = sorted(relation.paths), sorted(relation.options)
    return [relation.format, paths, options, relation.schemas, *relation.moved]


def source_text(spark: SparkSession, leaf: LogicalPlan) -> str | None:
    """What a leaf reads; None if it does not say it."""
    files = FileRelation.at(leaf)
    if files is not None:
        return repr(read_as(files))
    text, source = _QUERY_NAME.sub("", leaf.canonical_text), Source(leaf)
    options = _without_secrets(source.options)
    if leaf.kind in _IN_MEMORY or (_NAMELESS.search(text) and not options):
        return None
    return repr((text, options, _settings_of(spark, source.catalog)))


def settings_of_results(spark: SparkSession) -> list[tuple[str, str]]:
    """The settings that may change what a query gives, and whose defaults they are."""
    given = {
        key: value
        for key, value in spark.conf.getAll.items()
        if key.startswith("spark.sql.") and not _OF_RUNNING.match(key)
    }
    asked = {key: str(spark.conf.get(key)) for key in _ASKED}
    return sorted({**given, **asked, "version": spark.version}.items())


def _without_secrets(options: dict[str, str]) -> list[tuple[str, str]]:
    """Options by their names.

    >>> _without_secrets({"url": "jdbc:derby:shop", "password": "1234"})
    [('url', 'jdbc:derby:shop')]
    """
    return sorted(each for each in options.items() if not _SECRET.search(each[0]))


def _settings_of(spark: SparkSession, catalog: str | None) -> list[tuple[str, str]]:
    """The settings that say where a catalog of a connector is."""
    if catalog is None:
        return []
    own = f"{_CATALOG}{catalog}"
    settings = spark.conf.getAll.items()
    return _without_secrets(
        {key: value for key, value in settings if key == own or key.startswith(f"{own}.")}
    )
