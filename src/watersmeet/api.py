"""The public calls: ``stream``, ``join`` and ``plan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from watersmeet.cost.calibration import weights
from watersmeet.errors import PlanError
from watersmeet.plan.equi import plan_join
from watersmeet.plan.explain.equi import explain
from watersmeet.rows.predicate import Predicate
from watersmeet.spark import query, session
from watersmeet.spark.inputs import check_punctuation, describe
from watersmeet.spark.sql import translate
from watersmeet.spec import Budget, JoinSpec, Punctuation, StreamSpec
from watersmeet.state.cache import default_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Duration = str | timedelta
Keys = str | Sequence[str]


@dataclass(frozen=True)
class Stream:
    """A DataFrame with a name and what is known about it; made by :func:`stream`."""

    df: DataFrame
    spec: StreamSpec


@dataclass(frozen=True)
class Plan:
    """A validated join that has not run yet; made by :func:`plan`."""

    spec: JoinSpec
    streams: tuple[Stream, ...]
    predicate: Predicate | None

    def explain(self) -> str:
        """The plan as a tree: what matches, what is kept, what purges it and when."""
        shards = query.shard_count(self.streams[0].df.sparkSession)
        return explain(self.spec, shards=shards, weights=weights(default_folder()))

    def dataframe(self) -> DataFrame:
        """The result, as a DataFrame to write, query or aggregate."""
        return query.build(self.spec, [s.df for s in self.streams], self.predicate)


def stream(
    df: DataFrame,
    name: str,
    *,
    time: str | None = None,
    delay: Duration | None = None,
    rate: float | None = None,
    keys: float | None = None,
    unique: bool = False,
    arrival: str | None = None,
    punctuation: Punctuation | None = None,
) -> Stream:
    """Name a DataFrame and say what is known about it.

    Parameters
    ----------
    df
        A streaming DataFrame, or a batch one for a backfill.
    name
        How ``on``, ``within`` and ``where`` refer to it; prefixes shared column names.
    time
        The column with the event time, a timestamp.
    delay
        How late a row may be: the watermark stays so far behind the greatest
        time seen. A DataFrame with a watermark of its own needs none.
    rate, keys
        Expected rows a second and expected number of keys, for the estimates in
        ``explain`` and the first choice of how to hold the stream's window.
    unique
        Each key comes at most once. Rows of the other stream leave when they have met it.
    arrival
        ``"clustered"``: rows of a key come together; ``"ordered"``: in ascending order of
        the key. Rows of the other stream leave when their key is over.
    punctuation
        Rows in the stream that say which keys are over: :class:`Punctuation`.
    """
    spec = describe(df, name, time=time, delay=delay, rate=rate, keys=keys)
    check_punctuation(df, name, punctuation)
    return Stream(df, replace(spec, unique=unique, arrival=arrival, punctuation=punctuation))


def plan(
    streams: Sequence[Stream],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: Duration | Mapping[str, Duration] | None = None,
    how: str = "inner",
    where: str | None = None,
    unbounded: bool = False,
    index: str | Mapping[str, str] = "auto",
    invalidation: str = "active",
    budget: Budget | None = None,
    goal: str = "throughput",
    violations: str = "fail",
    emit_punctuations: bool = False,
    driver: str = "auto",
    purge_after: int | None = None,
) -> Plan:
    """Plan a join without running it; takes what :func:`join` takes."""
    for position, given in enumerate(streams):
        if not isinstance(given, Stream):
            raise PlanError(
                f"streams[{position}] is a {type(given).__name__}, not a stream: name it with "
                "wm.stream(df, 'name', time='...', delay='...') first"
            )
    spec = plan_join(
        [stream.spec for stream in streams],
        on=on,
        within=within,
        how=how,
        where=where,
        unbounded=unbounded,
        index=index,
        invalidation=invalidation,
        budget=budget,
        goal=goal,
        violations=violations,
        emit_punctuations=emit_punctuations,
        driver=driver,
        purge_after=purge_after,
    )
    spark = streams[0].df.sparkSession
    session.check(spark)
    predicate = None
    if spec.where is not None:
        named = [(stream.spec.name, stream.df) for stream in streams]
        predicate = translate(spark, spec.where, named)
    return Plan(spec, tuple(streams), predicate)


def join(
    streams: Sequence[Stream],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: Duration | Mapping[str, Duration] | None = None,
    how: str = "inner",
    where: str | None = None,
    unbounded: bool = False,
    index: str | Mapping[str, str] = "auto",
    invalidation: str = "active",
    budget: Budget | None = None,
    goal: str = "throughput",
    violations: str = "fail",
    emit_punctuations: bool = False,
    driver: str = "auto",
    purge_after: int | None = None,
) -> DataFrame:
    """Join streams by key within windows of time.

    Parameters
    ----------
    streams
        Two to ten streams, made by :func:`stream`.
    on
        The key: a column, a list of columns, or a dict from stream name to
        its column(s) where the names differ.
    within
        How far apart in time matching rows may be: a duration, or a dict from
        stream name to how long its rows wait for a later one.
    how
        ``inner``, ``left``, ``right``, ``full``, ``semi`` or ``anti``; of more than two
        streams, ``inner`` or ``left``.
    where
        A further condition of the match, in SQL, over columns qualified by
        stream name: ``"views.price < clicks.bid"``.
    unbounded
        Allow a join whose state nothing bounds.
    index
        How windows are held: ``"auto"`` (as the cost model says, for what the streams
        bring), ``"always"`` with an index or ``"never"``; or a dict from stream name to
        one of these. It never changes the result.
    invalidation
        When expired rows leave: ``"active"``, whenever the watermark moves, or
        ``"lazy"``, when their window is probed. It never changes the result.
    budget
        What the join may use, and what happens to more than that: :class:`Budget`.
    goal
        ``"throughput"``: rows whose key is over are purged many punctuations at a time;
        ``"memory"``: at once; ``"early"``: at once, and what a punctuation is about is
        joined first, so that it leaves early. With a memory budget that spills, ``"early"``
        also joins new rows with what is in memory first, and with what is on disk when no
        rows come, at the latest when the watermark asks for it. The result is the same.
    violations
        What happens when a stream brings a row that it had promised not to bring:
        ``"fail"``, ``"drop"`` (and count it) or ``"keep"``.
    emit_punctuations
        Hand on punctuations: the result gets a column ``is_punctuation``, and a punctuation
        leaves when all results that it covers have left.
    driver
        Which stream's new rows are taken first in a micro-batch: ``"auto"`` (as ``goal``
        says), ``"timestamp"``, ``"round-robin"``, ``"consumption-rate"``,
        ``"initial-output-size"`` or ``"output-rate"``. It never changes the result.
    purge_after
        After how many punctuations rows are purged whose keys are over; as ``goal`` says, if
        it is not given.

    Returns
    -------
    DataFrame
        The key columns, then every stream's other columns; an inner join of
        streams with time ends with ``event_time``.
    """
    planned = plan(
        streams,
        on=on,
        within=within,
        how=how,
        where=where,
        unbounded=unbounded,
        index=index,
        invalidation=invalidation,
        budget=budget,
        goal=goal,
        violations=violations,
        emit_punctuations=emit_punctuations,
        driver=driver,
        purge_after=purge_after,
    )
    return planned.dataframe()
