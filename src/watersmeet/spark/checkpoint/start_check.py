"""At its start, a query that does not fit its checkpoint is refused; one that sets a second
watermark behind a join or an enrichment; and one that may leave rows waiting, as its trigger lets
Spark run a single micro-batch.

Spark runs nothing of a join before there are new rows, and only then a shard finds state of
another query. So a listener looks when a query starts. It is called before ``start`` returns, and
before Spark reads a source.

Invariant: a query that fits its checkpoint is never refused, and whatever goes wrong here, the
query goes on: its first micro-batch looks again. So the note below is a hint only. It lies in
the checkpoint, and says which joins have used it; while nothing is committed it is written anew. If
it says what the query says, that is all: a few calls of the JVM. Otherwise the state itself is
read, and has the last word. (Without a note nothing is read: a large state takes long.)

A join without a key may have fewer slices than in an earlier run (:mod:`watersmeet.rows.route`).
Its new rows must still reach those that hold rows, and whoever sends rows does not see the state.
So the note also says how many slices there may be. If the query says another number, the state is
read; and if the query has fewer, a setting of its own session tells its tasks how many must be
reached (:mod:`watersmeet.spark.query.shards`). One number is for all joins of a query: to reach too
many shards costs time, never a result. Where that fails, a shard that is not reached stops the
query, with what to do.

Rows of an enrichment may wait where it is certain that Spark runs a micro-batch without data after
the last one with data: when the watermark has moved. With several watermarks the least one counts,
and a stream that brings nothing in a run holds it back. So then no row waits: the tasks are told.

A micro-batch that an earlier run had begun, and that is run again, must deal its rows as it did
then, whatever the query says now: some shards may have taken theirs, and their state may be what
counts (docs/spark.md). So the note also says from which micro-batch on which number of slices
holds, and a setting tells the tasks of that one micro-batch. The numbers of a query's joins must be
the same for that; otherwise it is refused.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from py4j.protocol import Py4JError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from watersmeet.errors import StateError
from watersmeet.joins.chain import EVERY
from watersmeet.plan.crowding import fitting_shards
from watersmeet.spark.checkpoint.checkpoint import Checkpoint, check
from watersmeet.spark.query.counters import name_observed
from watersmeet.spark.query.shards import AGAIN, REACH, SEVERAL
from watersmeet.spark.query.watermarks import BEHIND, SETS, behind_join
from watersmeet.spark.session.cores import cores
from watersmeet.state.manifest import FORMAT

#: The note's name in the folder of the checkpoint.
NOTE = "watersmeet.json"
#: What starts the description of an observation in a plan of Spark's.
_OBSERVES = "CollectMetrics "
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
#: What stands behind a join's name, if it has several operators.
_HOP = re.compile(r", hop \d+ of \d+$")
#: The local property with what jobs and stages are called in Spark's UI.
_CALL_SITE = "callSite.short"


@dataclass(frozen=True)
class Watched:
    """An operator: the fingerprint of its state, and over how many shards, the first ones, its rows
    are dealt, if they have no key. ``waits``: may rows wait for a micro-batch without data? That
    is no part of what the state is of."""

    fingerprint: str
    slices: int | None = None
    waits: bool = field(default=False, compare=False)

    def reaching(self, checkpoint: Checkpoint) -> Watched:
        """The same, with all shards that hold rows of it in a checkpoint."""
        if self.slices is None:
            return self
        return self.with_slices(checkpoint.slices(self.fingerprint))

    def with_slices(self, least: int) -> Watched:
        """The same, with so many slices at least, if it has slices."""
        return self if self.slices is None else replace(self, slices=max(self.slices, least))


#: From a micro-batch on, the slices of each operator whose rows have no key.
Since = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Note:
    """What is said in a checkpoint: which joins it belongs to, with the slices that may hold rows,
    and how many slices there were when. A note that is not readable says nothing."""

    joins: tuple[Watched, ...] = ()
    history: tuple[Since, ...] = ()

    @classmethod
    def read(cls, text: str) -> Note:
        try:
            said = json.loads(text)
            if said["format"] != FORMAT:
                return cls()
            joins = tuple(Watched(*join) for join in said["joins"])
            return cls(joins, tuple((since, tuple(n)) for since, n in said.get("slices", ())))
        except (ValueError, TypeError, KeyError):
            return cls()

    def text(self) -> str:
        joins = [(join.fingerprint, join.slices) for join in self.joins]
        return json.dumps({"format": FORMAT, "joins": joins, "slices": self.history})

    def slices_at(self, batch: int) -> tuple[int, ...] | None:
        """How many slices there were in a micro-batch, as far as is known."""
        return next((n for since, n in reversed(self.history) if since <= batch), None)


_operators: dict[str, Watched] = {}
_watched: set[str] = set()
_lock = threading.Lock()


def watch(spark: SparkSession, operators: Mapping[str, Watched]) -> None:
    """From now on look at each query of this session that starts, and at its checkpoint if it has
    one of these observations. ``operators`` has, by the observation's name, what it observes."""
    session: Any = spark._jsparkSession
    with _lock, contextlib.suppress(Exception):
        _operators.update(operators)
        identity = session.sessionUUID()
        if identity not in _watched:
            gateway: Any = spark.sparkContext._gateway
            ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
            streaming = gateway.jvm.org.apache.spark.sql.streaming
            listener = streaming.PythonStreamingQueryListenerWrapper(_Starts(spark))
            session.streams().addListener(listener)
            _watched.add(identity)


