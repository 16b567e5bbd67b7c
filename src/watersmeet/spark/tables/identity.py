"""What names a staged table: what it was made from.

A table that is read from files, by a query over them that always gives the same, is known by what
the query computes (:mod:`.plan_told`), by how its files are read, by their paths, sizes and times,
and by the settings of the session that may change a result. Of any other table
nobody can tell whether it has changed, not even if its query is the same: it is known by its owner,
the one plan that it is staged for.

How it is staged is part of the name too: its columns, its keys, the number of shards.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from watersmeet.rows.layout import RowLayout
from watersmeet.spark.tables.files import (
    Listing,
    computed,
    is_by_row,
    is_of_files,
    leaves_of,
    listing_of,
    read_as,
)
from watersmeet.spark.tables.plan_digest import Told
from watersmeet.table.origin import File, Origin
from watersmeet.table.staged_table import FORMAT

#: Settings that have a say even if nobody has set them: their defaults come from the system.
_ASKED = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
#: Settings that change how a query runs, and not what it gives. Any other one may.
_OF_RUNNING = re.compile(
    r"spark\.sql\.(adaptive|autoBroadcast|broadcast|cbo|codegen|debug|event|execution|extensions|"
    r"files\.(max|min|open)|inMemory|metadata|optimizer|pyspark|queryExecution|redaction|repl|"
    r"shuffle|statistics|streaming|ui|warehouse)"
)


@dataclass(frozen=True)
class Identity:
    """``series`` names a table whatever it holds, ``version`` what it holds now. ``known``: can it
    be told from another table of the same version that they hold the same? If not, both names are
    its owner's. ``table`` names what is read, as far as its query tells, and which columns of it,
    whoever stages it in how many shards. ``source`` is what its rows are from, if each is from one
    file. ``bare`` are the paths that it is read from and that have no file."""

    series: str
    version: str
    table: str
    known: bool
    source: Origin | None = None
    bare: frozenset[str] = frozenset()


def identity(
    df: DataFrame, layout: RowLayout, *, shards: int, partition: int, owner: str
) -> Identity:
    """What names a table, and how it is staged. ``owner`` is whom it is staged for."""
    columns = FORMAT, layout, df.schema.json()
    made = *columns, shards, partition
    told = _told(df)
    listings = [_listing(leaf) for leaf in leaves_of(_analyzed(df))]
    listed = [listing for listing in listings if listing is not None]
    bare = frozenset[str]().union(*(listing.bare for listing in listed))
    text = None if told is None or None in listings else _read_from(df, told)
    if text is None:
        own = _digest(made, owner)
        table = _digest(columns, _seen(df, told) or owner)
        return Identity(own, own, table, known=False, bare=bare)
    series, files = _digest(made, text), [listing.files for listing in listed]
    source = Origin(series, files[0]) if is_by_row(_analyzed(df)) else None
    version, table = _version(series, files), _digest(columns, text)
    return Identity(series, version, table, known=True, source=source, bare=bare)


def version_of(source: Origin) -> str:
    """The name of what is from these files."""
    return _version(source.series, [source.files])


def relisted(df: DataFrame) -> DataFrame:
    """The same table, with the files that there are by now."""
    plan = _analyzed(df)
    for leaf in leaves_of(plan):
        if is_of_files(leaf):
            leaf.relation().location().refresh()
    return computed(df.sparkSession, plan)


def _analyzed(df: DataFrame) -> Any:
    jdf: Any = df._jdf
    return jdf.queryExecution().analyzed()


def _version(series: str, files: Sequence[frozenset[File]]) -> str:
    return _digest(series, [sorted(some) for some in files])


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _told(df: DataFrame) -> Told | None:
    """What the query of a table computes; None if Spark cannot write it."""
    try:
        return Told(_analyzed(df))
    except Py4JError:
        return None


def _listing(leaf: Any) -> Listing | None:
    """What a leaf of a query is read from; None if Spark lists no files of it."""
    try:
        return listing_of(leaf) if is_of_files(leaf) else None
    except Py4JError:
        return None


def _read_from(df: DataFrame, told: Told) -> str | None:
    """What a query over files is, as a text; None if it may give something else each time."""
    try:
        computes = told.in_full()
        if computes is None:
            return None
        leaves = leaves_of(_analyzed(df))
        return repr((computes, [*map(read_as, leaves)], _settings(df.sparkSession)))
    except Py4JError:
        return None


def _seen(df: DataFrame, told: Told | None) -> list[str] | None:
    """What can be seen of a query that is not known in full; None if Spark cannot write it. Its
    leaves say what they are: the name of a table in a database, for example."""
    if told is None:
        return None
    try:
        leaves = [leaf.canonicalized() for leaf in leaves_of(_analyzed(df))]
        return [told.text, *(str(leaf.simpleString(2**31 - 1)) for leaf in leaves)]
    except Py4JError:
        return None


def _settings(spark: SparkSession) -> list[tuple[str, str]]:
    """The settings that may change what a query gives, and whose defaults they are."""
    given = {
        key: value
        for key, value in spark.conf.getAll.items()
        if key.startswith("spark.sql.") and not _OF_RUNNING.match(key)
    }
    asked = {key: str(spark.conf.get(key)) for key in _ASKED}
    return sorted({**given, **asked, "version": spark.version}.items())
