"""What names a staged table: what it was made from.

A table that is read from files, by a query over them that always gives the same, is known by the
query's text and by its files' paths, sizes and times. Of any other table nobody can tell whether
it has changed; it is known by its plan, within this application.

How it is staged is part of the name too: its columns, its keys, the number of shards.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from watersmeet.operators.enrich.staged import FORMAT
from watersmeet.rows.layout import RowLayout

#: How many fields Spark writes of a plan: all of them.
_FIELDS = "spark.sql.debug.maxToStringFields"
#: What gives something else each time, or something that its text does not tell.
_UNKNOWN = re.compile(r"UDF|[Cc]urrent(Date|Time|Timestamp)|LocalTimestamp|Now\b|Python|Lambda")


@dataclass(frozen=True)
class Identity:
    """``series`` names a table whatever it holds, ``version`` what it holds now. ``known``: can it
    be told from another table of the same version that they hold the same?"""

    series: str
    version: str
    known: bool


def identity(df: DataFrame, layout: RowLayout, *, shards: int, partition: int) -> Identity:
    """What names a table, and how it is staged."""
    made = FORMAT, layout, df.schema.json(), shards, partition
    read = _read_from(df)
    if read is None:
        text = f"{df.sparkSession.sparkContext.applicationId} {df.semanticHash()}"
        return Identity(_digest(made, text), _digest(made, text), known=False)
    text, files = read
    return Identity(_digest(made, text), _digest(made, text, files), known=True)


def relisted(df: DataFrame) -> DataFrame:
    """The same table, with the files that there are by now."""
    jdf: Any = df._jdf
    for leaf in _scala(jdf.queryExecution().analyzed().collectLeaves()):
        if _is_of_files(leaf):
            leaf.relation().location().refresh()
    return df.select("*")


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _read_from(df: DataFrame) -> tuple[str, str] | None:
    """The text of a query over files, and what is known of these; None if it is not one."""
    jdf: Any = df._jdf
    plan = jdf.queryExecution().analyzed()
    try:
        if not plan.deterministic() or _UNKNOWN.search(plan.toJSON()):
            return None
        leaves = [*_scala(plan.collectLeaves())]
        if not all(_is_of_files(leaf) for leaf in leaves):
            return None
        with _all_fields(df.sparkSession):
            text = plan.canonicalized().toString()
        # The text of a relation does not say where its files are.
        return f"{text}{_roots(leaves)}", repr([sorted(_statuses(leaf)) for leaf in leaves])
    except Py4JError:
        return None


def _is_of_files(leaf: Any) -> bool:
    """Is a leaf of a plan a relation over files, as Spark's own formats are?"""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return False
    return bool(leaf.relation().getClass().getSimpleName() == "HadoopFsRelation")


def _roots(leaves: Sequence[Any]) -> list[list[str]]:
    """The paths that each relation was read from."""
    return [
        sorted(path.toString() for path in _scala(leaf.relation().location().rootPaths()))
        for leaf in leaves
    ]


def _statuses(leaf: Any) -> Iterator[tuple[str, int, int]]:
    """The path, the size and the time of each file of a relation, as Spark has listed them."""
    for status in _scala(leaf.relation().location().allFiles()):
        yield status.getPath().toString(), status.getLen(), status.getModificationTime()


def _scala(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


@contextmanager
def _all_fields(spark: SparkSession) -> Iterator[None]:
    """Spark shortens the texts of wide plans, unless it is told not to."""
    before = spark.conf.get(_FIELDS, None)
    spark.conf.set(_FIELDS, str(2**31 - 1))
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_FIELDS)
        else:
            spark.conf.set(_FIELDS, before)
