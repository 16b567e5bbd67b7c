"""From the arguments of ``wm.enrich`` to a planned semi-stream join: spec, policy and predicate.

Every argument is checked here and nowhere else.

**Memory.** A quarter of it is for the caches of all shards, a quarter for the rows that wait in
them; a shard of the table that fits into its part of both is kept in memory as a whole. The rest
is for the shards that are stepped at the same time: new rows, results, and what is copied into a
cache, in pieces. Filters of the table stay in memory only where they take at most an eighth of it.

**In place.** If nothing has to be remembered from one micro-batch to the next, rows are answered
by the tasks that read them. Then there are no shards of the stream; the memory is divided among as
many processes as run such tasks side by side, and each of them has a cache of its own. No rows
wait, so their quarter is for larger partitions: fewer of them are visited. Pieces are smaller
there, so that twenty of them, the cache and a partition fit together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from watersmeet import durations, sizes
from watersmeet.errors import BudgetError, DurationError, JoinTypeError, PlanError, StrategyError
from watersmeet.plan.arguments import one_of
from watersmeet.plan.backend import Backend
from watersmeet.plan.join import JoinPlan, all_of, conditions_of, join_type, texts_of
from watersmeet.plan.keys import Keys, compared_types, resolved_keys
from watersmeet.plan.naming import result_columns
from watersmeet.plan.streams import check_names, with_time
from watersmeet.plan.where.matching import Matching, read_conditions
from watersmeet.spec.enrich import (
    ACCESSES,
    ENRICH_TYPES,
    EnrichPolicy,
    EnrichSpec,
    EnrichTuning,
    TableSize,
    Wait,
)
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.stream import StreamSpec

#: What is handled at a time is this part of what a running shard may use.
_PIECES, _PIECES_IN_PLACE = 20, 40
#: Filters and fences of the table take at most this part of what a shard may keep: an eighth of the
#: whole memory.
_FILTERS = 4
#: A partition of the table takes about so many bytes: a larger one takes longer to scan, smaller
#: ones are more files to open, a third of a millisecond each. It is mapped while it is read, so
#: it takes at most half of what a running shard may use, and what no waiting rows take.
_PARTITION = 64_000_000
_MB = 1_000_000
#: The least memory that a shard can do with, between its steps and in them.
_LEAST_KEPT = 128 << 10
_LEAST_RUNNING = 4 << 20
#: The memory of a query that does not say how much; and at least so much for each core, and for
#: each shard.
_DEFAULT = 256 * _MB
_DEFAULT_CORE, _DEFAULT_SHARD = 16 * _MB, _MB // 2
#: A table that is read in place is staged in at most this many shards: a task looks into each.
_MOST_STAGED = 64
#: Nothing waits if all that a micro-batch reads takes no longer than so many nanoseconds.
_AT_ONCE = 100e6
_BATCHES = re.compile(r"\s*([0-9]+)\s*(?:micro-?)?batch(?:es)?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class EnrichPlan(JoinPlan):
    """A planned semi-stream join. ``folder`` is where the table is staged, and ``size`` what is
    there of it, if that is known."""

    spec: EnrichSpec
    policy: EnrichPolicy
    folder: str | None = None
    size: TableSize | None = None


def enrich_spec(
    stream: StreamSpec,
    table: StreamSpec,
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    how: str = "inner",
    where: object = None,
    memory: str | int = _DEFAULT,
    max_wait: object = None,
    refresh: object = None,
    retry: object = None,
    as_of: str | None = None,
    version: str | None = None,
    name: str | None = None,
    tuning: EnrichTuning | None = None,
) -> EnrichSpec:
    """The spec of a semi-stream join; or what is wrong with the call."""
    inputs: Sequence[StreamSpec] = (stream, table)
    check_names(inputs)
    if table.streaming:
        raise PlanError(
            f"table: {table.name!r} is a streaming DataFrame. Give a batch one (spark.read), or "
            "join two streams: wm.join([...])."
        )
    _check_plain(inputs)
    versioned = _versioned(stream, table, as_of)
    timed = with_time(versioned, argument=f"as_of={as_of!r}", kind="table")
    inputs = with_time(stream), timed
    how = _enrich_type(how)
    if on is None:
        raise PlanError(
            "on: missing. Name the column(s) by which rows of the table are found, like "
            "on='product_id'; or make columns equal in where: "
            f"where='{stream.name}.product = {table.name}.product'."
        )
    keys = resolved_keys(inputs, on)
    key_types = compared_types(inputs, keys)
    spec = EnrichSpec(
        name=_name(name, how, inputs),
        streams=inputs,
        keys=keys,
        key_types=key_types,
        windows=(None, None),
        how=how,
        where=all_of(texts_of(conditions_of(where))),
        unbounded=False,
        output=(),
        budget=None,
        goal="throughput",
        memory=sizes.parse(memory, argument="memory"),
        max_wait=_wait(inputs[0], max_wait),
        refresh=_refresh(inputs[0], refresh),
        retry=_retry(inputs[0], retry, refresh),
        tuned=_tuning(tuning),
    )
    spec = replace(spec, output=result_columns(spec))
    return spec if version is None else _with_version(spec, version)


def plan_enrich(
    stream: StreamSpec,
    table: StreamSpec,
    backend: Backend,
    *,
    wakes: bool = True,
    copies: bool = False,
    hosts: int | None = None,
    **options: Any,
) -> EnrichPlan:
    """Plan a semi-stream join for a backend; ``options`` are those of :func:`enrich_spec`.
    ``wakes``: does the backend run a micro-batch without data when the watermark has moved?
    ``copies``: does a host keep copies of the partitions that it reads? ``hosts``: on how many,
    at most, can it answer rows where they are read? None: on none."""
    matching = _matching(
        (stream, table), backend, options.pop("on", None), options.pop("where", None)
    )
    memory = options.pop("memory", None)
    given = {} if memory is None else {"memory": memory}
    spec = enrich_spec(stream, table, on=matching.on, where=matching.where, **given, **options)
    # Of a cluster whose cores are not known, there are at least as many as hosts.
    cores = backend.cores or hosts or backend.shards
    hosts = None if spec.needs_state else hosts
    if memory is None:
        spec = replace(spec, memory=_default_memory(cores, backend.shards if hosts is None else 0))
    policy = enrich_policy(
        spec,
        shards=backend.shards,
        cores=cores,
        wakes=wakes,
        hosts=hosts,
    )
    policy = replace(policy, copies=copies)
    return EnrichPlan(spec=spec, policy=policy, predicate=matching.predicate)


def _default_memory(cores: int, shards: int) -> int:
    """The memory of a query that does not say how much: enough for so many cores and shards.

    >>> [_default_memory(cores, 200) // _MB for cores in (8, 16, 64)]
    [256, 256, 1024]
    >>> _default_memory(8, 1000) // _MB
    500
    """
    return max(_DEFAULT, cores * _DEFAULT_CORE, shards * _DEFAULT_SHARD)


def _matching(
    inputs: Sequence[StreamSpec],
    backend: Backend,
    on: Keys | Mapping[str, Keys] | None,
    where: object,
) -> Matching:
    """What must match. Without ``on``, equalities in ``where`` are the key."""
    conditions = conditions_of(where)
    if not conditions:
        return Matching(on, None)
    check_names(inputs)
    return read_conditions(inputs, backend, on=on, within=(), conditions=conditions)


def enrich_policy(
    spec: EnrichSpec, *, shards: int, cores: int, wakes: bool, hosts: int | None = None
) -> EnrichPolicy:
    """How a semi-stream join runs on that many shards, of which ``cores`` are stepped side by
    side; or, on so many ``hosts`` at most, in place."""
    in_place = hosts is not None
    keeping, at_once = (cores, cores) if in_place else (shards, min(cores, shards))
    kept, running = spec.memory // 2 // keeping, spec.memory // 2 // at_once
    if kept < _LEAST_KEPT or running < _LEAST_RUNNING:
        least = max(2 * keeping * _LEAST_KEPT, 2 * at_once * _LEAST_RUNNING)
        whom = f"{shards} shards (one for each shuffle partition)"
        lower = ", or lower spark.sql.shuffle.partitions"
        if in_place:
            whom, lower = f"{cores} tasks side by side (one for each core)", ""
        raise BudgetError(
            f"memory={spec.memory:,} bytes are too few for {whom}: give {sizes.format(least)} or "
            f"more{lower}."
        )
    mapped = running // 2 + (kept // 2 if in_place else 0)
    policy = EnrichPolicy(
        shards=shards,
        cache=kept // 2,
        queue=kept // 2,
        resident=kept,
        filters=kept // _FILTERS,
        piece=running // (_PIECES_IN_PLACE if in_place else _PIECES),
        wakes=wakes and spec.timers,
        cores=cores,
        partition=min(_PARTITION, _MB << (mapped // _MB).bit_length() - 1),
        in_place=in_place,
        at_once=_AT_ONCE / -(-shards // at_once),  # a core steps so many, one after the other
    )
    if hosts is None:
        return policy
    # Every process reads all of the table, and those of a host share its pages.
    shards = min(shards, _MOST_STAGED)
    return replace(policy, shards=shards, resident=spec.memory // 2 // hosts)


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


def _enrich_type(how: object) -> str:
    known = join_type(how, possible=ENRICH_TYPES)
    if known not in ENRICH_TYPES:
        raise JoinTypeError(
            f"how={how!r}: a stream is enriched by one of {', '.join(ENRICH_TYPES)}: rows of the "
            "table that no row of the stream matches could never be told from those that none "
            "has matched yet."
        )
    return known


def _name(name: object, how: str, inputs: Sequence[StreamSpec]) -> str:
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
        return Wait(microseconds=durations.parse(given, argument="max_wait"))
    except DurationError as error:
        raise DurationError(f"{error} Or a number of micro-batches, like '10 batches'.") from None


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
