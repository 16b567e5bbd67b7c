"""What names a staged table: what it was made from.

A table that is read from files, by a query over them that always gives the same, is known by the
query's text, by how its files are read, and by their paths, sizes and times. Of any other table
nobody can tell whether it has changed, not even if its query is the same: it is known by its owner,
the one plan that it is staged for.

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

from watersmeet.operators.enrich.source import File, Source
from watersmeet.operators.enrich.staged import FORMAT
from watersmeet.rows.layout import RowLayout
from watersmeet.spark.table_files import files_of, is_by_row, is_of_files, leaves_of, read_as

#: By which times and dates are read from texts.
_TIME_ZONE = "spark.sql.session.timeZone"
#: How many fields Spark writes of a plan: all of them.
_FIELDS = "spark.sql.debug.maxToStringFields"
#: What gives something else each time, or something that its text does not tell.
_UNKNOWN = re.compile(r"UDF|[Cc]urrent(Date|Time|Timestamp)|LocalTimestamp|Now\b|Python|Lambda")


@dataclass(frozen=True)
class Identity:
    """``series`` names a table whatever it holds, ``version`` what it holds now. ``known``: can it
    be told from another table of the same version that they hold the same? If not, both names are
    its owner's. ``table`` names what is read, as far as its query tells, and which columns of it,
    whoever stages it in how many shards. ``source`` is what its rows are from, if each is from one
    file."""

    series: str
    version: str
    table: str
    known: bool
    source: Source | None = None


def identity(
    df: DataFrame, layout: RowLayout, *, shards: int, partition: int, owner: str
) -> Identity:
    """What names a table, and how it is staged. ``owner`` is whom it is staged for."""
    columns = FORMAT, layout, df.schema.json()
    made = *columns, shards, partition
    read = _read_from(df)
    if read is None:
        own = _digest(made, owner)
        try:
            told = _text(df)
        except Py4JError:
            told = owner
        return Identity(own, own, _digest(columns, told), known=False)
    text, files = read
    series = _digest(made, text)
    source = Source(series, files[0]) if is_by_row(_analyzed(df)) else None
    version, table = _version(series, files), _digest(columns, text)
    return Identity(series, version, table, known=True, source=source)


def version_of(source: Source) -> str:
    """The name of what is from these files."""
    return _version(source.series, [source.files])


def relisted(df: DataFrame) -> DataFrame:
    """The same table, with the files that there are by now."""
    for leaf in leaves_of(_analyzed(df)):
        if is_of_files(leaf):
            leaf.relation().location().refresh()
    return df.select("*")


def _analyzed(df: DataFrame) -> Any:
    jdf: Any = df._jdf
    return jdf.queryExecution().analyzed()


def _version(series: str, files: Sequence[frozenset[File]]) -> str:
    return _digest(series, [sorted(some) for some in files])


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _read_from(df: DataFrame) -> tuple[str, list[frozenset[File]]] | None:
    """The text of a query over files, and the files of each relation in it; None if it is not
    one."""
    plan = _analyzed(df)
    try:
        if not plan.deterministic() or _UNKNOWN.search(plan.toJSON()):
            return None
        leaves = leaves_of(plan)
        if not all(is_of_files(leaf) for leaf in leaves):
            return None
        text = _text(df)
        # The text of a relation does not say where its files are, nor how they are read.
        read = [read_as(leaf) for leaf in leaves], df.sparkSession.conf.get(_TIME_ZONE)
        return f"{text}{read}", [files_of(leaf) for leaf in leaves]
    except Py4JError:
        return None


def _text(df: DataFrame) -> str:
    """The text of the query of a table, whatever its columns are numbered."""
    with _all_fields(df.sparkSession):
        return str(_analyzed(df).canonicalized().toString())


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
