"""From the arguments of a call to a validated :class:`~watersmeet.spec.JoinSpec`.

Every argument is checked here and nowhere else, in this order: the streams by themselves,
the join type, the keys, the windows, what bounds the state, the condition, the result's names.

What bounds the state. A row of stream i can meet only rows whose time is at most its own plus
``windows[i]``, and rows behind the watermark are dropped as they arrive. So it is useless, and
if it has matched nothing so far it is proven unmatched, as soon as::

    watermark >= time + windows[i]

Without ``within`` that never comes: no row leaves, and no row is ever proven unmatched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from watersmeet import durations, sizes
from watersmeet.errors import (
    BudgetError,
    InternalError,
    JoinTypeError,
    KeyTypeError,
    MixedInputError,
    PlanError,
    PredicateError,
    PunctuationError,
    StrategyError,
    StreamNameError,
    TimeColumnError,
    UnboundedStateError,
    UnknownColumnError,
    WindowError,
    did_you_mean,
)
from watersmeet.operators.layout import exact_key
from watersmeet.plan.naming import resolve, result_columns
from watersmeet.plan.types import check_key_type, common_type
from watersmeet.spec import (
    ARRIVALS,
    DRIVERS,
    GOALS,
    INDEXES,
    INVALIDATIONS,
    JOIN_TYPES,
    MOST_STREAMS,
    MULTIWAY_JOIN_TYPES,
    OVERFLOWS,
    VIOLATIONS,
    Budget,
    JoinSpec,
    Punctuation,
    StreamSpec,
    preserved_by,
)

Keys = str | Sequence[str]
Value = TypeVar("Value")

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: What Spark calls these joins, without underscores, and what they are called here.
_SPARK_JOIN_TYPES = {
    "leftouter": "left",
    "rightouter": "right",
    "outer": "full",
    "fullouter": "full",
    "leftsemi": "semi",
    "leftanti": "anti",
    "cross": "inner",
}


def plan_join(
    streams: Sequence[StreamSpec],
    *,
    on: Keys | Mapping[str, Keys] | None = None,
    within: object = None,
    how: str = "inner",
    where: str | None = None,
    unbounded: bool = False,
    index: object = "auto",
    invalidation: str = "active",
    budget: Budget | None = None,
    goal: str = "throughput",
    violations: str = "fail",
    emit_punctuations: bool = False,
    driver: str = "auto",
    purge_after: int | None = None,
) -> JoinSpec:
    """Plan an equality join of streams, or say what is wrong with the call.

    ``within`` is a duration (text or :class:`~datetime.timedelta`), a dict from every stream's
    name to one, or None. The spec's ``unbounded`` tells whether the state really is unbounded,
    not just whether that would have been allowed.
    """
    _check_streams(streams)
    streams = tuple(_with_time(stream) for stream in streams)
    _check_how(how)
    if len(streams) > 2:
        _check_multiway(streams, how, where)
    keys = _keys(streams, on)
    key_types = _key_types(streams, keys)
    windows = _windows(streams, within)
    _check_flag(unbounded, argument="unbounded")
    _check_flag(emit_punctuations, argument="emit_punctuations")
    _check_promises(streams, key_types, emit_punctuations, how)
    free = streams[0].streaming and within is None and not _closed_by_promises(streams)
    if free:
        _check_may_be_unbounded(how, unbounded)
    elif streams[0].streaming and within is None:
        _check_provable(streams, how)
    _check_where(where)
    spec = JoinSpec(
        streams=streams,
        keys=keys,
        key_types=key_types,
        windows=windows,
        how=how,
        where=where,
        unbounded=free,
        output=(),
        index=_index(streams, index),
        invalidation=_one_of(invalidation, INVALIDATIONS, argument="invalidation"),
        budget=_budget(streams, budget, how=how, windowed=within is not None),
        goal=_one_of(goal, GOALS, argument="goal"),
        violations=_one_of(violations, VIOLATIONS, argument="violations"),
        emit_punctuations=emit_punctuations,
        driver=_driver(streams, driver),
        purge_after=_purge_after(streams, purge_after),
    )
    return replace(spec, output=result_columns(spec))


# --- the streams by themselves


def _check_streams(streams: Sequence[StreamSpec]) -> None:
    names = [stream.name for stream in streams]
    if not 2 <= len(streams) <= MOST_STREAMS:
        raise PlanError(
            f"streams: a join takes two to {MOST_STREAMS} streams; {len(streams)} given: {names}."
        )
    seen: set[str] = set()
    for stream in streams:
        name = stream.name
        if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name):
            raise StreamNameError(
                f"streams: the name {name!r} is not an identifier. Use letters, digits and "
                "underscores, not starting with a digit: it prefixes columns and is used in "
                "SQL conditions."
            )
        if name.lower() in seen:
            raise StreamNameError(
                f"streams: two streams have the name {name!r} (case does not count). "
                "Give each a name of its own, also if both read the same DataFrame."
            )
        seen.add(name.lower())
    live = [stream.name for stream in streams if stream.streaming]
    if live and len(live) < len(streams):
        batch = [stream.name for stream in streams if not stream.streaming]
        raise MixedInputError(
            f"streams: {', '.join(live)} is a streaming DataFrame, {', '.join(batch)} a batch "
            "one. Give only streaming DataFrames (spark.readStream) or only batch ones "
            "(spark.read)."
        )


def _with_time(stream: StreamSpec) -> StreamSpec:
    """The stream with its time column's real name, once that column is found to be usable."""
    argument = f"time of the stream {stream.name!r}"
    if stream.time is None:
        if stream.delay is not None and not stream.watermarked:
            raise TimeColumnError(
                f"delay of the stream {stream.name!r}: {durations.format(stream.delay)} behind "
                f"which time? Give the time column too: {_time_example(stream)}."
            )
        return stream
    column = resolve(stream, stream.time, argument=argument)
    if column.type == "timestamp_ntz":
        raise TimeColumnError(
            f"{argument}: {column.name!r} is of type 'timestamp_ntz', a local time that is no "
            f"point in time. Cast it: df.withColumn({column.name!r}, "
            f"F.col({column.name!r}).cast('timestamp'))."
        )
    if column.type != "timestamp":
        raise TimeColumnError(
            f"{argument}: {column.name!r} is of type {column.type!r}; a time column must be of "
            f"type 'timestamp'.{_timestamps(stream)}"
        )
    if stream.streaming and stream.delay is None:
        if stream.watermarked:
            raise InternalError(f"stream {stream.name!r}: a watermark without a delay")
        raise TimeColumnError(
            f"delay of the stream {stream.name!r}: missing, so nothing says how late its rows "
            f'may be. Give delay="10 seconds", or call df.withWatermark({column.name!r}, '
            "'10 seconds') before."
        )
    return replace(stream, time=column.name)


