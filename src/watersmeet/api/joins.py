"""Joins of streams: ``join`` and ``plan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from watersmeet import sizes
from watersmeet.api.streams import Duration, Keys, Stream, Where
from watersmeet.errors import MixedInputError, PlanError
from watersmeet.joins.chain import Chain
from watersmeet.joins.equi.spec import Violations
from watersmeet.joins.families import plan_join
from watersmeet.joins.family import JoinPlan
from watersmeet.plan.call import JoinCall
from watersmeet.plan.signatures import as_in, takes_arguments_of, warn
from watersmeet.plan.streams import TABLES
from watersmeet.spark.backend import SparkBackend
from watersmeet.spark.checkpoint.checkpoint import Checkpoint
from watersmeet.spark.checkpoint.checkpoint import check as check_checkpoint
from watersmeet.spark.query.inputs import is_batch
from watersmeet.spark.query.query import run
from watersmeet.spark.query.result import arrow_schemas, result_schema, with_event_time
from watersmeet.spark.session import session
from watersmeet.spark.session.functions import check_functions
from watersmeet.spec.budget import Budget
from watersmeet.spec.join_type import How
from watersmeet.spec.tuning import Tuning
from watersmeet.spec.windowed import Goal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True, repr=False)
class Plan:
    """A validated join that has not run yet; made by :func:`plan`."""

    plan: JoinPlan
    streams: tuple[Stream, ...]

    def __repr__(self) -> str:
        return self.explain()

    @property
    def frames(self) -> list[DataFrame]:
        """The streams' DataFrames."""
        return [stream.df for stream in self.streams]

    @property
    def schema(self) -> StructType:
        """The columns of the result."""
        return result_schema(self.plan.spec, self.frames)

    def explain(self) -> str:
        """The plan as a tree: what matches, what is stored, what removes it and when."""
        return self.plan.explain()

    def check(self, checkpoint: str) -> None:
        """Raise a StateError if the query that has used this ``checkpointLocation`` was another
        one, which must be stopped, or if none has. A query finds that out when it starts, if it
        can; this reads the state itself, however large it is, and starts nothing."""
        written = Checkpoint(self.frames[0].sparkSession, checkpoint)
        written.check_readable()
        written.check_begun()
        check_checkpoint(written, self._chain.fingerprints)

    def dataframe(self) -> DataFrame:
        """The result, as a DataFrame to write, query or aggregate."""
        return with_event_time(self.plan.spec, run(self._chain, self.frames, self.schema))

    @property
    def _chain(self) -> Chain:
        return self.plan.chain(*arrow_schemas(self.plan.spec, self.frames))


_LIST = "the streams as one list"


@as_in("wm.plan([views, clicks], on='ad_id', within='5 minutes')", by_position=_LIST)
def plan(
    streams: Sequence[Stream],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: Duration | Mapping[str, Duration] | None = None,
    how: How = "inner",
    where: Where | None = None,
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
    asked = JoinCall(
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
    backend = SparkBackend([(stream.spec.name, stream.df) for stream in streams])
    planned = plan_join([stream.spec for stream in streams], backend, asked)
    check_functions(where)
    if budget is not None and budget.memory is not None:
        sizes.check_meant(budget.memory, argument="budget: memory")
    session.check(backend.spark, stream_with_state=planned.spec.streaming)
    if planned.spec.streaming and planned.spec.hold:
        holds = f"{event_time=}" if event_time is not None else f"{hold=}"
        session.check_holding(backend.spark, holds)
    for warning in planned.warnings():
        warn(f"{planned.spec.name}: {warning}")
    return Plan(planned, tuple(streams))


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


@as_in("wm.join([views, clicks], on='ad_id', within='5 minutes')", by_position=_LIST)
@takes_arguments_of(plan)
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
