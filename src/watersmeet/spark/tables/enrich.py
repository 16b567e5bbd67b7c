"""The semi-stream join on Spark: the table is staged. Then rows of the stream are answered where
they are read (:mod:`.in_place`), or, if any may have to wait, by a stateful operator, hashed by
key."""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from watersmeet import durations
from watersmeet.errors import PlanError
from watersmeet.joins.enrich.layout import STREAM, TABLE, EnrichLayout
from watersmeet.joins.enrich.plan import EnrichPlan
from watersmeet.joins.enrich.policy import Place
from watersmeet.joins.enrich.spec import EnrichSpec
from watersmeet.spark.query.counters import observation_name
from watersmeet.spark.query.in_place import run_in_place
from watersmeet.spark.query.inputs import WATERMARK, quoted
from watersmeet.spark.query.query import run, unique_name
from watersmeet.spark.query.result import arrow_schemas, result_schema
from watersmeet.spark.session.python import on_this_machine
from watersmeet.spark.tables.identity import relisted
from watersmeet.spark.tables.keeper import KEEPER, Kept, Refreshing
from watersmeet.spark.tables.refresh import Refresher, check_columns, check_files
from watersmeet.spark.tables.staging import Staging
from watersmeet.spark.tables.temporary import OWNED
from watersmeet.table.staged_table import StagedTable, TableSize
from watersmeet.table.versions import Versions

STAGE_FOLDER = "spark.watersmeet.stage.folder"
STAGE_COPIES = "spark.watersmeet.stage.copies"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
#: All staged tables of a folder are in this folder there.
_TABLES = "watersmeet-tables"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class Inputs:
    """The DataFrames of an enrichment. ``read`` gives the table as it is now, and ``folder`` is
    where it is staged. ``owner`` names these inputs: what is staged of a table that cannot be
    known to be the same is theirs alone."""

    stream: DataFrame
    table: DataFrame
    read: Callable[[], DataFrame]
    folder: str
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def frames(self) -> list[DataFrame]:
        return [self.stream, self.table]


def build(plan: EnrichPlan, inputs: Inputs) -> DataFrame:
    """The enriched stream as a DataFrame, streaming or batch as the stream is. The table is
    staged now, unless it is there already."""
    spec, unique = plan.spec, unique_name(plan.spec.name)
    schemas, output = arrow_schemas(spec, inputs.frames)
    layout = plan.layout(schemas, output)
    staged, versions = _staged(spec, layout, inputs, observation_name(unique))
    chain = replace(plan, staged=staged, versions=versions).chain(schemas, output)
    schema = result_schema(spec, inputs.frames)
    if plan.policy.in_place:
        results = run_in_place(chain, inputs.stream, schema, unique=unique)
    else:
        results = run(chain, [inputs.stream], schema, unique=unique)
    return _with_event_time(spec, results) if spec.time_goes_on else results


def layout_of(plan: EnrichPlan, inputs: Inputs) -> EnrichLayout:
    """How rows of the stream and of the table are stored."""
    return plan.layout(*arrow_schemas(plan.spec, inputs.frames))


def found(plan: EnrichPlan, inputs: Inputs) -> TableSize | None:
    """What there is of the table, if it has been staged."""
    name = _staging(layout_of(plan, inputs), inputs).identity(inputs.table).version
    return StagedTable(os.path.join(inputs.folder, name)).size()


def _staged(
    spec: EnrichSpec, layout: EnrichLayout, inputs: Inputs, observation: str
) -> tuple[StagedTable, Versions | None]:
    """The table, staged, and its versions if it is staged again and again. Streaming queries with
    that observation keep it while they run."""
    OWNED.remove()
    if spec.refresh is not None:
        return _staged_again(spec.refresh / 1e6, layout, inputs, observation)
    staging, spark = _staging(layout, inputs), inputs.stream.sparkSession
    known = staging.identity(inputs.table)
    staged = staging.stage(inputs.table, known=known)
    staged.keep()
    if not known.known:
        OWNED.add(staged, spark)
    if spec.streaming:
        KEEPER.keep(observation, Kept(spark, lambda: [staged]))
    return staged, None


def _staged_again(
    seconds: float, layout: EnrichLayout, inputs: Inputs, observation: str
) -> tuple[StagedTable, Versions]:
    """The table, staged, and its versions: it is staged anew every so many seconds."""
    staging = _staging(layout, inputs)
    known = staging.identity(inputs.table)
    versions = Versions(inputs.folder, known.series, known.table)
    staged = versions.current()
    if known.known or staged is None or not staged.intact():
        # Another query may have made a newer version than the files were listed for.
        table = relisted(inputs.table)
        known = staging.identity(table)
        staged = staging.stage(table, known=known, before=staged)
        versions.set(staged.version)
    first, bare = staged, known.bare  # a path that is bare from the start has lost no file

    def stage_newer(table: DataFrame) -> StagedTable:
        nonlocal bare
        check_columns(inputs.table, table, {*layout.inputs[TABLE].rows.stored})
        now = staging.identity(table)
        check_files(bare, now.bare)
        if now.known:
            newer = staging.stage(table, known=now, before=versions.current())
        else:
            newer = staging.stage_unknown(table)
        bare = now.bare
        return newer

    def tables() -> list[StagedTable]:
        """A shard that has taken no step yet begins with the first one."""
        return [first, versions.current() or first]

    refreshing = Refreshing(Refresher(inputs.read, stage_newer, versions).refresh, seconds)
    KEEPER.keep(observation, Kept(inputs.stream.sparkSession, tables, refreshing))
    return first, versions