def _time_example(stream: StreamSpec) -> str:
    timestamps = [column.name for column in stream.columns if column.type == "timestamp"]
    time = timestamps[0] if timestamps else "..."
    return f'wm.stream(df, "{stream.name}", time="{time}", ...)'


def _timestamps(stream: StreamSpec) -> str:
    names = [column.name for column in stream.columns if column.type == "timestamp"]
    return f" Of that type here: {', '.join(names)}." if names else " No column here is."


# --- the join type, the condition, the flag


def _check_how(how: object) -> None:
    if how in JOIN_TYPES:
        return
    given = str(how).lower()
    known = _SPARK_JOIN_TYPES.get(re.sub(r"[\s_-]", "", given))
    hint = f" Did you mean {known!r}?" if known else did_you_mean(given, JOIN_TYPES)
    raise JoinTypeError(f"how={how!r} is no join type: it is one of {', '.join(JOIN_TYPES)}.{hint}")


def _check_multiway(streams: Sequence[StreamSpec], how: str, where: object) -> None:
    """What a join of more than two streams cannot do."""
    count = len(streams)
    if how not in MULTIWAY_JOIN_TYPES:
        raise JoinTypeError(
            f"how={how!r} is for two streams; a join of {count} is one of "
            f"{', '.join(MULTIWAY_JOIN_TYPES)}. Join two of them first, or give how='left'."
        )
    if how == "left" and where is not None:
        raise PredicateError(
            f"where={where!r} with how='left' of {count} streams: it would not be clear which "
            "match it is a condition of. Filter the streams before the join, or the result after "
            "it, or join two streams at a time."
        )
    for stream in streams:
        if stream.closes:
            raise PunctuationError(
                f"stream {stream.name!r}: unique, arrival and punctuation are for joins of two "
                f"streams; a join of {count} keeps rows by their windows. Leave them out, or join "
                "two streams at a time."
            )


