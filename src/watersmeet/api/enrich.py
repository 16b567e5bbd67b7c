"""Enrichments of a stream from a table: ``enrich`` and ``plan_enrich``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from watersmeet.api.streams import Duration, Keys, Stream, Where
from watersmeet.errors import PlanError
from watersmeet.joins.enrich.plan import EnrichPlan
from watersmeet.joins.enrich.plan import plan_enrich as make_plan
from watersmeet.joins.enrich.spec import EnrichCall, EnrichHow, EnrichTuning
from watersmeet.plan.signatures import as_in, takes_arguments_of, warn
from watersmeet.spark.backend import SparkBackend
from watersmeet.spark.checkpoint.checkpoint import Checkpoint, check_in_place
from watersmeet.spark.checkpoint.checkpoint import check as check_checkpoint
from watersmeet.spark.query.inputs import describe
from watersmeet.spark.query.result import result_schema
from watersmeet.spark.session import session
from watersmeet.spark.session.functions import check_functions
from watersmeet.spark.tables.enrichment import EnrichInputs, build, layout_of, staged_size
from watersmeet.spark.tables.identity import read_again, relisted
from watersmeet.spark.tables.settings import facilities, stage_folder
from watersmeet.spec.stream import TABLE_NAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, repr=False)
class Enrichment:
    """A validated call of :func:`enrich` that has not run yet; made by :func:`plan_enrich`."""

    plan: EnrichPlan
    inputs: EnrichInputs

    def __repr__(self) -> str:
        spec = self.plan.spec
        stream, table = (each.name for each in spec.streams)
        columns = ", ".join(self.schema.names)
        return f"<{spec.how} enrichment of {stream!r} from {table!r}, columns: {columns}>"

    @property
    def schema(self) -> StructType:
        """The columns of the result."""
        return result_schema(self.plan.spec, self.inputs.frames)

    def explain(self) -> str:
        """The plan as a tree: what matches, how the table is read, when rows are answered."""
        size = staged_size(self.plan, self.inputs)
        return replace(self.plan, folder=self.inputs.folder, size=size).explain()

    def check(self, checkpoint: str) -> None:
        """Raise a StateError if the query that has used this ``checkpointLocation`` was another
        one, which must be stopped; as :meth:`Plan.check`. (Rows that are answered in place leave
        no state: then only state of this very enrichment is refused.)"""
        layout = layout_of(self.plan, self.inputs)
        written = Checkpoint(self.inputs.stream.sparkSession, checkpoint)
        written.check_readable()
        written.check_begun()
        if self.plan.policy.in_place:
            check_in_place(written, layout.fingerprint)
        else:
            check_checkpoint(written, [layout.fingerprint])

    def dataframe(self) -> DataFrame:
        """The enriched stream, as a DataFrame. The table is staged now, unless it is there."""
        return build(self.plan, self.inputs)


#: A batch DataFrame, with a name of its own or without.
Table: TypeAlias = "DataFrame | Stream"


_BOTH = "the stream and the table"


@as_in("wm.plan_enrich(views, products_df, on='product_id')", by_position=_BOTH)
def plan_enrich(
    stream: Stream,
    table: Table | Callable[[], Table],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    how: EnrichHow = "inner",
    where: Where | None = None,
    memory: str | int | None = None,
    max_wait: Duration | int | None = None,
    refresh: Duration | None = None,
    retry: Duration | None = None,
    as_of: str | None = None,
    version: str | None = None,
    stage: str | None = None,
    name: str | None = None,
    tuning: EnrichTuning | None = None,
) -> Enrichment:
    """Plan an enrichment without running it; takes what :func:`enrich` takes."""
    if not isinstance(stream, Stream):
        if isinstance(table, Stream) and table.spec.streaming:
            raise PlanError(
                f"stream and table are swapped: {table.spec.name!r} is the stream, and comes "
                "first, as in wm.enrich(views, products_df, on='product_id')."
            )
        raise PlanError(
            f"stream is a {type(stream).__name__}, not a stream: name it with "
            "wm.stream(df, 'name', time='...', delay='...') first"
        )
    named, read, function = _table(table)
    spark = stream.df.sparkSession
    asked = EnrichCall(
        on=on,
        how=how,
        where=where,
        memory=memory,
        max_wait=max_wait,
        refresh=refresh,
        retry=retry,
        as_of=as_of,
        version=version,
        name=name,
        tuning=tuning,
    )
    backend = SparkBackend([(stream.spec.name, stream.df), (named.spec.name, named.df)])
    planned = make_plan(stream.spec, named.spec, backend, asked, facilities(spark))
    check_functions(where)
    with_state = planned.spec.streaming and not planned.policy.in_place
    session.check(spark, stream_with_state=with_state)
    for warning in planned.warnings():
        warn(f"{planned.spec.name}: {warning}")
    inputs = EnrichInputs(stream.df, named.df, read, stage_folder(spark, stage), function)
    return Enrichment(planned, inputs)


def _table(
    table: Table | Callable[[], Table],
) -> tuple[Stream, Callable[[], DataFrame], str | None]:
    """A table with a name, how it is read again, and the name of the function that gives it."""
    if isinstance(table, Stream) or not callable(table):
        named = _named_table(table)
        return named, lambda: relisted(named.df), None
    given = _named_table(table())
    kind = type(table)
    function = f"{table.__module__}.{getattr(table, '__qualname__', kind.__qualname__)}"
    return given, lambda: read_again(lambda: _named_table(table()).df, given.df), function


def _named_table(table: Table) -> Stream:
    if isinstance(table, Stream):
        return table
    return Stream(table, describe(table, TABLE_NAME, time=None, delay=None))


@as_in("wm.enrich(views, products_df, on='product_id')", by_position=_BOTH)
@takes_arguments_of(plan_enrich)
def enrich(*args: Any, **kwargs: Any) -> DataFrame:
    """Join each row of a stream with the rows of a table that have its key.

    The table may be larger than memory. It is staged once, sorted by key, in files; frequent
    keys are cached.

    Parameters
    ----------
    stream
        The stream, made by :func:`stream`; or a batch DataFrame, named in the same way.
    table
        A batch DataFrame, with any number of rows for a key; or a function that gives one. ``on``
        and ``where`` call it ``table``; for another name, it is ``wm.stream(df, "name")``.
    on
        The key: a column, a list of columns, or a dict from the names of stream and table to
        their column(s) where the names differ.
    how
        ``inner``, ``left``, ``semi`` or ``anti``, or Spark's other names of these.
    where
        A further condition of the match: SQL over columns qualified by the names of stream and
        table, or a Python function, made by :func:`predicate`; or a list of these, which must all
        hold. Without ``on``, equalities in it are the key.
    memory
        What all processes of the query together may use: a size like ``"256 MB"``, or bytes. By
        default 256 MB, or 16 MB for each core if that is more.
    max_wait
        How long a row may wait for its part of the table to be read: a number of micro-batches,
        like ``"10 batches"``, or a duration. By default each row is answered in its micro-batch.
    refresh
        How often the table is read and staged anew. A newer version takes effect between two
        micro-batches.
    retry
        How long a row without a match waits for a newer version of the table that has one. Then
        it leaves without (left, anti), or is dropped and counted (inner, semi). The watermark
        stays behind for as long.
    as_of
        The column of the table with the time from which on a row of it is valid. Each row of the
        stream then matches one row of its key at most: the newest that is not newer than it.
    version
        The name of a further column of the result: which version of the table a row was answered
        from. The metrics name the same versions.
    stage
        The folder in which tables are staged. Every executor must reach it as a path. By default
        that of ``spark.watersmeet.stage.folder``; else the session's folder of checkpoints, if it
        has one; else, on one machine, a temporary folder.
    name
        What metrics and the Spark UI call the enrichment.
    tuning
        How it works, where every way gives the same result: :class:`EnrichTuning`.

    Returns
    -------
    DataFrame
        The key columns, then the stream's other columns, then the table's. The stream's time
        column stays the event time for what follows in the same query.
    """
    return plan_enrich(*args, **kwargs).dataframe()
