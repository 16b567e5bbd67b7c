"""An enrichment as a DataFrame: the semi-stream join on Spark.

The table is staged (:mod:`.staging`). Then rows of the stream are answered where they are read
(:mod:`watersmeet.spark.query.in_place`), or, if any may have to wait, by a stateful operator,
hashed by key (:mod:`watersmeet.spark.query.query`). While queries run, the table is kept, and
staged anew if it changes (:mod:`.tenants`, :mod:`.refresh`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from watersmeet import durations
from watersmeet.joins.enrich.layout import STREAM, TABLE, EnrichLayout
from watersmeet.joins.enrich.plan import EnrichPlan
from watersmeet.joins.enrich.spec import EnrichSpec
from watersmeet.spark.query.in_place import run_in_place
from watersmeet.spark.query.inputs import WATERMARK, quoted
from watersmeet.spark.query.observations import observation_name
from watersmeet.spark.query.query import run, unique_name
from watersmeet.spark.query.result import arrow_schemas, result_schema
from watersmeet.spark.tables.identity import relisted
from watersmeet.spark.tables.refresh import (
    Refresher,
    RefreshSchedule,
    check_columns,
    check_files,
)
from watersmeet.spark.tables.staging import Staging
from watersmeet.spark.tables.temporary import TEMPORARY_TABLES
from watersmeet.spark.tables.tenants import TENANTS, Tenant
from watersmeet.table.staged_table import StagedTable, TableSize
from watersmeet.table.versions import Versions


@dataclass(frozen=True)
class EnrichInputs:
    """The DataFrames of an enrichment. ``read`` gives the table as it is now, and ``folder`` is
    where it is staged. ``function`` names the function that gives it, if one does. ``owner`` names
    these inputs: what is staged of a table that cannot be known to be the same is theirs alone."""

    stream: DataFrame
    table: DataFrame
    read: Callable[[], DataFrame]
    folder: str
    function: str | None = None
    owner: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def frames(self) -> list[DataFrame]:
        return [self.stream, self.table]


def build(plan: EnrichPlan, inputs: EnrichInputs) -> DataFrame:
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


def layout_of(plan: EnrichPlan, inputs: EnrichInputs) -> EnrichLayout:
    """How rows of the stream and of the table are stored."""
    return plan.layout(*arrow_schemas(plan.spec, inputs.frames))


def staged_size(plan: EnrichPlan, inputs: EnrichInputs) -> TableSize | None:
    """How large the table is, if it has been staged."""
    name = _staging(layout_of(plan, inputs), inputs).identity(inputs.table).version
    return StagedTable(os.path.join(inputs.folder, name)).size()


def _staged(
    spec: EnrichSpec, layout: EnrichLayout, inputs: EnrichInputs, observation: str
) -> tuple[StagedTable, Versions | None]:
    """The table, staged, and its versions if it is staged again and again. Streaming queries with
    that observation have a lease on it."""
    TEMPORARY_TABLES.remove()
    if spec.refresh is not None:
        return _staged_again(spec.refresh / 1e6, layout, inputs, observation)
    staging, spark = _staging(layout, inputs), inputs.stream.sparkSession
    known = staging.identity(inputs.table)
    staged = staging.stage(inputs.table, known=known)
    staged.keep()
    if not known.known:
        TEMPORARY_TABLES.add(staged, spark)
    if spec.streaming:
        TENANTS.add(observation, Tenant(spark, lambda: [staged]))
    return staged, None


def _staged_again(
    seconds: float, layout: EnrichLayout, inputs: EnrichInputs, observation: str
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

    schedule = RefreshSchedule(Refresher(inputs.read, stage_newer, versions).refresh, seconds)
    TENANTS.add(observation, Tenant(inputs.stream.sparkSession, tables, schedule))
    return first, versions


def _staging(layout: EnrichLayout, inputs: EnrichInputs) -> Staging:
    rows, policy = layout.inputs[TABLE].rows, layout.policy
    # As of a time, all versions of a key must be in one order.
    return Staging(
        rows,
        inputs.folder,
        policy.shards,
        policy.partition,
        in_layers=not layout.as_of,
        owner=inputs.owner,
        function=inputs.function,
    )


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