class _Starts:
    """Spark's events of queries. Only their starts matter; of what else it is told, nothing is
    read."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def onQueryStarted(self, event: Any) -> None:
        with contextlib.suppress(Exception):
            streams: Any = self._spark._jsparkSession.streams()
            compare(self._spark, streams.get(event.id()).streamingQuery())

    def onQueryProgress(self, event: Any) -> None:
        pass

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        pass

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def compare(spark: SparkSession, execution: Any) -> None:
    """Compare a query, which is being started, with its checkpoint. End it if that is another
    one's, if it has two watermarks, or if it would leave rows waiting. If it has fewer slices, tell
    it how many it must reach. Warn if it has another number of partitions."""
    plan = execution.analyzedPlan()
    # Rows that are answered in place have no state to compare, but a watermark.
    column = behind_join(plan)
    if column is not None:
        _end(spark, execution, f"TimeColumnError: {_two_watermarks(column)}")
        return
    text = plan.toString()
    operators = operators_in(text)
    if not operators:
        return
    if any(operator.waits for operator in operators):
        if execution.trigger().toString() == _ONCE:
            _end(spark, execution, f"PlanError: {_LEFT_WAITING}")
            return
        if text.count(SETS) > 1:
            execution.sparkSessionForStream().conf().set(SEVERAL, "true")
            warnings.warn(_NO_WAIT, stacklevel=1)
    # This is the query's own thread: its jobs and stages get the names, and no other's.
    spark._jsc.sc().setLocalProperty(_CALL_SITE, named_in(text))
    checkpoint = Checkpoint(spark, execution.resolvedCheckpointRoot())
    _compare_operators(spark, execution, operators, checkpoint)
    if execution.isActive():
        now = int(execution.sparkSessionForStream().conf().get("spark.sql.shuffle.partitions"))
        told = other_partitions(checkpoint, now, cores(spark))
        if told is not None:
            warnings.warn(told, stacklevel=1)


def _compare_operators(
    spark: SparkSession, execution: Any, operators: list[Watched], checkpoint: Checkpoint
) -> None:
    """The part of :func:`compare` that is about stored rows."""
    path = f"{checkpoint.folder}/{NOTE}"
    found = _noted(checkpoint, path)
    before = found or Note()
    history, again = dealt(before, operators, checkpoint)
    if before == Note(tuple(operators), history) and again is None:
        return
    reaching = operators
    if again is not None:
        if len(set(again)) > 1:
            _end(spark, execution, f"StateError: {_several(again)}")
            return
        reaching = [operator.with_slices(again[0]) for operator in operators]
    if checkpoint.committed is not None:
        if found is None:
            return
        if before.joins != tuple(operators):
            try:
                check(checkpoint, [operator.fingerprint for operator in operators])
            except StateError as error:
                _end(spark, execution, f"StateError: {error}")
                return
            reaching = [operator.reaching(checkpoint) for operator in reaching]
    conf = execution.sparkSessionForStream().conf()
    if reaching != operators:
        conf.set(REACH, str(max(operator.slices or 0 for operator in reaching)))
    if again is not None:
        conf.set(AGAIN, f"{checkpoint.last + 1}:{again[0]}")
    checkpoint.files.write(path, Note(tuple(reaching), history).text())


def other_partitions(checkpoint: Checkpoint, session: int, cores: int | None) -> str | None:
    """What to know where a checkpoint has another number of partitions than the session."""
    kept = checkpoint.partitions
    if kept is None or kept == session:
        return None
    told = (
        f"the query goes on with the {kept} shuffle partitions that its checkpoint was begun with, "
        f"not with the session's {session}"
    )
    fitting = fitting_shards(kept, cores)
    if fitting is not None:
        told += (
            f"; these are far too many for {cores} core{'' if cores == 1 else 's'}, as every "
            f"micro-batch takes a step of each: {fitting} fit, and need a new checkpointLocation"
        )
    return f"{checkpoint.folder}: {told}."


def dealt(
    note: Note, operators: Sequence[Watched], checkpoint: Checkpoint
) -> tuple[tuple[Since, ...], tuple[int, ...] | None]:
    """From which micro-batch on how many slices hold, and how many held for the micro-batch that
    was interrupted, if those were others."""
    now = tuple(operator.slices for operator in operators if operator.slices is not None)
    only: tuple[Since, ...] = ((0, now),) if now else ()
    if note.history == only or not now:
        return only, None
    following = checkpoint.last + 1
    then = note.slices_at(following)
    if not checkpoint.interrupted or then is None or then == now or len(then) != len(now):
        return only, None
    return ((0, then), (following + 1, now)), then


def _several(slices: Sequence[int]) -> str:
    told = ", ".join("all" if n == EVERY else str(n) for n in slices)
    return (
        "a micro-batch of this query was interrupted, and must be run again with the slices that "
        f"its joins had then ({told}). Start it with them, let it finish a micro-batch, and change "
        "them afterwards."
    )


def _two_watermarks(column: str) -> str:
    return (
        f"withWatermark({column!r}, ...) sets a second watermark, behind a join or enrichment that "
        "has one. They would hold each other back, or Spark would end the query. Leave it out. "
        f"{BEHIND}."
    )


def _noted(checkpoint: Checkpoint, path: str) -> Note | None:
    """The note; None, if there is none. One that a crash has left half written says nothing."""
    try:
        text = checkpoint.files.read(path)
    except Py4JError:
        return Note()
    return None if text is None else Note.read(text)


def operators_in(plan: str) -> list[Watched]:
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


def observed_in(plan: str, known: Iterable[str]) -> set[str]:
    """Which of the ``known`` observations are in a plan of Spark's. (An observation's name is
    followed by a list; a name may begin with another one.)

    >>> sorted(observed_in("CollectMetrics a, [x]\\n+- CollectMetrics a, [b, [y]", ["a", "a, [b"]))
    ['a', 'a, [b']
    """
    found = set()
    for observed in plan.split(_OBSERVES)[1:]:
        names = [name for name in known if observed.startswith(f"{name}, [")]
        if names:
            found.add(max(names, key=len))
    return found


def _end(spark: SparkSession, execution: Any, reason: str) -> None:
    """Let a query that is being started end with an exception. It does not go on from here to its
    first micro-batch, and says why to everyone who asks it."""
    jvm: Any = spark._jvm
    parameters = jvm.java.util.HashMap()
    for name, value in (
        ("id", execution.id().toString()),
        ("runId", execution.runId().toString()),
        ("message", reason),
    ):
        parameters.put(name, value)
    failed = jvm.org.apache.spark.sql.streaming.StreamingQueryException(
        "",
        jvm.java.lang.IllegalStateException(reason),
        "",
        "",
        "STREAM_FAILED",
        jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(parameters),
    )
    runtime = jvm.org.apache.spark.sql.execution.streaming.runtime
    terminated = getattr(getattr(runtime, "TERMINATED$"), "MODULE$")
    getattr(execution, "streamDeathCause_$eq")(failed)
    execution.state().set(terminated)
