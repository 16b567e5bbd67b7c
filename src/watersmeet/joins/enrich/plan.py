"""From the arguments of ``wm.enrich`` to a planned semi-stream join: spec, policy and predicate.

Every argument is checked here and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet import durations, sizes
from watersmeet.errors import DurationError, JoinTypeError, PlanError, StrategyError
from watersmeet.joins.chain import Chain
from watersmeet.joins.enrich.chain import chain_of
from watersmeet.joins.enrich.explain import branches
from watersmeet.joins.enrich.layout import EnrichLayout, lay_out
from watersmeet.joins.enrich.policy import (
    DEFAULT_MEMORY,
    LOCAL,
    EnrichPolicy,
    Facilities,
    default_memory,
    enrich_policy,
)
from watersmeet.joins.enrich.spec import (
    ACCESSES,
    ENRICH_NAMES,
    ENRICH_TYPES,
    EnrichCall,
    EnrichSpec,
    EnrichTuning,
    Wait,
)
from watersmeet.joins.family import JoinPlan
from watersmeet.plan.arguments import one_of
from watersmeet.plan.backend import Backend
from watersmeet.plan.explain.tree import Node
from watersmeet.plan.join_arguments import all_of, conditions_of, join_type, texts_of
from watersmeet.plan.keys import compared_types, resolved_keys
from watersmeet.plan.naming import result_columns
from watersmeet.plan.streams import check_names, with_time
from watersmeet.plan.where.matching import Matching, read_conditions
from watersmeet.spec.join_type import JoinType
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.stream import StreamSpec
from watersmeet.table.staged_table import StagedTable, TableSize
from watersmeet.table.versions import Versions

_BATCHES = re.compile(r"\s*([0-9]+)\s*(?:micro-?)?batch(?:es)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class EnrichPlan(JoinPlan):
    """A planned semi-stream join. ``folder`` is where the table is staged, and ``size`` what is
    there of it, if that is known. To run, it needs the ``staged`` table, and its ``versions`` if it
    is staged again and again."""

    spec: EnrichSpec
    policy: EnrichPolicy
    folder: str | None = None
    size: TableSize | None = None
    staged: StagedTable | None = None
    versions: Versions | None = None

    def layout(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> EnrichLayout:
        """How rows of the stream and of the table are stored."""
        return lay_out(self.spec, self.policy, self.predicate, schemas=schemas, output=output)

    def chain(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> Chain:
        assert self.staged is not None, "the table is staged before the join runs"
        return chain_of(self.spec, self.layout(schemas, output), self.staged, self.versions)

    @property
    def title(self) -> str:
        stream, table = self.spec.streams
        return f"{self.spec.how} enrichment of {stream.name} from {table.name}"

    def branches(self) -> list[Node]:
        return branches(self)

    def warnings(self) -> list[str]:
        return [] if self.policy.in_place else super().warnings()


def enrich_spec(stream: StreamSpec, table: StreamSpec, asked: EnrichCall) -> EnrichSpec:
    """The spec of a semi-stream join; or what is wrong with the call."""
    inputs: Sequence[StreamSpec] = (stream, table)
    check_names(inputs)
    if table.streaming:
        raise PlanError(
            f"table: {table.name!r} is a streaming DataFrame. Give a batch one (spark.read), or "
            "join two streams: wm.join([...])."
        )
    _check_plain(inputs)
    versioned = _versioned(stream, table, asked.as_of)
    timed = with_time(versioned, argument=f"as_of={asked.as_of!r}", kind="table")
    inputs = with_time(stream), timed
    how = _enrich_type(asked.how)
    _check_key(stream, table, asked.on)
    keys = resolved_keys(inputs, asked.on)
    key_types = compared_types(inputs, keys)
    memory = DEFAULT_MEMORY if asked.memory is None else asked.memory
    spec = EnrichSpec(
        name=_name(asked.name, how, inputs),
        streams=inputs,
        keys=keys,
        key_types=key_types,
        how=how,
        where=all_of(texts_of(conditions_of(asked.where))),
        output=(),
        memory=sizes.parse(memory, argument="memory"),
        max_wait=_wait(inputs[0], asked.max_wait),
        refresh=_refresh(inputs[0], asked.refresh),
        retry=_retry(inputs[0], asked.retry, asked.refresh),
        tuning=_tuning(asked.tuning),
    )
    spec = replace(spec, output=result_columns(spec))
    return spec if asked.version is None else _with_version(spec, asked.version)


def plan_enrich(
    stream: StreamSpec,
    table: StreamSpec,
    backend: Backend,
    asked: EnrichCall,
    facilities: Facilities = LOCAL,
) -> EnrichPlan:
    """Plan a semi-stream join for a backend, which has such ``facilities``."""
    matching = _matching((stream, table), backend, asked)
    found = replace(asked, on=matching.on, where=matching.where)
    spec = enrich_spec(stream, table, found)
    # Of a cluster whose cores are not known, there are at least as many as hosts.
    cores = backend.cores or facilities.hosts or backend.shards
    hosts = None if spec.needs_state else facilities.hosts
    if asked.memory is None:
        spec = replace(spec, memory=default_memory(cores, backend.shards if hosts is None else 0))
    policy = enrich_policy(
        spec, shards=backend.shards, cores=cores, wakes=facilities.wakes, hosts=hosts
    )
    policy = replace(policy, copies=facilities.copies)
    return EnrichPlan(spec=spec, policy=policy, predicate=matching.predicate)


def _matching(inputs: Sequence[StreamSpec], backend: Backend, asked: EnrichCall) -> Matching:
    """What must match. Without ``on``, equalities in ``where`` are the key."""
    conditions = conditions_of(asked.where)
    if not conditions:
        return Matching(asked.on, None)
    check_names(inputs)
    return read_conditions(inputs, backend, on=asked.on, within=(), conditions=conditions)


def _check_key(stream: StreamSpec, table: StreamSpec, on: object) -> None:
    if on is None:
        raise PlanError(
            "on: missing. Name the column(s) by which rows of the table are found, like "
            "on='product_id'; or make columns equal in where: "
            f"where='{stream.name}.product = {table.name}.product'. An expression or a constant is "
            "made a column first: df.withColumn('product', F.lower('name'))."
        )


def _with_version(spec: EnrichSpec, name: object) -> EnrichSpec:
    """The spec with a column for the version of the table."""
    if not isinstance(name, str) or not name.strip():
        raise PlanError(f"version={name!r} is not a column's name, like 'table_version'.")
    if name.lower() in {column.name.lower() for column in spec.output}:
        raise PlanError(
            f"version={name!r}: the result has a column of this name already. Give another one."
        )
    return replace(spec, version=name, output=(*spec.output, OutputColumn(name, "string")))


def _check_plain(inputs: Sequence[StreamSpec]) -> None:
    for given in inputs:
        if given.closes:
            raise PlanError(
                f"stream {given.name!r}: unique, arrival and punctuation are for joins of two "
                "streams: nothing waits for a key here. Leave them out."
            )


def _versioned(stream: StreamSpec, table: StreamSpec, as_of: object) -> StreamSpec:
    """The table, with the time from which on its rows are valid."""
    if table.time is not None:
        raise PlanError(
            f"table: {table.name!r} has time={table.time!r}. A table has none; if its rows are "
            f"versions that are valid from a time on, give as_of={table.time!r}."
        )
    if as_of is None:
        return table
    if not isinstance(as_of, str):
        raise PlanError(f"as_of={as_of!r} is not a column's name, like 'valid_from'.")
    if stream.time is None:
        raise PlanError(
            f"as_of={as_of!r}: the stream {stream.name!r} has no time as of which a version could "
            "be valid. Give its time column: wm.stream(df, '...', time='...', delay='...')."
        )
    return replace(table, time=as_of)


def _enrich_type(how: object) -> JoinType:
    known = join_type(how, possible=ENRICH_TYPES)
    if known not in ENRICH_TYPES:
        raise JoinTypeError(
            f"how={how!r}: a stream is enriched by one of {', '.join(ENRICH_NAMES)}: rows of the "
            "table that no row of the stream matches could never be told from those that none "
            "has matched yet."
        )
    return known


def _name(name: object, how: JoinType, inputs: Sequence[StreamSpec]) -> str:
    if name is None:
        return f"{how} enrichment of {inputs[0].name} from {inputs[1].name}"
    if not isinstance(name, str) or not name.strip():
        raise PlanError(f"name={name!r} is not a name. Give text like 'prices', or leave it out.")
    return name.strip()


def _wait(stream: StreamSpec, given: object) -> Wait | None:
    """How long a row may wait."""
    if given is None:
        return None
    if stream.time is None:
        raise PlanError(
            f"max_wait={given!r}: the stream {stream.name!r} has no time, and only a watermark "
            "tells when a stream has paused. Give its time column, or leave out max_wait: each "
            "row is then answered in its micro-batch."
        )
    matched = _BATCHES.fullmatch(given) if isinstance(given, str) else None
    if matched or (isinstance(given, int) and not isinstance(given, bool)):
        batches = int(matched[1]) if matched else int(given)  # type: ignore[call-overload]
        if batches < 1:
            raise PlanError(f"max_wait={given!r}: give one micro-batch or more.")
        return Wait(batches=batches)
    try:
        microseconds = durations.parse(given, argument="max_wait")
    except DurationError as error:
        raise DurationError(f"{error} Or a number of micro-batches, like '10 batches'.") from None
    if microseconds == 0:
        raise PlanError(
            f"max_wait={given!r} is no time. Give more, like '30 seconds'; or leave it out: each "
            "row is then answered in its micro-batch."
        )
    return Wait(microseconds=microseconds)


def _refresh(stream: StreamSpec, given: object) -> int | None:
    """How often the table is staged anew."""
    if given is None:
        return None
    if not stream.streaming:
        raise PlanError(f"refresh={given!r}: it is for streams; a batch run reads a table once.")
    microseconds = durations.parse(given, argument="refresh")
    if microseconds < 1_000_000:
        raise PlanError(f"refresh={given!r}: give a second or more, like '10 minutes'.")
    return microseconds


def _retry(stream: StreamSpec, given: object, refresh: object) -> int | None:
    """For how long a row without a match is retried."""
    if given is None:
        return None
    if refresh is None:
        raise PlanError(
            f"retry={given!r}: a row waits for a newer version of the table, and there is none "
            "without refresh: give refresh='10 minutes', or leave out retry."
        )
    if stream.time is None:
        raise PlanError(
            f"retry={given!r}: the stream {stream.name!r} has no time by which a row has waited "
            "long enough. Give its time column, or leave out retry."
        )
    return durations.parse(given, argument="retry")


def _tuning(tuning: object) -> EnrichTuning:
    if tuning is None:
        return EnrichTuning()
    if not isinstance(tuning, EnrichTuning):
        raise StrategyError(
            f"tuning={tuning!r} is not a wm.EnrichTuning: give wm.EnrichTuning(access='seek')."
        )
    one_of(tuning.access, ACCESSES, argument="tuning: access")
    if not isinstance(tuning.cache, bool):
        raise StrategyError(f"tuning: cache={tuning.cache!r} is neither True nor False.")
    return tuning
