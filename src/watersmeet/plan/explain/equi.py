"""What a planned join does, as a tree to read.

The one formula behind it: a row of stream i with time t leaves the state when
``watermark >= t + windows[i]``, where ``watermark = min over the streams of (greatest time -
delay)``. Streams that advance together therefore hold ``rate * (window + greatest delay)`` rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations

from watersmeet import durations, sizes
from watersmeet.cost.engine import Weights, keeping_indexed, keeping_plain
from watersmeet.operators.equi.layout import driver_of, expected_of, first_sequences, purge_after
from watersmeet.operators.equi.limits.index_choice import described
from watersmeet.spec import EVENT_TIME, JoinSpec, StreamSpec

_SECOND = 1_000_000
_SAMPLE_RATE = 1_000.0


@dataclass(frozen=True)
class _Node:
    text: str
    children: list[_Node] = field(default_factory=list)


def explain(
    spec: JoinSpec, *, shards: int, weights: Weights | None = None, notes: Sequence[str] = ()
) -> str:
    """The plan as text: what matches, what is kept, what purges it, what comes out when.

    ``shards`` is the number of parts into which the runtime hashes the keys; ``weights`` are
    the machine's, for the numbers behind the choice of an index; ``notes`` are further lines
    of the caller's.
    """
    names = " and ".join(stream.name for stream in spec.streams)
    inputs = "streaming" if spec.streaming else "batch: one run, no watermark"
    branches = [
        _condition(spec),
        _keys(spec),
        *(_stream(spec, position) for position in range(len(spec.streams))),
        *_watermark(spec),
        *_unmatched(spec),
        *_driver(spec),
        _index(spec, shards, weights),
        *_budget(spec, shards),
        *_punctuations(spec),
        _Node(f"shards: {shards}, by a hash of the key"),
        _event_time(spec),
        *(_Node(f"note: {note}") for note in notes),
    ]
    lines = _drawn(_Node(f"{spec.how} join of {names} ({inputs})", branches))
    return "\n".join(_warning(spec) + lines)


def _drawn(node: _Node) -> list[str]:
    lines = [node.text]
    for child in node.children:
        last = child is node.children[-1]
        first, *rest = _drawn(child)
        lines.append(("└─ " if last else "├─ ") + first)
        lines.extend(("   " if last else "│  ") + line for line in rest)
    return lines


def _warning(spec: JoinSpec) -> list[str]:
    if not spec.unbounded:
        return []
    first, *others = (stream.name for stream in spec.streams)
    every = " and of ".join(others)
    if spec.how == "semi":
        grows = f"every row of {first} that has not matched, and every row of {every},"
    else:
        grows = f"every row of {first} and of {every}"
    return [f"WARNING: unbounded state: {grows} is kept for ever; nothing purges it."]


def _condition(spec: JoinSpec) -> _Node:
    terms = [
        " = ".join(
            f"{stream.name}.{name}" for stream, name in zip(spec.streams, names, strict=True)
        )
        for names in zip(*spec.keys, strict=True)
    ]
    # T - time(i) <= W(i) with T the greatest time is, pair by pair, time(j) - time(i) <= W(i).
    # In a left join, each stream is matched with the first one alone.
    for early, late in permutations(range(len(spec.streams)), 2):
        window = spec.windows[early]
        if window is not None and (spec.how != "left" or 0 in (early, late)):
            times = f"{_time(spec.streams[late])} - {_time(spec.streams[early])}"
            terms.append(f"{times} <= {durations.format(window)}")
    if spec.where is not None:
        terms.append(f"({spec.where})")
    return _Node(
        "condition", [_Node(term if i == 0 else f"AND {term}") for i, term in enumerate(terms)]
    )


def _keys(spec: JoinSpec) -> _Node:
    return _Node(
        "keys; a null matches nothing",
        [
            _Node(_key(spec, names, common))
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


def _stream(spec: JoinSpec, position: int) -> _Node:
    stream, window = spec.streams[position], spec.windows[position]
    others = " or ".join(
        other.name
        for other in spec.streams
        if other is not stream and (spec.how != "left" or spec.streams[0] in (stream, other))
    )
    branches: list[_Node] = []
    if window is None:
        branches.append(_Node(f"window: none; a row waits for any row of {others}"))
    else:
        branches.append(
            _Node(
                f"window: a row of {stream.name} waits {durations.format(window)} "
                f"for a later row of {others}"
            )
        )
    if spec.streaming:
        branches.append(_Node(f"purge: {_purge(spec, position)}"))
        branches.append(_Node(f"expected state: {_expected_state(spec, position)}"))
    else:
        branches.append(_Node("state: none is kept after the run"))
    return _Node(f"stream {stream.name}: {_described(spec, stream)}", branches)


def _described(spec: JoinSpec, stream: StreamSpec) -> str:
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


def _purge(spec: JoinSpec, position: int) -> str:
    """What lets a row of the stream leave the state."""
    name, window = spec.streams[position].name, spec.windows[position]
    ways = []
    if window is not None:
        ways.append(f"when the watermark reaches {_deadline(spec, position, spec.kept)}")
    if spec.how in ("semi", "anti") and position == 0:
        ways.append("at its first match")
    ways += _closed(spec, position)
    if not ways:
        return "nothing, ever"
    if window is None and len(ways) == 1 and ways[0] == "at its first match":
        return f"a row of {name} leaves at its first match only"
    return "a row leaves " + ", or ".join(ways)


def _closed(spec: JoinSpec, position: int) -> list[str]:
    """What the other of two streams says about its keys."""
    other = next(stream for i, stream in enumerate(spec.streams) if i != position)
    ways: list[str] = []
    if other.unique:
        ways.append(f"when it has met its row of {other.name}, whose keys are unique")
    if other.arrival is not None:
        never = " (one that never comes there, stays)" if other.arrival == "clustered" else ""
        ways.append(f"when {other.name}, which is {other.arrival}, is past its key{never}")
    if other.punctuation is not None:
        ways.append(f"when a punctuation of {other.name} closes its key")
    return ways


def _expected_state(spec: JoinSpec, position: int) -> str:
    stream, window = spec.streams[position], spec.kept[position]
    if window is None and _closed(spec, position):
        return "the rows whose keys are not over yet"
    if window is None:
        return "grows without end"
    delay = max(stream.delay or 0 for stream in spec.streams)
    rate = _SAMPLE_RATE if stream.rate is None else stream.rate
    rows = round(rate * (window + delay) / _SECOND)
    at_most = "at most " if spec.how in ("semi", "anti") and position == 0 else ""
    held = f"({durations.format(window)} + {durations.format(delay)})"
    if stream.rate is None:
        return f"{at_most}{rows:,} rows for every {rate:,g} rows/s (rows/s x {held})"
    return f"{at_most}{rows:,} rows ({rate:,g} rows/s x {held})"


def _watermark(spec: JoinSpec) -> list[_Node]:
    timed = [stream for stream in spec.streams if stream.time is not None]
    if not spec.streaming:
        return []
    if not timed:
        return [_Node("watermark: none, as no stream has a time")]
    terms = ", ".join(
        f"greatest {_time(stream)} - {durations.format(stream.delay or 0)}" for stream in timed
    )
    value = f"the least of ({terms})" if len(timed) > 1 else terms
    return [
        _Node(f"watermark: {value}", [_Node("a row behind it on arrival is dropped and counted")])
    ]


def _unmatched(spec: JoinSpec) -> list[_Node]:
    """When the rows come out that matched nothing."""
    nodes: list[_Node] = []
    for position, preserved in enumerate(spec.preserved):
        if not preserved:
            continue
        stream = spec.streams[position]
        others = " and ".join(other.name for other in spec.streams if other is not stream)
        ways = _closed(spec, position)
        if spec.windows[position] is not None:
            ways.insert(0, f"when the watermark reaches {_deadline(spec, position)}")
        when = ", or ".join(ways) if spec.streaming else "at the end of the run"
        nulls = "" if spec.how == "anti" else f", with nulls for {others}"
        if len(spec.streams) > 2:
            nulls = ", once for each combination of what they match, with nulls for the rest"
            nodes.append(
                _Node(
                    f"rows of {stream.name} that lack a match of {others}: come out {when}{nulls}"
                )
            )
        else:
            nodes.append(_Node(f"unmatched rows of {stream.name}: come out {when}{nulls}"))
    return nodes


_DRIVERS = {
    "timestamp": "in short runs, in the order of their times",
    "round-robin": "in short runs, a run of each stream in turn",
    "consumption-rate": "first of the stream that brings most rows for the results there are",
    "initial-output-size": "first of the stream whose new rows are expected to make most results",
    "output-rate": "first of the stream of which a new row is expected to make most results",
}


def _driver(spec: JoinSpec) -> list[_Node]:
    """In which order new rows are taken, and look into the other windows."""
    policy = driver_of(spec)
    if policy not in _DRIVERS:
        return []
    why = f"goal {spec.goal}" if spec.driver == "auto" else "as asked for"
    nodes = [_Node(f"new rows are taken {_DRIVERS[policy]} ({policy}, {why})")]
    if len(spec.streams) > 2:
        known = all(stream.rate is not None for stream in spec.streams)
        basis = "by the declared rates and keys" if known else "in the order of the streams"
        for driver, order in enumerate(first_sequences(spec)):
            looks = ", then ".join(spec.streams[stream].name for stream in order)
            nodes.append(_Node(f"those of {spec.streams[driver].name} look into {looks}"))
        nodes.append(
            _Node(
                f"that is {basis}; later, first into the window that fewest match in, as measured"
            )
        )
    return [_Node("drivers", nodes)]


_HELD = {
    "always": "with an index: key-sorted segments, probed by binary search",
    "never": "plain: segments without an index, scanned",
}


def _index(spec: JoinSpec, shards: int, weights: Weights | None) -> _Node:
    """How each window is held, and the numbers behind it."""
    expected = expected_of(spec, shards)
    nodes = []
    for stream, index, direction in zip(spec.streams, spec.index, expected, strict=True):
        if not spec.streaming:
            held = _HELD["never" if index == "never" else "always"]
        elif index != "auto":
            held = f"{_HELD[index]} (as asked for)"
        elif direction is None or weights is None:
            held = "with an index at first; then as the measured rates say"
        else:
            indexed, plain = keeping_indexed(direction, weights), keeping_plain(direction, weights)
            first = "with an index" if indexed <= plain else "plain"
            held = (
                f"{first} at first: {indexed / 1e6:.2f} ms a micro-batch with an index, "
                f"{plain / 1e6:.2f} ms plain, in each shard, for {described(direction)} "
                "(declared rates, micro-batches of a second); then as the measured rates say"
            )
        nodes.append(_Node(f"{stream.name} is held {held}"))
    when = {
        "active": "expired rows leave whenever the watermark moves",
        "lazy": "expired rows leave when their window is probed, or are the most of it",
    }
    if spec.streaming:
        nodes.append(_Node(when[spec.invalidation]))
    return _Node("index", nodes)


def _budget(spec: JoinSpec, shards: int) -> list[_Node]:
    budget = spec.budget
    if budget is None:
        return []
    nodes = []
    if budget.memory is not None:
        memory = int(budget.memory)
        what = {
            "spill": "what does not fit is read from disk when it is probed; nothing is lost",
            "shed": "windows shrink to fit, the faster stream's first; results are lost",
            "fail": "the query stops before it is passed",
        }[budget.overflow]
        if spec.in_stages:
            later = "; what is on disk is probed when no rows come, or the watermark asks for it"
            what = f"answers from memory first{later if spec.timers else ', then from disk'}"
            what += "; nothing is lost"
        each = f"{sizes.format(memory)}, {sizes.format(memory / shards)} for each shard"
        nodes.append(_Node(f"memory: {each}: {what}"))
    if budget.fanout is not None:
        fate = "the query stops" if budget.overflow == "fail" else "the rest is left out"
        nodes.append(_Node(f"fan-out: {budget.fanout:,} results of one new row; of more, {fate}"))
    if budget.rate is not None:
        rate = budget.rate if isinstance(budget.rate, str) else f"{budget.rate:,g} rows/s"
        nodes.append(
            _Node(
                f"rate: {rate}: of more, rows are shed, such that each stream gets half of it "
                "or its own rate where that is lower; results are lost"
            )
        )
    return [_Node("budget", nodes)]


def _punctuations(spec: JoinSpec) -> list[_Node]:
    if not any(stream.closes for stream in spec.streams):
        return []
    count = purge_after(spec)
    purge = "at once, after every punctuation"
    if count > 1:
        purge = f"after {count} punctuations, or when no rows come"
    elif spec.goal == "early":
        purge += ", and before other rows are taken"
    fate = {
        "fail": "stops the query",
        "drop": "is dropped and counted",
        "keep": "is kept",
    }[spec.violations]
    nodes = [
        _Node(f"rows whose key is over are purged {purge}; new ones are not stored"),
        _Node(f"a row that its stream had promised not to bring {fate}"),
    ]
    if spec.emit_punctuations:
        nodes.append(_Node("punctuations are handed on when all results they cover have left"))
    return [_Node("promises", nodes)]


def _event_time(spec: JoinSpec) -> _Node:
    if spec.carries_event_time:
        use = (
            "works with windowed aggregation in the same query"
            if spec.streaming
            else "a plain column in a batch"
        )
        return _Node(f"event time: carried on as `{EVENT_TIME}`, the greatest of the times; {use}")
    if not spec.streaming:
        return _Node(f"event time: no `{EVENT_TIME}`; only inner joins of timed inputs have it")
    if spec.how == "inner":
        untimed = ", ".join(stream.name for stream in spec.streams if stream.time is None)
        return _Node(f"event time: not carried on, as there is no time in: {untimed}")
    why = (
        "a row may meet its first match long after its own time"
        if spec.how == "semi"
        else "an unmatched row comes out only when the watermark has passed its time"
    )
    return _Node(f"event time: not carried on: {why}, and would count as late from then on")


def _deadline(spec: JoinSpec, position: int, lengths: Sequence[int | None] | None = None) -> str:
    window = (lengths or spec.windows)[position]
    assert window is not None, "a row without a window has no deadline"
    return f"{_time(spec.streams[position])} + {durations.format(window)}"


def _time(stream: StreamSpec) -> str:
    assert stream.time is not None, f"the stream {stream.name} has no time"
    return f"{stream.name}.{stream.time}"