def _driver(streams: Sequence[StreamSpec], driver: object) -> str:
    policy = _one_of(driver, DRIVERS, argument="driver")
    untimed = [stream.name for stream in streams if stream.time is None]
    if policy == "timestamp" and untimed:
        raise StrategyError(
            f"driver='timestamp' takes rows in the order of their times, and {', '.join(untimed)} "
            "has none. Give its time column, or another driver."
        )
    return policy


def _check_where(where: object) -> None:
    example = "like 'views.price < clicks.bid'"
    if where is None:
        return
    if not isinstance(where, str):
        raise PredicateError(
            f"where={where!r} ({type(where).__name__}) is not a condition. Give SQL text {example}."
        )
    if not where.strip():
        raise PredicateError(f"where={where!r} is empty. Give SQL text {example}, or None.")


def _check_flag(value: object, *, argument: str) -> None:
    if not isinstance(value, bool):
        raise PlanError(f"{argument}={value!r} is neither True nor False.")


# --- what streams promise about their keys


def _check_promises(
    streams: Sequence[StreamSpec], key_types: Sequence[str], emit: bool, how: str
) -> None:
    for stream in streams:
        name = f"stream {stream.name!r}"
        _check_flag(stream.unique, argument=f"{name}: unique")
        if stream.arrival is not None and stream.arrival not in ARRIVALS:
            raise PunctuationError(
                f"{name}: arrival={stream.arrival!r} is none of 'clustered', 'ordered'."
                f"{did_you_mean(str(stream.arrival), ARRIVALS)}"
            )
        if stream.arrival == "ordered" and not exact_key(key_types):
            raise PunctuationError(
                f"{name}: arrival='ordered' needs a single key of an integral, date or timestamp "
                f"type; the key is of {', '.join(key_types)}. Give arrival='clustered'."
            )
        given = stream.punctuation
        if given is None:
            continue
        if not isinstance(given, Punctuation) or not isinstance(given.when, str):
            raise PunctuationError(
                f"{name}: punctuation={given!r} is no punctuation: give "
                "wm.Punctuation(when=\"kind = 'end'\"), a SQL condition that holds for them."
            )
        for bound in (given.low, given.high):
            if bound is None:
                continue
            resolve(stream, bound, argument=f"{name}: punctuation")
            if not exact_key(key_types):
                raise PunctuationError(
                    f"{name}: punctuation: a range needs a single key of an integral, date or "
                    f"timestamp type; the key is of {', '.join(key_types)}."
                )
    if emit and not any(stream.punctuation for stream in streams):
        raise PunctuationError(
            "emit_punctuations=True, but no stream has punctuations to hand on: give one "
            "punctuation=wm.Punctuation(when=...)."
        )
    if emit and how in ("semi", "anti"):
        raise PunctuationError(
            f"emit_punctuations=True with how={how!r}: a semi or anti join gives out rows of the "
            "first stream as they are. Use an inner or outer join."
        )


def _purge_after(streams: Sequence[StreamSpec], count: object) -> int | None:
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise PunctuationError(
            f"purge_after={count!r} must be a whole number of punctuations above 0: 1 purges at "
            "once, 100 after a hundred of them."
        )
    if not any(stream.closes for stream in streams):
        raise PunctuationError(
            f"purge_after={count!r}, but no stream says when its keys are over: give one a "
            "punctuation, an arrival, or unique=True."
        )
    return count


def _closed_by_promises(streams: Sequence[StreamSpec]) -> bool:
    """Does every stream say of its keys when they are over, so that rows of the others
    leave?"""
    return all(stream.closes for stream in streams)


# --- the keys


def _keys(
    streams: Sequence[StreamSpec], on: Keys | Mapping[str, Keys] | None
) -> tuple[tuple[str, ...], ...]:
    """The real names of each stream's key columns, aligned over the streams."""
    if on is None:
        raise PlanError("on: missing. Name the column(s) that must be equal, like on='ad_id'.")
    if isinstance(on, Mapping):
        per_stream = _by_stream(streams, on, argument="on")
    else:
        per_stream = [on for _ in streams]
    named = [_key_list(names, on) for names in per_stream]
    if len({len(names) for names in named}) > 1:
        counts = ", ".join(
            f"{len(names)} of {stream.name}" for stream, names in zip(streams, named, strict=True)
        )
        raise PlanError(
            f"on={on!r} names {counts}: give the same number of columns for every stream, in "
            "the order in which they are to be equal."
        )
    return tuple(
        _stream_keys(streams, stream, names, on)
        for stream, names in zip(streams, named, strict=True)
    )


