"""What names a staged table: what it was made from.

A table that is read from files, by a query over them that always gives the same, is known by the
digest of its plan (:mod:`.plan_digest`), by how its files are read, by their paths, sizes and
times, and by the settings of the session that may change a result. Of any other table nobody can
tell whether it has changed, not even if its query is the same: it is known by its owner, the one
plan that it is staged for.

How it is staged is part of the name too: its columns, its keys, the number of shards.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from watersmeet.rows.layout import RowLayout
from watersmeet.spark.jvm.objects import JvmError
from watersmeet.spark.jvm.plans import LogicalPlan
from watersmeet.spark.jvm.relations import FileRelation, catalog_tables
from watersmeet.spark.tables.files import Listing, is_by_row, listing_of
from watersmeet.spark.tables.plan_digest import PlanDigest
from watersmeet.spark.tables.sources import read_as, settings_of_results, source_text
from watersmeet.table.origin import File, Origin
from watersmeet.table.staged_table import FORMAT


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
    df: DataFrame,
    layout: RowLayout,
    *,
    shards: int,
    partition: int,
    owner: str,
    function: str | None = None,
) -> Identity:
    """What names a table, and how it is staged. ``owner`` is whom it is staged for; ``function``
    names the function that gives the table, if one does.

    Rows in memory say nothing of where they are from. A DataFrame of such rows cannot change: it
    is its owner's. What a function gives at another time is a newer version of the same table."""
    columns = FORMAT, layout, df.schema.json()
    made = *columns, shards, partition
    plan = LogicalPlan.of(df)
    digest = _plan_digest(plan)
    listings = [_listing(leaf) for leaf in plan.leaves]
    listed = [listing for listing in listings if listing is not None]
    bare = frozenset[str]().union(*(listing.bare for listing in listed))
    text = None
    if digest is not None and None not in listings:
        text = _read_from(df.sparkSession, plan, digest)
    if text is None:
        own = _digest(made, owner)
        seen = _seen(df.sparkSession, plan, digest, rows_in_memory=function or owner)
        table = _digest(columns, seen or owner)
        return Identity(own, own, table, known=False, bare=bare)
    series, files = _digest(made, text), [listing.files for listing in listed]
    source = Origin(series, files[0]) if is_by_row(plan) else None
    version, table = _version(series, files), _digest(columns, text)
    return Identity(series, version, table, known=True, source=source, bare=bare)


def version_of(source: Origin) -> str:
    """The name of what is from these files."""
    return _version(source.series, [source.files])


def read_again(read: Callable[[], DataFrame], before: DataFrame) -> DataFrame:
    """What a function gives, as it is now; ``before`` is what it has given. The session's catalog
    keeps what it has found of a table, its files too, and is told to find it anew."""
    for name in catalog_tables(LogicalPlan.of(before)):
        with contextlib.suppress(PySparkException):  # the function says what is wrong, if it is
            before.sparkSession.catalog.refreshTable(name)
    return relisted(read())


def relisted(df: DataFrame) -> DataFrame:
    """The same table, with the files that there are by now."""
    plan = LogicalPlan.of(df)
    for leaf in plan.leaves:
        relation = FileRelation.at(leaf)
        if relation is not None:
            relation.refresh()
    return plan.rows(df.sparkSession)


def _version(series: str, files: Sequence[frozenset[File]]) -> str:
    return _digest(series, [sorted(some) for some in files])


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _plan_digest(plan: LogicalPlan) -> PlanDigest | None:
    """What the query of a table computes; None if Spark cannot write it."""
    try:
        return PlanDigest(plan)
    except JvmError:
        return None


def _listing(leaf: LogicalPlan) -> Listing | None:
    """What a leaf of a query is read from; None if Spark lists no files of it."""
    try:
        relation = FileRelation.at(leaf)
        return None if relation is None else listing_of(relation)
    except JvmError:
        return None


def _read_from(spark: SparkSession, plan: LogicalPlan, digest: PlanDigest) -> str | None:
    """What a query over files is, as a text; None if it may give something else each time."""
    try:
        computes = digest.in_full()
        if computes is None:
            return None
        relations = [FileRelation(leaf) for leaf in plan.leaves]
        return repr((computes, [*map(read_as, relations)], settings_of_results(spark)))
    except JvmError:
        return None


def _seen(
    spark: SparkSession, plan: LogicalPlan, digest: PlanDigest | None, *, rows_in_memory: str
) -> list[str] | None:
    """What can be seen of a query that is not known in full; None if Spark cannot write it. Its
    leaves say what they read: which table of which database, for example."""
    if digest is None:
        return None
    try:
        texts = (source_text(spark, leaf) for leaf in plan.leaves)
        return [digest.text, *(rows_in_memory if text is None else text for text in texts)]
    except JvmError:
        return None
