"""The public calls: ``stream``, ``predicate``, ``join`` and ``plan``, ``enrich`` and
``plan_enrich``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from watersmeet import durations, sizes
from watersmeet.errors import MixedInputError, PlanError, PredicateError, did_you_mean
from watersmeet.plan import enrich as enriching
from watersmeet.plan.calls import as_in, warn
from watersmeet.plan.equi import EquiPlan
from watersmeet.plan.event_time import unmatched_without_time
from watersmeet.plan.explain import explain
from watersmeet.plan.family import plan_join
from watersmeet.plan.join import JoinPlan
from watersmeet.plan.naming import listed
from watersmeet.plan.policy import crowding
from watersmeet.plan.ring import RingPlan
from watersmeet.plan.streams import TABLES, check_name, with_time
from watersmeet.spark import enrich as enriched
from watersmeet.spark import equi, ring, session
from watersmeet.spark.backend import SparkBackend
from watersmeet.spark.checkpoint import Checkpoint, check_in_place
from watersmeet.spark.checkpoint import check as check_checkpoint
from watersmeet.spark.inputs import check_punctuation, describe, is_batch
from watersmeet.spark.result import result_schema
from watersmeet.spark.table_identity import relisted
from watersmeet.spec.budget import Budget
from watersmeet.spec.enrich import TABLE_NAME, EnrichHow, EnrichTuning
from watersmeet.spec.equi import Violations
from watersmeet.spec.join import Goal, How, JoinSpec
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import Arrival, Punctuation, StreamSpec
from watersmeet.spec.tuning import Tuning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Duration = str | timedelta
Keys = str | Sequence[str]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, repr=False)
class Stream:
    """A DataFrame with a name and what is known about it; made by :func:`stream`."""

    df: DataFrame
    spec: StreamSpec

    def __repr__(self) -> str:
        time = f", time={self.spec.time!r}" if self.spec.time else ""
        kind = "streaming" if self.spec.streaming else "batch"
        return f"<{kind} {self.spec.name!r}{time}, columns: {listed(self.spec)}>"


@dataclass(frozen=True, repr=False)
class Plan:
    """A validated join that has not run yet; made by :func:`plan`."""

    plan: JoinPlan
    streams: tuple[Stream, ...]

    def __repr__(self) -> str:
        return self.explain()

    @property
    def schema(self) -> StructType:
        """The columns of the result."""
        return result_schema(self.plan.spec, [stream.df for stream in self.streams])

    def explain(self) -> str:
        """The plan as a tree: what matches, what is stored, what removes it and when."""
        return explain(self.plan)

    def check(self, checkpoint: str) -> None:
        """Raise a StateError if the query that has used this ``checkpointLocation`` was another
        one, which must be stopped. A query finds that out when it starts, if it can; this reads
        the state itself, however large it is, and starts nothing."""
        plan, frames = self.plan, [stream.df for stream in self.streams]
        if isinstance(plan, RingPlan):
            laid = ring.layout_of(plan.spec, plan.policy, plan.conditions, frames)
            fingerprints = ring.fingerprints(laid)
        else:
            assert isinstance(plan, EquiPlan), f"no checkpoint of {type(plan).__name__}"
            layout = equi.layout_of(plan.spec, plan.policy, plan.predicate, frames)
            fingerprints = [layout.fingerprint]
        written = Checkpoint(frames[0].sparkSession, checkpoint)
        written.check_readable()
        check_checkpoint(written, fingerprints)

    def dataframe(self) -> DataFrame:
        """The result, as a DataFrame to write, query or aggregate."""
        plan, frames = self.plan, [stream.df for stream in self.streams]
        if isinstance(plan, RingPlan):
            return ring.build(plan.spec, plan.policy, plan.conditions, frames)
        assert isinstance(plan, EquiPlan), f"no query for {type(plan).__name__}"
        return equi.build(plan.spec, plan.policy, plan.predicate, frames)


@dataclass(frozen=True, repr=False)
class Enrichment:
    """A validated call of :func:`enrich` that has not run yet; made by :func:`plan_enrich`."""

    plan: enriching.EnrichPlan
    inputs: enriched.Inputs

    def __repr__(self) -> str:
        spec = self.plan.spec
        stream, table = (each.name for each in spec.streams)
        columns = ", ".join(self.schema.names)
        return f"<{spec.how} enrichment of {stream!r} from {table!r}, columns: {columns}>"

    @property
    def schema(self) -> StructType:
        """The columns of the result."""
        return result_schema(self.plan.spec, [self.inputs.stream, self.inputs.table])

    def explain(self) -> str:
        """The plan as a tree: what matches, how the table is read, when rows are answered."""
        plan = self.plan
        size = enriched.found(plan.spec, plan.policy, plan.predicate, self.inputs)
        return explain(replace(plan, folder=self.inputs.folder, size=size))

    def check(self, checkpoint: str) -> None:
        """Raise a StateError if the query that has used this ``checkpointLocation`` was another
        one, which must be stopped; as :meth:`Plan.check`. (Rows that are answered in place leave
        no state: then only state of this very enrichment is refused.)"""
        plan = self.plan
        layout = enriched.layout_of(plan.spec, plan.policy, plan.predicate, self.inputs)
        written = Checkpoint(self.inputs.stream.sparkSession, checkpoint)
        written.check_readable()
        if plan.policy.in_place:
            check_in_place(written, layout.fingerprint)
        else:
            check_checkpoint(written, [layout.fingerprint])

    def dataframe(self) -> DataFrame:
        """The enriched stream, as a DataFrame. The table is staged now, unless it is there."""
        plan = self.plan
        return enriched.build(plan.spec, plan.policy, plan.predicate, self.inputs)


@as_in(
    "wm.stream(df, 'views', time='viewed_at', delay='10 seconds')",
    by_position="a DataFrame and a name",
)
def stream(
    df: DataFrame,
    name: str,
    *,
    time: str | None = None,
    delay: Duration | None = None,
    rows_per_second: float | None = None,
    distinct_keys: float | None = None,
    unique: bool = False,
    arrival: Arrival | None = None,
    punctuation: Punctuation | None = None,
    prefix: str | None = None,
) -> Stream:
    """Name a DataFrame and say what is known about it.

    Parameters
    ----------
    df
        A streaming DataFrame, or a batch one for a backfill.
    name
        How ``on``, ``within`` and ``where`` refer to it.
    time
        The column with the event time, a timestamp.
    delay
        How late a row may be: the watermark stays this far behind the greatest
        time seen. A DataFrame with a watermark of its own needs none.
    rows_per_second, distinct_keys
        The expected rate and the expected number of different keys. They are for the estimates
        in ``explain`` and for first choices, until both have been measured.
    unique
        Each key comes at most once. A row of the other stream leaves the state when it has
        found its only match.
    arrival
        ``"clustered"``: rows of a key come together; ``"ordered"``: in ascending order of
        the key. Rows of the other stream leave when their key is closed.
    punctuation
        Rows in the stream that say which keys are closed: :class:`Punctuation`.
    prefix
        What to put before the name of a column of this stream that several streams have. By
        default the stream's name and an underscore: ``views_price``. With ``""`` the name stays
        as it is.
    """
    check_name(name)
    spec = describe(
        df,
        name,
        time=time,
        delay=delay,
        rows_per_second=rows_per_second,
        distinct_keys=distinct_keys,
    )
    check_punctuation(df, name, punctuation)
    spec = replace(spec, unique=unique, arrival=arrival, punctuation=punctuation, prefix=prefix)
    return Stream(df, with_time(spec))


def predicate(
    function: Callable[..., Any],
    *streams: str,
    columns: Mapping[str, Sequence[str]] | None = None,
    cost: Duration | None = None,
) -> PredicateFunction:
    """A condition of the match that is a Python function, for ``where``.

    The function gets an Arrow table for each of the named streams, all of the same length, and
    returns as many booleans (an Arrow or numpy array): for which of these pairs of rows the
    condition holds. As in SQL, null is not true. It must depend on its arguments alone.

    Parameters
    ----------
    function
        From tables to booleans, like ``lambda views, clicks: pc.less(views["price"],
        clicks["bid"])``.
    streams
        The names of the streams whose rows it compares.
    columns
        Which columns the tables have, by stream; all, for a stream that is not named. Fewer
        columns take less time and state.
    cost
        What a pair of rows takes, like ``"50 us"``, if it is known. It is only used to say over how
        many slices a join without a key should be spread; while that runs, costs are measured.
    """
    if not callable(function):
        raise PredicateError(
            f"predicate: {function!r} is not a function. Give one from Arrow tables to booleans."
        )
    if not streams or not all(isinstance(name, str) for name in streams):
        raise PredicateError(
            f"predicate: {streams!r} are not names of streams. Give those whose rows the function "
            'compares: wm.predicate(similar, "views", "clicks").'
        )
    if len(set(streams)) < len(streams):
        raise PredicateError(f"predicate: {streams!r} names a stream twice. Name each once.")
    _check_arity(function, streams)
    example = 'like columns={"views": ["price"]}'
    if columns is not None and not isinstance(columns, Mapping):
        raise PredicateError(f"predicate: columns={columns!r} is not a dict. Give one {example}.")
    for name, wanted in (columns or {}).items():
        if name not in streams:
            raise PredicateError(
                f"predicate: columns={columns!r}: the function does not get {name!r}, but "
                f"{', '.join(streams)}.{did_you_mean(str(name), streams)}"
            )
        if isinstance(wanted, str) or not wanted:
            raise PredicateError(
                f"predicate: columns[{name!r}]={wanted!r} is not a list of columns. Give one or "
                f"more, {example}."
            )
    micros = None if cost is None else durations.parse(cost, argument="predicate: cost")
    if micros == 0:
        raise PredicateError(
            f"predicate: cost={cost!r} is less than a microsecond. Leave it out: functions are "
            "taken to be cheap."
        )
    return PredicateFunction(function, streams, dict(columns or {}), micros)


def _check_arity(function: Callable[..., Any], streams: Sequence[str]) -> None:
    """Does the function take a table for each of the streams?"""
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not say
        return
    try:
        taken.bind(*streams)
    except TypeError as error:
        called = getattr(function, "__name__", type(function).__name__)
        raise PredicateError(
            f"predicate: {called}{taken} is called with one table for each of the "
            f"{len(streams)} streams {', '.join(streams)}: {error}. Let it take as many "
            "arguments, or name the streams that it compares."
        ) from None


_LIST = "the streams as one list"


@as_in("wm.plan([views, clicks], on='ad_id', within='5 minutes')", by_position=_LIST)
def plan(
    streams: Sequence[Stream],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: Duration | Mapping[str, Duration] | None = None,
    how: How = "inner",
    where: str | PredicateFunction | Sequence[str | PredicateFunction] | None = None,
    name: str | None = None,
    goal: Goal = "throughput",
    budget: Budget | None = None,
    unbounded: bool = False,
    violations: Violations = "fail",
    emit_punctuations: bool = False,
    tuning: Tuning | None = None,
    event_time: str | None = None,
    hold: Duration | None = None,
) -> Plan:
    """Plan a join without running it; takes what :func:`join` takes."""
    _check_streams(streams)
    planned = plan_join(
        [stream.spec for stream in streams],
        SparkBackend([(stream.spec.name, stream.df) for stream in streams]),
        on=on,
        within=within,
        how=how,
        where=where,
        name=name,
        goal=goal,
        budget=budget,
        unbounded=unbounded,
        violations=violations,
        emit_punctuations=emit_punctuations,
        tuning=tuning,
        event_time=event_time,
        hold=hold,
    )
    if budget is not None and budget.memory is not None:
        sizes.check_meant(budget.memory, argument="budget: memory")
    spark, spec = streams[0].df.sparkSession, planned.spec
    session.check(spark, stream_with_state=spec.streaming)
    if spec.streaming and spec.hold:
        session.check_holding(spark, spec.event_time)
    _warn_of_crowding(planned)
    _warn_of_lacking_times(spec)
    if isinstance(planned, RingPlan) and planned.unconnected is not None:
        warn(f"{spec.name}: {planned.unconnected}")
    return Plan(planned, tuple(streams))


def _warn_of_crowding(planned: JoinPlan) -> None:
    crowded = crowding(planned.policy.shards, planned.policy.cores)
    if crowded is not None and planned.spec.streaming:
        warn(f"{planned.spec.name}: {crowded}.")


def _warn_of_lacking_times(spec: JoinSpec) -> None:
    lacking = unmatched_without_time(spec)
    if lacking is not None:
        warn(f"{spec.name}: `event_time` is {lacking}.")


def _check_streams(streams: Any) -> None:
    if not isinstance(streams, Sequence) or isinstance(streams, str):
        raise PlanError(
            f"streams is a {type(streams).__name__}: give them as one list, "
            "wm.join([views, clicks], on=...)."
        )
    live = any(isinstance(given, Stream) and given.spec.streaming for given in streams)
    for position, given in enumerate(streams):
        if isinstance(given, Stream):
            continue
        if live and is_batch(given):
            raise MixedInputError(
                f"streams[{position}] is a batch DataFrame beside streams: a table. {TABLES}."
            )
        raise PlanError(
            f"streams[{position}] is a {type(given).__name__}, not a stream: name it with "
            "wm.stream(df, 'name', time='...', delay='...') first"
        )


def _takes_arguments_of(
    plan: Callable[Arguments, Any],
) -> Callable[[Callable[..., Result]], Callable[Arguments, Result]]:
    """A function's signature is that of ``plan``, but for what it returns."""

    def decorate(function: Callable[..., Result]) -> Callable[Arguments, Result]:
        returned = function.__annotations__["return"]
        shown = inspect.signature(plan).replace(return_annotation=returned)
        function.__signature__ = shown  # type: ignore[attr-defined]
        return function

    return decorate


