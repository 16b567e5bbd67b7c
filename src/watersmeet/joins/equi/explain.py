"""What a planned equality join does.

The one formula behind it: a row of stream i with time t leaves the state when
``watermark >= t + windows[i]``, where ``watermark = min over the streams of (greatest time -
delay)``. Streams that advance together therefore store ``rate * (window + greatest delay)`` rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from watersmeet import durations, sizes
from watersmeet.joins.equi.policy import DRIVER_FOR, EquiPolicy
from watersmeet.joins.equi.promises.explain import closing, promises
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.plan.explain.shared import (
    crowded,
    described,
    event_time,
    expected_rows,
    fan_out,
    idle_goal,
    in_words,
    keys,
    reading,
    time_of,
    waiting,
    watermark,
    window_terms,
)
from watersmeet.plan.explain.tree import Node
from watersmeet.spec.windowed import GOALS

if TYPE_CHECKING:
    from watersmeet.joins.equi.plan import EquiPlan


def branches(plan: EquiPlan) -> list[Node]:
    """Which rows match, which are stored, what removes them, and when results are emitted."""
    spec, policy = plan.spec, plan.policy
    return [
        _condition(spec),
        *reading(plan.reading),
        keys(spec),
        *(_stream(spec, position) for position in range(len(spec.streams))),
        *watermark(spec),
        *_unmatched(spec),
        *_driver(spec, policy),
        *idle_goal(spec, _why_idle(spec, policy)),
        _index(spec, policy),
        *_budget(spec, policy),
        *promises(spec, policy),
        Node(
            f"shards: {policy.shards}, by a hash of the key",
            crowded(spec, policy.shards, policy.cores),
        ),
        event_time(spec),
    ]


def _condition(spec: EquiSpec) -> Node:
    terms = [
        " = ".join(
            f"{stream.name}.{name}" for stream, name in zip(spec.streams, names, strict=True)
        )
        for names in zip(*spec.keys, strict=True)
    ]
    terms += window_terms(spec)
    if spec.where is not None:
        terms.append(f"({spec.where})")
    nodes = [Node(term if i == 0 else f"AND {term}") for i, term in enumerate(terms)]
    return Node("condition", [*in_words(spec), *nodes])


def _stream(spec: EquiSpec, position: int) -> Node:
    stream, window = spec.streams[position], spec.windows[position]
    others = " or ".join(
        other.name
        for other in spec.streams
        if other is not stream and (not spec.how.star or spec.streams[0] in (stream, other))
    )
    branches: list[Node] = []
    if window is None:
        branches.append(Node(f"window: none; a row waits for any row of {others}"))
    else:
        branches.append(
            Node(
                f"window: a row of {stream.name} waits {durations.format(window)} "
                f"for a later row of {others}"
            )
        )
    if spec.streaming:
        branches.append(Node(f"purge: {_purge(spec, position)}"))
        branches.append(Node(f"expected state: {_expected_state(spec, position)}"))
    else:
        branches.append(Node("state: none is kept after the run"))
    return Node(f"stream {stream.name}: {described(spec, stream)}", branches)


def _purge(spec: EquiSpec, position: int) -> str:
    """When a row of the stream leaves the state."""
    name, window = spec.streams[position].name, spec.windows[position]
    ways = []
    if window is not None:
        ways.append(f"when the watermark reaches {_deadline(spec, position, spec.kept)}")
    if spec.how.useless_once_matched(position):
        ways.append("at its first match")
    ways += closing(spec, position)
    if not ways:
        return "nothing, ever"
    if window is None and len(ways) == 1 and ways[0] == "at its first match":
        return f"a row of {name} leaves at its first match only"
    return "a row leaves " + ", or ".join(ways)


def _expected_state(spec: EquiSpec, position: int) -> str:
    stream, window = spec.streams[position], spec.kept[position]
    if window is None and closing(spec, position):
        other = spec.streams[1 - position].name
        never = f", and those whose keys never come in {other}" if position in spec.lasting else ""
        return f"the rows whose keys are not closed yet{never}"
    if window is None:
        return "grows without bound"
    at_most = "at most " if spec.how.useless_once_matched(position) else ""
    return at_most + expected_rows(spec, stream, window)


def _unmatched(spec: EquiSpec) -> list[Node]:
    """When the rows that matched nothing are emitted."""
    nodes: list[Node] = []
    for position, preserved in enumerate(spec.preserved):
        if not preserved:
            continue
        stream = spec.streams[position]
        others = " and ".join(other.name for other in spec.streams if other is not stream)
        ways = closing(spec, position)
        if spec.windows[position] is not None:
            ways.insert(0, f"when the watermark reaches {_deadline(spec, position)}")
        when = ", or ".join(ways) if spec.streaming else "at the end of the run"
        nulls = "" if not spec.how.combines else f", with nulls for {others}"
        if len(spec.streams) > 2:
            nulls = ", once for each combination of what they match, with nulls for the rest"
            nodes.append(
                Node(f"rows of {stream.name} that lack a match of {others}: emitted {when}{nulls}")
            )
        else:
            nodes.append(Node(f"unmatched rows of {stream.name}: emitted {when}{nulls}"))
    return nodes + waiting(spec) if nodes else []


_DRIVERS = {
    "timestamp": "in short runs, in the order of their times",
    "round-robin": "in short runs, one of each stream in turn",
    "consumption-rate": "stream by stream, the one that brings most rows first",
    "initial-output-size": "stream by stream, the one whose new rows should yield most results "
    "first",
    "output-rate": "stream by stream, the one of which a row should yield most results first",
}


def _driver(spec: EquiSpec, policy: EquiPolicy) -> list[Node]:
    """In which order new rows are processed, and probe the other windows."""
    order = policy.schedule.streams
    if order not in _DRIVERS:
        return []
    why = f"goal {spec.goal}" if spec.tuning.driver == "auto" else "as asked for"
    nodes = [Node(f"new rows are processed {_DRIVERS[order]} ({order}, {why})")]
    if len(spec.streams) > 2:
        known = all(stream.rows_per_second is not None for stream in spec.streams)
        basis = "by the declared rates and keys" if known else "in the order of the streams"
        for stream, probed in zip(spec.streams, policy.probe_orders, strict=True):
            names = ", then ".join(spec.streams[other].name for other in probed)
            nodes.append(Node(f"new rows of {stream.name} probe {names}"))
        nodes.append(
            Node(f"that is {basis}; later the most selective window is probed first, as measured")
        )
    return [Node("drivers", nodes)]


def _why_idle(spec: EquiSpec, policy: EquiPolicy) -> str | None:
    """Why the goal makes no difference to how the join runs; None, if it does."""
    if len(spec.streams) > 2:
        if spec.tuning.driver != "auto":
            return "the driver was asked for"
        same = DRIVER_FOR[spec.goal] == DRIVER_FOR[GOALS[0]]
        return f"many streams are joined as with {GOALS[0]!r}" if same else None
    closes = any(stream.closes for stream in spec.streams)
    if policy.in_stages or (closes and spec.tuning.purge_after is None):
        return None
    if closes and spec.goal == "early" and any(stream.punctuation for stream in spec.streams):
        return None
    if closes:
        return "purge_after was asked for"
    spills = ", or a memory budget that spills" if spec.goal == "early" else ""
    return f"it takes streams that promise something about their keys{spills}"


_STORED = {
    True: "with an index: key-sorted segments, probed by binary search",
    False: "plain: segments without an index, scanned",
}


def _index(spec: EquiSpec, policy: EquiPolicy) -> Node:
    """How each window is stored, and the numbers behind it."""
    nodes = []
    for stream, index in zip(spec.streams, policy.index, strict=True):
        first = "with an index" if index.indexed else "plain"
        if not spec.streaming:
            how = _STORED[index.indexed]
        elif not index.adaptive:
            how = f"{_STORED[index.indexed]} (as asked for)"
        elif not index.why:
            how = f"{first} at first; then as the measured rates suggest"
        else:
            how = f"{first} at first: {index.why}; then as the measured rates suggest"
        nodes.append(Node(f"{stream.name} is stored {how}"))
    when = {
        "active": "expired rows leave whenever the watermark moves",
        "lazy": "expired rows leave when their window is probed, or when they are most of it",
    }
    if spec.streaming:
        nodes.append(Node(when[policy.invalidation]))
    return Node("index", nodes)


def _budget(spec: EquiSpec, policy: EquiPolicy) -> list[Node]:
    budget = spec.budget
    if budget is None:
        return []
    nodes = []
    if budget.memory is not None:
        memory = int(budget.memory)
        what = {
            "spill": "what does not fit is read from disk when it is probed; nothing is lost",
            "shed": "windows shrink to fit, the faster stream's first; results are lost",
            "fail": "the query stops before it takes more",
        }[budget.overflow]
        if policy.in_stages:
            later = "; what is on disk is probed when no rows come, or the watermark requires it"
            what = f"answers from memory first{later if spec.timers else ', then from disk'}"
            what += "; nothing is lost"
        nodes.append(Node(f"memory: {sizes.format(memory)}, {_divided(policy)}: {what}"))
        if policy.too_little_memory is not None:
            nodes.append(Node(policy.too_little_memory.removeprefix("budget: ")))
    nodes += fan_out(spec, "results of one new row")
    if budget.rate is not None:
        rate = budget.rate if isinstance(budget.rate, str) else f"{budget.rate:,g} rows/s"
        nodes.append(
            Node(
                f"rate: {rate}: if more rows come, some are shed; each stream gets half of the "
                "rate, or its own rate where that is lower; all shards keep the same share of a "
                "stream's rows, so skew does not matter; results are lost"
            )
        )
    return [Node("budget", nodes)]


def _divided(policy: EquiPolicy) -> str:
    """How shards share the memory."""
    if policy.budget is not None and policy.budget.bounds_state:
        return "of which each shard has about its part of the rows, also where keys are skewed"
    each, steps = sizes.format(policy.memory or 0), policy.side_by_side
    return f"{each} for {f'each of {steps} shards' if steps > 1 else 'the shard'} at work at a time"


def _deadline(spec: EquiSpec, position: int, lengths: Sequence[int | None] | None = None) -> str:
    window = (lengths or spec.windows)[position]
    assert window is not None, "a row without a window has no deadline"
    return f"{time_of(spec.streams[position])} + {durations.format(window)}"