def _key_list(names: object, on: object) -> list[str]:
    listed = [names] if isinstance(names, str) else names
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise PlanError(
            f"on={on!r}: {names!r} ({type(names).__name__}) is no column name. Give a name, a "
            "list of names, or a dict from every stream's name to its column(s)."
        )
    if not listed or not all(name.strip() for name in listed):
        raise PlanError(
            f"on={on!r} is empty or has an empty name. Name the column(s) that must be equal, "
            "like on='ad_id'."
        )
    return list(listed)


def _stream_keys(
    streams: Sequence[StreamSpec], stream: StreamSpec, names: Sequence[str], on: object
) -> tuple[str, ...]:
    keys: list[str] = []
    for name in names:
        try:
            key = resolve(stream, name, argument=f"on={on!r}").name
        except UnknownColumnError as error:
            if isinstance(on, Mapping):
                raise
            example = ", ".join(f"{other.name!r}: ..." for other in streams)
            raise UnknownColumnError(
                f"{error} If its name differs between the streams, give on={{{example}}}."
            ) from None
        if key in keys:
            raise PlanError(
                f"on={on!r} names the column {key!r} of the stream {stream.name!r} twice. "
                "Name it once; further equalities belong into `where`."
            )
        keys.append(key)
    return tuple(keys)