def _staging(layout: EnrichLayout, inputs: Inputs) -> Staging:
    rows, policy = layout.inputs[TABLE].rows, layout.policy
    # As of a time, all versions of a key must be in one order.
    return Staging(
        rows,
        inputs.folder,
        policy.shards,
        policy.partition,
        in_layers=not layout.as_of,
        owner=inputs.owner,
    )


def stage_folder(spark: SparkSession, given: str | None) -> str:
    """The folder in which tables are staged: the one that was given, or that of the settings, or
    beside the checkpoints if these have a folder of their own, or, if all runs on this machine, a
    temporary one."""
    folder = spark.conf.get(STAGE_FOLDER, None) if given is None else given
    if folder is None:
        path = _default_folder(spark)
        if path is None:
            raise PlanError(
                "stage: missing. On a cluster the table is staged in a folder that every executor "
                f"reaches: give stage='/a/shared/folder', or set {STAGE_FOLDER}."
            )
    else:
        path = _given_path(folder) if isinstance(folder, str) else None
        if path is None:
            raise PlanError(
                f"stage={folder!r} is not the path of a folder. Give one that every executor "
                "reaches as a path, like '/mnt/shared/tables'."
            )
    return os.path.join(path, _TABLES)


def _default_folder(spark: SparkSession) -> str | None:
    """The folder of the session's checkpoints, if it has one; or, on one machine, a temporary
    one."""
    checkpoints = spark.conf.get(_CHECKPOINTS, None)
    path = None if checkpoints is None else _local_path(checkpoints)
    if path is None and on_this_machine(spark):
        path = os.path.abspath(tempfile.gettempdir())
    return path


def place(spark: SparkSession) -> Place:
    """What a session does."""
    return Place(wakes=_wakes(spark), copies=_copies(spark), hosts=_hosts(spark))


def _wakes(spark: SparkSession) -> bool:
    """Does Spark run a micro-batch without data when the watermark has moved?"""
    return str(spark.conf.get(_NO_DATA, "true")).lower() == "true"


def _copies(spark: SparkSession) -> bool:
    """Does a host keep copies of the partitions that it reads? It does on a cluster, unless the
    settings say otherwise."""
    given = spark.conf.get(STAGE_COPIES, None)
    if given is None:
        return not on_this_machine(spark)
    if given.lower() not in ("true", "false"):
        raise PlanError(f"{STAGE_COPIES}={given!r} is neither 'true' nor 'false'.")
    return given.lower() == "true"


def _given_path(folder: str) -> str | None:
    """The path of a folder that was given for staged tables, as Python and its users write paths
    and URIs: in a URI some characters are escaped, and a path may begin at the home folder.

    >>> [_given_path(folder) for folder in ("file:///a/my%20dir", "/a/my%20dir")]
    ['/a/my dir', '/a/my%20dir']
    >>> _given_path("~/x") == os.path.expanduser("~/x")
    True
    """
    uri = folder.startswith("file:")
    return _local_path(unquote(folder) if uri else os.path.expanduser(folder))


def _local_path(folder: str) -> str | None:
    """The path of a folder as Spark reads it, which may be a URI but takes every character as it
    is; None if it is not one of this machine's. Executors may have another working directory, so
    it is absolute.

    >>> [_local_path(uri) for uri in ("/a/b", "file:/a/b", "file:///a/%20", "s3://a/b", "hdfs:/a")]
    ['/a/b', '/a/b', '/a/%20', None, None]
    """
    path = re.sub(r"^file:(//)?(?=/)", "", folder)
    return os.path.abspath(path) if path and not _SCHEME.match(path) else None


def _hosts(spark: SparkSession) -> int:
    """How many hosts run the query, at most."""
    return 1 if on_this_machine(spark) else spark.sparkContext.defaultParallelism


def _with_event_time(spec: EnrichSpec, results: DataFrame) -> DataFrame:
    """Tell Spark that the stream's time column still is the event time, so that what comes after
    it in the same query can use the watermark."""
    timed = spec.streams[STREAM]
    metadata = {WATERMARK: durations.milliseconds(spec.delay)}
    columns = [
        F.col(quoted(column.name)).alias(column.name, metadata=metadata)
        if (column.stream, column.column) == (STREAM, timed.time)
        else F.col(quoted(column.name))
        for column in spec.output
    ]
    return results.select(*columns)