@as_in("wm.join([views, clicks], on='ad_id', within='5 minutes')", by_position=_LIST)
@_takes_arguments_of(plan)
def join(*args: Any, **kwargs: Any) -> DataFrame:
    """Join streams within windows of time: by key, by any condition, or both.

    Parameters
    ----------
    streams
        Two to ten streams, made by :func:`stream`; without a key at most nine.
    on
        The key: a column, a list of columns, or a dict from stream name to
        its column(s) where the names differ. By default, the columns that ``where`` makes equal;
        if there are none, ``where`` alone says what matches.
    within
        How far apart in time matching rows may be: a duration, or a dict from
        stream name to how long its rows wait for a later one. By default, what ``where`` says
        about the difference of times.
    how
        ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``, or Spark's other names of
        these; of more than two streams, ``inner`` or ``left``. Without a key there is no
        ``full``, and of more than two streams ``inner`` only.
    where
        A condition of the match: SQL over columns qualified by stream name,
        ``"views.price < clicks.bid"``, or a Python function, made by :func:`predicate`; or a list
        of these, which must all hold. SQL may use comparisons, arithmetic, ``in``, ``between``,
        ``like``, ``rlike``, ``case``, ``coalesce``, ``cast``, and the usual functions of numbers,
        strings, times, arrays and structs; ``docs/reference.md`` lists them all, under Conditions.
    name
        What metrics and the Spark UI call the join.
    goal
        ``"throughput"``: rows with closed keys are purged many punctuations at a time;
        ``"memory"``: at once; ``"early"``: at once, and rows that a punctuation is about are
        joined first. With a memory budget that spills, ``"early"`` also joins new rows with what
        is in memory first, and with what is on disk when no rows come, or when the watermark
        requires it. The result is the same.
    budget
        What the join may use, and what happens to more than that: :class:`Budget`.
    unbounded
        Allow a join whose state nothing bounds.
    violations
        What happens when a stream brings a row that it had promised not to bring:
        ``"fail"``, ``"drop"`` (and count it) or ``"keep"``.
    emit_punctuations
        Hand on punctuations: the result gets a column ``is_punctuation``, and a punctuation
        leaves when all results that it covers have left.
    tuning
        How the join works, where every way gives the same result: :class:`Tuning`.
    event_time
        Whose time is the event time that Spark goes on with after the join, as ``event_time``: a
        stream's, by its name, or ``"greatest"``. By default an inner join's is the greatest, and
        other joins have none. Spark's watermark is then held back by the window of that stream
        (with ``"greatest"``, by the windows of the streams that the join preserves): what follows
        in the same query waits that much longer. In an outer join, name a stream that is
        preserved (of a full join ``"greatest"``): rows without a row of the stream that is named
        have a null ``event_time``, and a window drops them.
    hold
        How much further Spark's watermark is held back, for a join that follows in the same query
        and has ``event_time`` too: by the window that it names.

    Returns
    -------
    DataFrame
        The key columns, then every stream's other columns; an inner join of
        streams with time, or one with ``event_time``, ends with ``event_time``.
    """
    return plan(*args, **kwargs).dataframe()


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
    where: str | PredicateFunction | Sequence[str | PredicateFunction] | None = None,
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
    named, read = _table(table)
    spark = stream.df.sparkSession
    planned = enriching.plan_enrich(
        stream.spec,
        named.spec,
        SparkBackend([(stream.spec.name, stream.df), (named.spec.name, named.df)]),
        wakes=enriched.wakes(spark),
        copies=enriched.copies(spark),
        hosts=enriched.hosts(spark),
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
    with_state = planned.spec.streaming and not planned.policy.in_place
    session.check(spark, stream_with_state=with_state)
    if not planned.policy.in_place:
        _warn_of_crowding(planned)
    folder = enriched.stage_folder(spark, stage)
    return Enrichment(planned, enriched.Inputs(stream.df, named.df, read, folder))


def _table(table: Table | Callable[[], Table]) -> tuple[Stream, Callable[[], DataFrame]]:
    """A table with a name, and how it is read again."""
    if isinstance(table, Stream) or not callable(table):
        named = _named_table(table)
        return named, lambda: relisted(named.df)
    return _named_table(table()), lambda: _named_table(table()).df


def _named_table(table: Table) -> Stream:
    if isinstance(table, Stream):
        return table
    return Stream(table, describe(table, TABLE_NAME, time=None, delay=None))


@as_in("wm.enrich(views, products_df, on='product_id')", by_position=_BOTH)
@_takes_arguments_of(plan_enrich)
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
