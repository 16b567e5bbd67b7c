"""Lines about joins of every family: streams and their times, windows, the watermark."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from watersmeet import durations
from watersmeet.plan.crowding import crowding
from watersmeet.plan.event_time import suggested, unmatched_without_time
from watersmeet.plan.explain.tree import Node
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.output import EVENT_TIME
from watersmeet.spec.stream import StreamSpec
from watersmeet.spec.windowed import GOALS, GREATEST, WindowedSpec

_SECOND = 1_000_000
#: Where no rate was declared, numbers are given for so many rows a second.
SAMPLE_RATE = 1_000.0


def described(spec: JoinSpec, stream: StreamSpec) -> str:
    count = len(stream.columns)
    text = f"{count} column{'' if count == 1 else 's'}"
    if stream.time is None:
        return f"{text}, no time"
    text += f", time {stream.time}"
    if not spec.streaming or stream.delay is None:
        return text
    delay = durations.format(stream.delay)
    return f"{text}, " + (
        f"its own watermark (delay {delay})" if stream.watermarked else f"delay {delay}"
    )


def watermark(spec: JoinSpec) -> list[Node]:
    timed = [stream for stream in spec.streams if stream.time is not None]
    if not spec.streaming:
        return []
    if not timed:
        return [Node("watermark: none, as no stream has a time")]
    terms = ", ".join(
        f"greatest {time_of(stream)} - {durations.format(stream.delay or 0)}" for stream in timed
    )
    value = f"the least of ({terms})" if len(timed) > 1 else terms
    return [
        Node(
            f"watermark: {value}",
            [Node("a row at or behind it when it arrives is late: it is dropped and counted")],
        )
    ]


def waiting(spec: WindowedSpec) -> list[Node]:
    """What becomes of the last unmatched rows."""
    if not spec.timers:
        return []
    return [
        Node(
            "when the input ends (availableNow, a pause), the last of these wait in the state "
            "until later rows of every stream move the watermark; `unproven` in the metrics "
            "counts them",
            _flush(spec),
        )
    ]


def _flush(spec: WindowedSpec) -> list[Node]:
    """How the last unmatched rows of a finite input are made to leave."""
    windows = [window for window in spec.windows if window is not None]
    if not windows or not all(stream.time for stream in spec.streams):
        return []
    later = durations.format(max(windows) + spec.delay)
    behind = []
    if spec.hold:
        held = durations.format(spec.hold + spec.delay)
        behind = [Node(f"windows over `{EVENT_TIME}` need one that is {held} later than their end")]
    return [
        Node(
            f"to get them, end every stream with a row that is more than {later} later than all "
            "others, with a key or values that match nothing; or join batch DataFrames",
            behind,
        )
    ]


def _for_others(spec: WindowedSpec) -> str:
    further = durations.format(spec.further)
    return f", {further} of it for a join that follows" if spec.further else ""


def event_time(spec: WindowedSpec) -> Node:
    if spec.carries_event_time:
        use = (
            "works with windowed aggregation in the same query"
            if spec.streaming
            else "a plain column in a batch"
        )
        whose = "the greatest of the times"
        if spec.event_time not in (None, GREATEST):
            whose = f"the time of {spec.event_time}"
        nodes = []
        if spec.hold and spec.streaming:
            held = durations.format(spec.hold)
            nodes.append(
                Node(
                    f"Spark's watermark is held back by {held}{_for_others(spec)}: what follows "
                    "waits that much longer; the join does not"
                )
            )
        lacking = unmatched_without_time(spec)
        if lacking is not None:
            nodes.append(Node(f"WARNING: {lacking}"))
        return Node(f"event time: carried on as `{EVENT_TIME}`, {whose}; {use}", nodes)
    if spec.how.combines and not spec.how.emits_unmatched:
        untimed = ", ".join(stream.name for stream in spec.streams if stream.time is None)
        return Node(f"event time: not carried on, as there is no time in: {untimed}")
    if not spec.streaming:
        return Node(f"event time: no `{EVENT_TIME}`; event_time='{suggested(spec)}' adds it")
    why = (
        "a row may find its first match long after its own time"
        if spec.how.emits_first_match
        else "an unmatched row is emitted only when the watermark has passed its time"
    )
    return Node(
        f"event time: not carried on: {why}; event_time='{suggested(spec)}' carries it on, "
        "and holds Spark's watermark back"
    )


def unbounded(spec: WindowedSpec) -> list[str]:
    """A warning, if nothing bounds the state."""
    if not spec.unbounded:
        return []
    first, *others = (stream.name for stream in spec.streams)
    every = " and of ".join(others)
    if spec.how.emits_first_match:
        grows = f"every row of {first} that has not matched, and every row of {every},"
    else:
        grows = f"every row of {first} and of {every}"
    return [f"WARNING: unbounded state: {grows} is kept for ever; nothing removes it."]


def crowded(spec: JoinSpec, shards: int, cores: int | None) -> list[Node]:
    """A warning, if there are far too many shards."""
    found = crowding(shards, cores) if spec.streaming else None
    return [] if found is None else [Node(f"WARNING: {found}")]


def time_of(stream: StreamSpec) -> str:
    assert stream.time is not None, f"the stream {stream.name} has no time"
    return f"{stream.name}.{stream.time}"


def expected_rows(spec: JoinSpec, stream: StreamSpec, window: int) -> str:
    """How many rows of a stream are stored, if the streams advance together and a row is kept for
    its window."""
    rate = SAMPLE_RATE if stream.rows_per_second is None else stream.rows_per_second
    rows = round(rate * (window + spec.delay) / _SECOND)
    kept = f"({durations.format(window)} + {durations.format(spec.delay)})"
    if stream.rows_per_second is None:
        return f"{rows:,} rows for every {rate:,g} rows/s (rows/s x {kept})"
    return f"{rows:,} rows ({rate:,g} rows/s x {kept})"


def window_terms(spec: WindowedSpec) -> list[str]:
    """The windows as conditions on pairs of streams.

    T - time(i) <= W(i), with T the greatest time, means time(j) - time(i) <= W(i) for every j. In a
    left join, each stream is matched with the first one alone."""
    terms = []
    for early, late in permutations(range(len(spec.streams)), 2):
        window = spec.windows[early]
        if window is not None and (not spec.how.star or 0 in (early, late)):
            times = f"{time_of(spec.streams[late])} - {time_of(spec.streams[early])}"
            terms.append(f"{times} <= {durations.format(window)}")
    return terms


def in_words(spec: WindowedSpec) -> list[Node]:
    """Windows of two streams as a sentence, as seen from a row of the first one. (It is easy to
    confuse the two directions.)"""
    if len(spec.streams) > 2:
        return []
    (first, other), (after, before) = spec.streams, spec.windows
    if after is None or before is None:
        return []
    return [
        Node(
            f"a row of {first.name} matches rows of {other.name} from "
            f"{durations.format(before)} before it to {durations.format(after)} after it"
        )
    ]


def keys(spec: JoinSpec) -> Node:
    """Which columns must be equal, and in which type they are compared."""
    return Node(
        "keys (a null matches nothing)",
        [
            Node(_key(spec, names, common))
            for names, common in zip(zip(*spec.keys, strict=True), spec.key_types, strict=True)
        ],
    )


def _key(spec: JoinSpec, names: Sequence[str], common: str) -> str:
    own = [
        (f"{stream.name}.{name}", stream.column(name).type)
        for stream, name in zip(spec.streams, names, strict=True)
    ]
    if all(type == common for _, type in own):
        return f"{names[0]}: {common}"
    return ", ".join(f"{column} ({type})" for column, type in own) + f": compared as {common}"


def idle_goal(spec: WindowedSpec, why: str | None) -> list[Node]:
    """What is said of a goal that changes nothing, and ``why`` it does not; None: it does."""
    if why is None or spec.goal == GOALS[0]:
        return []
    return [Node(f"goal {spec.goal!r} changes nothing here: {why}")]


def fan_out(spec: WindowedSpec, limited: str) -> list[Node]:
    """What a budget's ``fanout`` means; ``limited`` says what is counted."""
    budget = spec.budget
    if budget is None or budget.fanout is None:
        return []
    if not spec.how.combines:
        return [Node(f"fan-out: no limit, as a row comes once at most ({spec.how} join)")]
    fate = "the query stops" if budget.overflow == "fail" else "the rest is left out"
    return [Node(f"fan-out: at most {budget.fanout:,} {limited}; beyond that, {fate}")]


def reading(lines: Sequence[str]) -> list[Node]:
    """Which parts of the condition were recognised as a key or as windows, and which are
    evaluated. If all are evaluated, nothing is said."""
    return [Node("read from where", [Node(line) for line in lines])] if lines else []