def _key_types(streams: Sequence[StreamSpec], keys: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The types in which the keys are compared."""
    common: list[str] = []
    for names in zip(*keys, strict=True):
        types: list[str] = []
        for stream, name in zip(streams, names, strict=True):
            types.append(stream.column(name).type)
            check_key_type(types[-1], column=f"{stream.name}.{name}")
        type = common_type(types)
        if type is None:
            given = ", ".join(
                f"{stream.name}.{name} is {own}"
                for stream, name, own in zip(streams, names, types, strict=True)
            )
            raise KeyTypeError(
                f"on: {given}; these types do not compare. Cast one of them before the join: "
                f"df.withColumn({names[-1]!r}, F.col({names[-1]!r}).cast({types[0]!r}))."
            )
        common.append(type)
    return tuple(common)


# --- the windows and what they bound


def _windows(streams: Sequence[StreamSpec], within: object) -> tuple[int | None, ...]:
    if within is None:
        return tuple(None for _ in streams)
    if isinstance(within, Mapping):
        given = _by_stream(streams, within, argument="within")
        windows = [
            durations.parse(value, argument=f"within[{stream.name!r}]")
            for stream, value in zip(streams, given, strict=True)
        ]
    else:
        windows = [durations.parse(within, argument="within")] * len(streams)
    for stream in streams:
        if stream.time is None:
            raise TimeColumnError(
                f"within={within!r} compares times, but the stream {stream.name!r} has none. "
                f"Give its time column: {_time_example(stream)}."
            )
    return tuple(windows)


def _check_may_be_unbounded(how: str, unbounded: bool) -> None:
    if how not in ("inner", "semi"):
        raise WindowError(
            f"within: missing, and how={how!r} on streams cannot do without it, not even with "
            "unbounded=True: a match could always still come, so the watermark can never prove "
            'that a row stays unmatched. Give within="1 hour", or as long as a match may take.'
        )
    if not unbounded:
        raise UnboundedStateError(
            "within: missing, so nothing would ever leave the state: every row would wait for "
            'a match for ever. Give within="1 hour", or as long as a match may take; '
            "if the streams really are small, unbounded=True."
        )


# --- how the state is held, and what it may take


def _index(streams: Sequence[StreamSpec], index: object) -> tuple[str, ...]:
    given = _by_stream(streams, index, argument="index") if isinstance(index, Mapping) else None
    values = given or [index] * len(streams)
    return tuple(_one_of(value, INDEXES, argument="index") for value in values)


def _one_of(value: object, known: Sequence[str], *, argument: str) -> str:
    if isinstance(value, str) and value in known:
        return value
    raise StrategyError(
        f"{argument}={value!r} is none of {', '.join(map(repr, known))}."
        f"{did_you_mean(str(value), known)}"
    )


def _budget(
    streams: Sequence[StreamSpec], budget: object, *, how: str, windowed: bool
) -> Budget | None:
    """The budget in bytes and rows a second, once it is one that the join can keep to."""
    if budget is None:
        return None
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget={budget!r} is no wm.Budget: give wm.Budget(memory='2 GB').")
    if budget.memory is None and budget.rate is None and budget.fanout is None:
        raise BudgetError(
            "budget: it limits nothing. Give memory='2 GB', rate=50_000, or fanout=10_000."
        )
    if budget.overflow not in OVERFLOWS:
        raise BudgetError(
            f"budget: overflow={budget.overflow!r} is none of "
            f"{', '.join(map(repr, OVERFLOWS))}.{did_you_mean(str(budget.overflow), OVERFLOWS)}"
        )
    if not streams[0].streaming:
        raise BudgetError("budget: it is for streams; a batch run takes what it needs.")
    _check_rate(streams, budget)
    _check_fanout(budget)
    if budget.overflow == "shed" and how not in ("inner", "semi"):
        raise BudgetError(
            f"budget: overflow='shed' with how={how!r} would call rows unmatched only because "
            "their match was shed. Give overflow='spill' or 'fail', or an inner or semi join."
        )
    limited = budget.memory is not None or budget.rate is not None
    if budget.overflow == "shed" and limited and not windowed:
        raise BudgetError(
            "budget: overflow='shed' needs windows: give within='1 hour', or overflow='spill'."
        )
    memory = budget.memory
    return replace(
        budget,
        memory=None if memory is None else sizes.parse(memory, argument="budget: memory"),
    )


def _check_rate(streams: Sequence[StreamSpec], budget: Budget) -> None:
    rate = budget.rate
    if rate is None:
        return
    number = isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0
    if not number and rate != "measured":
        raise BudgetError(
            f"budget: rate={rate!r} must be rows a second above 0, or 'measured': the rate at "
            "which the join finds itself able to work."
        )
    if budget.overflow != "shed":
        raise BudgetError(
            f"budget: rate={rate!r} with overflow={budget.overflow!r}: what is too fast can only "
            "be shed. Give overflow='shed', or leave out rate."
        )
    if len(streams) > 2:
        raise BudgetError(
            f"budget: rate={rate!r} is divided between two streams; {len(streams)} are given. "
            "Leave out rate: Spark's own maxFilesPerTrigger or maxOffsetsPerTrigger slow a source."
        )
    untimed = [stream.name for stream in streams if stream.time is None]
    if untimed:
        raise BudgetError(
            f"budget: rate={rate!r} needs to know how fast the streams are, by their times, and "
            f"{', '.join(untimed)} has none. Give its time column."
        )


def _check_fanout(budget: Budget) -> None:
    fanout = budget.fanout
    if fanout is None:
        return
    if isinstance(fanout, bool) or not isinstance(fanout, int) or fanout < 1:
        raise BudgetError(
            f"budget: fanout={fanout!r} must be a whole number of results above 0: as many as one "
            "new row may make."
        )
    if budget.overflow == "spill":
        raise BudgetError(
            f"budget: fanout={fanout!r} with overflow='spill': say what happens to a row that "
            "makes more results. Give overflow='shed' (the rest is left out) or 'fail'."
        )


def _check_provable(streams: Sequence[StreamSpec], how: str) -> None:
    """Without a window, only a punctuation or an order tells of a key that never came that
    it will not."""
    marks = preserved_by(how, len(streams))
    for stream, other, preserved in zip(streams, reversed(streams), marks, strict=True):
        if preserved and other.punctuation is None and other.arrival != "ordered":
            raise WindowError(
                f"within: missing, and how={how!r} has to know which rows of {stream.name} match "
                f"nothing. What {other.name} promises tells when a key is over that has come, not "
                "that one will never come. Give within='1 hour', or punctuations or "
                f"arrival='ordered' of {other.name}."
            )


def _by_stream(
    streams: Sequence[StreamSpec], given: Mapping[str, Value], *, argument: str
) -> list[Value]:
    """The dict's values in the order of the streams, once it names each of them exactly."""
    names = [stream.name for stream in streams]
    for name in given:
        if name not in names:
            raise StreamNameError(
                f"{argument}={given!r}: {name!r} is not one of the streams "
                f"{', '.join(names)}.{did_you_mean(str(name), names)}"
            )
    missing = [name for name in names if name not in given]
    if missing:
        raise StreamNameError(
            f"{argument}={given!r} lacks the stream(s) {', '.join(missing)}: a dict must name "
            "every stream."
        )
    return [given[name] for name in names]
