"""The checks when a query starts. Three kinds of query are refused: one that does not fit its
checkpoint; one that sets a second watermark behind a join or an enrichment; and one that may leave
rows waiting, because its trigger lets Spark run a single micro-batch.

Spark runs no part of a join before there are new rows, and only then a shard finds state of another
query. So a listener looks when a query starts. It is called before ``start`` returns, and before
Spark reads a source.

Invariant: a query that fits its checkpoint is never refused, and whatever goes wrong here, the
query goes on: its first micro-batch looks again. If the note in the checkpoint (:mod:`.note`)
agrees with the query, nothing else is read: that takes a few calls of the JVM. Otherwise the state
itself is read, and has the last word. (Without a note nothing is read: a large state takes long.)

A join without a key may have fewer slices than in an earlier run (:mod:`watersmeet.rows.route`).
Its new rows must still reach those that hold rows, but the tasks that send rows do not see the
state. So the note also says how many slices there may be. If the query has another number, the
state is read. If the query has fewer slices, a setting of its own session tells its tasks how many
must be reached (:mod:`watersmeet.spark.query.shards`). One number is for all joins of a query: to
reach too many shards costs time, never a result. If that fails, a shard that is not reached stops
the query, and its message says what to do.

**Example.** A query runs with eight slices, is stopped, and starts again with four::

    the note says 8, the query 4            they differ, so the state is read
    the slices up to the sixth hold rows    new rows are stored in four slices, and sent to six
    micro-batch 42 was interrupted          it is run again with eight slices, 43 has four; rows
                                            are sent to eight

Rows of an enrichment may wait if it is certain that Spark runs a micro-batch without data after the
last one with data. It does if the watermark has moved. With several watermarks the least one
counts, and a stream that brings nothing in a run holds it back. So then no row waits: the tasks are
told.

A micro-batch that an earlier run had begun, and that is run again, must deal its rows as it did
then, whatever the query says now. Some shards may have taken their rows, and Spark may use the
state that they left (docs/spark.md). So the note also says from which micro-batch on the query has
which number of slices, and a setting tells the tasks of that one micro-batch. All joins of the
query must have had the same number then; otherwise the query is refused.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from watersmeet.errors import StateError
from watersmeet.joins.chain import EVERY
from watersmeet.plan.crowding import fitting_shards
from watersmeet.spark.checkpoint.checkpoint import Checkpoint, check
from watersmeet.spark.checkpoint.note import Note, OperatorState, slice_history
from watersmeet.spark.jvm.driver import name_jobs
from watersmeet.spark.jvm.queries import ActiveQuery, on_start, session_name
from watersmeet.spark.query.observations import name_observed, observed_in
from watersmeet.spark.query.shards import AGAIN, REACH, SEVERAL
from watersmeet.spark.query.watermarks import BEHIND, SETS, behind_join
from watersmeet.spark.session.master import cores
from watersmeet.state.shard import repartitioned

#: The trigger of a single micro-batch, as Spark calls it.
_ONCE = "OneTimeTrigger"
_LEFT_WAITING = (
    "with trigger(once=True) Spark runs a single micro-batch, and none without data after it: rows "
    "that wait because of max_wait would stay behind. Take trigger(availableNow=True), or leave "
    "out max_wait."
)
_NO_WAIT = (
    "max_wait has no effect in this query: it has several watermarks. A stream that brings nothing "
    "would hold back the others, so that rows that wait might stay behind. So each row is answered "
    "in the micro-batch in which it comes."
)
#: The end of an operator's name, if its join has several operators.
_HOP = re.compile(r", hop \d+ of \d+$")

#: The operators that have been planned, by the names of their observations.
_operators: dict[str, OperatorState] = {}
#: The sessions whose starts are looked at.
_sessions: set[str] = set()
_lock = threading.Lock()


def watch(spark: SparkSession, operators: Mapping[str, OperatorState]) -> None:
    """From now on look at each query of this session that starts, and at its checkpoint if it has
    one of these observations. ``operators`` has the observed operators, by the observations'
    names."""
    with _lock, contextlib.suppress(Exception):
        _operators.update(operators)
        name = session_name(spark)
        if name not in _sessions:
            on_start(spark, compare)
            _sessions.add(name)


def compare(query: ActiveQuery) -> None:
    """Compare a query that is being started with its checkpoint. End the query if the checkpoint is
    another query's, if the query has two watermarks, or if it would leave rows waiting. If it has
    fewer slices, tell it how many it must reach. Warn if it has another number of partitions."""
    plan = query.plan
    # Rows that are answered in place have no state to compare, but a watermark.
    column = behind_join(plan)
    if column is not None:
        query.fail(f"TimeColumnError: {_two_watermarks(column)}")
        return
    text = plan.text
    operators = operators_in(text)
    if not operators:
        return
    if any(operator.waits for operator in operators):
        if query.trigger == _ONCE:
            query.fail(f"PlanError: {_LEFT_WAITING}")
            return
        if text.count(SETS) > 1:
            query.set(SEVERAL, "true")
            warnings.warn(_NO_WAIT, stacklevel=1)
    # This is the query's own thread: its jobs and stages get the names, and no other's.
    name_jobs(query.spark, named_in(text))
    checkpoint = Checkpoint(query.spark, query.checkpoint)
    _compare_operators(query, operators, checkpoint)
    if query.is_active:
        now = int(query.setting("spark.sql.shuffle.partitions"))
        warning = other_partitions(checkpoint, now, cores(query.spark))
        if warning is not None:
            warnings.warn(warning, stacklevel=1)


def _compare_operators(
    query: ActiveQuery, operators: list[OperatorState], checkpoint: Checkpoint
) -> None:
    """The part of :func:`compare` that checks stored rows."""
    found = Note.of(checkpoint)
    before = found or Note()
    history, again = slice_history(before, operators, checkpoint)
    kept = checkpoint.partitions
    if kept is not None and before.partitions not in (None, kept):
        query.fail(f"StateError: {repartitioned(kept, before.partitions)}")
        return
    partitions = kept or int(query.setting("spark.sql.shuffle.partitions"))
    if before == Note(tuple(operators), history, partitions) and again is None:
        return
    reaching = operators
    if again is not None:
        if len(set(again)) > 1:
            query.fail(f"StateError: {_several(again)}")
            return
        reaching = [operator.with_slices(again[0]) for operator in operators]
    if checkpoint.committed is not None:
        if found is None:
            return
        if before.joins != tuple(operators):
            try:
                check(checkpoint, [operator.fingerprint for operator in operators])
            except StateError as error:
                query.fail(f"StateError: {error}")
                return
            reaching = [operator.reaching(checkpoint) for operator in reaching]
    if reaching != operators:
        query.set(REACH, str(max(operator.slices or 0 for operator in reaching)))
    if again is not None:
        query.set(AGAIN, f"{checkpoint.last + 1}:{again[0]}")
    Note(tuple(reaching), history, partitions).write(checkpoint)


def other_partitions(checkpoint: Checkpoint, session: int, cores: int | None) -> str | None:
    """A warning, if a checkpoint has another number of partitions than the session."""
    kept = checkpoint.partitions
    if kept is None or kept == session:
        return None
    text = (
        f"the query goes on with the {kept} shuffle partitions that its checkpoint was begun with, "
        f"not with the session's {session}"
    )
    fitting = fitting_shards(kept, cores)
    if fitting is not None:
        text += (
            f"; these are far too many for {cores} core{'' if cores == 1 else 's'}, as every "
            f"micro-batch takes a step of each: {fitting} fit, and need a new checkpointLocation"
        )
    return f"{checkpoint.folder}: {text}."


def _several(slices: Sequence[int]) -> str:
    text = ", ".join("all" if n == EVERY else str(n) for n in slices)
    return (
        "a micro-batch of this query was interrupted, and must be run again with the slices that "
        f"its joins had then ({text}). Start it with them, let it finish a micro-batch, and change "
        "them afterwards."
    )


def _two_watermarks(column: str) -> str:
    return (
        f"withWatermark({column!r}, ...) sets a second watermark, behind a join or enrichment that "
        "has one. They would hold each other back, or Spark would end the query. Leave it out. "
        f"{BEHIND}."
    )


def operators_in(plan: str) -> list[OperatorState]:
    """The operators in a plan of Spark's."""
    with _lock:  # another thread may plan a join
        known = dict(_operators)
    found = {known[name] for name in observed_in(plan, known)}
    return sorted(found, key=lambda operator: (operator.fingerprint, operator.slices or 0))


def named_in(plan: str) -> str:
    """The names of the joins in a plan of Spark's."""
    with _lock:
        known = list(_operators)
    names = (name_observed(name) for name in observed_in(plan, known))
    return "; ".join(sorted({_HOP.sub("", name) for name in names}))
