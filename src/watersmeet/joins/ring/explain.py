"""What a planned ring join does: which rows match, where they are stored, which streams meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watersmeet import durations, sizes
from watersmeet.cost.hop_order import UNKNOWN_SELECTIVITY
from watersmeet.joins.ring.policy import UNKNOWN_RATE, RingPolicy
from watersmeet.joins.ring.spec import RingSpec
from watersmeet.plan.explain.shared import (
    crowded,
    described,
    event_time,
    expected_rows,
    fan_out,
    idle_goal,
    in_words,
    reading,
    time_of,
    waiting,
    watermark,
    window_terms,
)
from watersmeet.plan.explain.tree import Node

if TYPE_CHECKING:
    from watersmeet.joins.ring.plan import RingPlan


def branches(plan: RingPlan) -> list[Node]:
    """What matches, what is stored, what removes it, what is emitted when."""
    spec, policy = plan.spec, plan.policy
    return [
        _condition(plan),
        *reading(plan.reading),
        *(_stream(spec, position) for position in range(len(spec.streams))),
        *watermark(spec),
        *_unmatched(spec),
        _slices(plan),
        _hops(spec, policy),
        *idle_goal(spec, _why_idle(spec, policy)),
        *_budget(spec, policy),
        event_time(spec),
    ]


def _condition(plan: RingPlan) -> Node:
    spec, overlaps = plan.spec, plan.conditions.overlaps
    alone = dict(pair for n in range(len(spec.streams)) for pair in plan.conditions.row_filters(n))
    predicates = list(
        dict.fromkeys(
            each.text for n, each in enumerate(plan.conditions.predicates) if n not in alone
        )
    )
    terms = [*(f"({text})" for text in spec.conditions), *window_terms(spec)]
    nodes = in_words(spec)
    nodes += [Node(term if i == 0 else f"AND {term}") for i, term in enumerate(terms)]
    timed = any(window is not None for window in spec.windows)
    if alone:
        asked = [Node(predicate.text) for predicate in alone.values()]
        nodes.append(
            Node("rows for which these do not hold match nothing, and are not compared", asked)
        )
    if overlaps:
        by = [Node(overlap.text) for overlap in overlaps]
        times = "by time and by" if timed else "by"
        nodes.append(Node(f"stored rows are searched, in each slice, {times}", by))
    if predicates:
        pairs = (
            "what is found"
            if overlaps
            else f"all pairs{' that are close in time' if timed else ''}"
        )
        first = ", those first that reject most for their time" if len(predicates) > 1 else ""
        compared = [Node(text) for text in predicates]
        nodes.append(Node(f"{pairs}: compared by predicates{first}", compared))
    if plan.unconnected is not None:
        nodes.append(Node(f"WARNING: {plan.unconnected}"))
    return Node("condition (no key)", nodes)


def _stream(spec: RingSpec, position: int) -> Node:
    stream, window = spec.streams[position], spec.windows[position]
    others = " or ".join(other.name for other in spec.streams if other is not stream)
    at_most = "at most " if spec.how.useless_once_matched(position) else ""
    first = ", or at its first match" if at_most else ""
    if window is None:
        waits, purge = f"none; a row waits for any row of {others}", f"nothing{first}"
        expected = "grows without bound"
    else:
        length = durations.format(window)
        waits = f"a row of {stream.name} waits {length} for a later row of {others}"
        purge = f"a row leaves when the watermark reaches {time_of(stream)} + {length}{first}"
        expected = at_most + expected_rows(spec, stream, window)
    nodes = [Node(f"window: {waits}")]
    if spec.streaming:
        nodes += [Node(f"purge: {purge}"), Node(f"expected state: {expected}")]
    else:
        nodes.append(Node("state: none is kept after the run"))
    return Node(f"stream {stream.name}: {described(spec, stream)}", nodes)


def _unmatched(spec: RingSpec) -> list[Node]:
    for stream, window, preserved in zip(spec.streams, spec.windows, spec.preserved, strict=True):
        if preserved:
            when = "at the end of the run"
            if spec.streaming and window is not None:
                length = durations.format(window)
                when = f"when the watermark reaches {time_of(stream)} + {length}"
            return [Node(f"unmatched rows of {stream.name}: emitted {when}"), *waiting(spec)]
    return []


def _slices(plan: RingPlan) -> Node:
    """Where rows are stored."""
    spec, policy = plan.spec, plan.policy
    nodes = [
        Node("a row is stored in one slice, by its content and by count; it probes all slices"),
    ]
    if policy.reach > policy.slices:
        nodes.append(
            Node(f"rows are still sent to {policy.reach}, until what an earlier run stored expires")
        )
    return Node(
        f"slices: {policy.slices} of {policy.shards} shards",
        [*nodes, *_curve(spec, policy), *crowded(spec, policy.shards, policy.cores)],
    )


def _why_idle(spec: RingSpec, policy: RingPolicy) -> str | None:
    """Why the goal makes no difference to how the join runs; None, if it does."""
    if spec.goal != "early":
        return "a join without a key holds what its windows hold"
    expected = policy.expected_slices
    if spec.tuning.slices == "auto" or (expected and policy.slices == expected.best):
        return None
    if spec.tuning.slices is not None:
        return "the number of slices was asked for"
    return (
        "it chooses the number of slices, with slices='auto', or where all rates and costs are "
        "declared and another number is clearly better"
    )


def _curve(spec: RingSpec, policy: RingPolicy) -> list[Node]:
    """What the cost model says of other numbers of slices."""
    expected = policy.expected_slices
    if expected is None or policy.shards == 1:
        return []
    if spec.goal == "early":
        shown = [f"{slices}: {_seconds(latency)}" for slices, _, latency in expected.curve]
        what = "shortest latency"
    else:
        shown = [f"{slices}: {output:.2g}" for slices, output, _ in expected.curve]
        what = "output, as a multiple of one slice's"
    asked = (
        "" if policy.slices == expected.best else "; to take it, tuning=wm.Tuning(slices='auto')"
    )
    assumed = (
        f"assumed: {_seconds(expected.comparing)} to compare a pair, "
        f"{_seconds(expected.sending)} to send a row of {expected.row_bytes:,.0f} bytes to a slice"
    )
    nodes = [Node(f"{what}, by slices: {', '.join(shown)}"), Node(assumed)]
    if expected.bandwidth is not None:
        receives = sizes.format(round(expected.bandwidth))
        each = f"with {policy.slices} slices, each" if policy.slices > 1 else "the slice"
        nodes.append(Node(f"{each} never waits if it receives {receives} a second"))
    return [Node(f"by the cost model, {expected.best} for goal {spec.goal!r}{asked}", nodes)]


def _seconds(value: float) -> str:
    """A time that is an estimate.

    >>> _seconds(2.34e-8), _seconds(0.0123)
    ('23 ns', '12 ms')
    """
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if value < 1000 * size:
            return f"{value / size:.2g} {unit}"
    return f"{value:.2g} s"


def _hops(spec: RingSpec, policy: RingPolicy) -> Node:
    """Who is stored where, and who probes it."""
    names = [stream.name for stream in spec.streams]
    if len(names) == 2 and spec.marked is None:
        both = " and ".join(names)
        return Node("hops: 1", [Node(f"hop 1 stores {both}: new rows of each probe the other's")])
    nodes = []
    for place, stream in enumerate(policy.order):
        met = [names[other] for other in policy.order[:place]]
        probing = []
        for name in names:
            if name != names[stream]:
                others = " and ".join(other for other in met if other != name)
                probing.append(f"{name} with {others}" if others else name)
        what = f"hop {place + 1} stores {names[stream]}: probed by new rows of {', '.join(probing)}"
        made = (
            policy.partial[place] if spec.marked is None and place < len(policy.partial) else None
        )
        nodes.append(Node(what if made is None else f"{what}; makes {_number(made)} a second"))
    for driver, stream, pairs in policy.cross_products:
        nodes.append(
            Node(
                f"WARNING: cross product: new rows of {names[driver]} meet {names[stream]}, and no "
                f"condition connects them: {_number(pairs)} pairs a second"
            )
        )
    return Node(f"hops: {len(policy.order)}, {_basis(spec)}", nodes)


def _basis(spec: RingSpec) -> str:
    """What the order of the hops, and the numbers, come from."""
    if spec.marked is not None:
        marked = spec.streams[spec.marked].name
        return f"in the last one it is known which rows of {marked} have matched"
    chosen = "in the order that should make fewest partial results"
    if spec.tuning.order is not None:
        chosen = "in the order that was asked for"
    unknown = [stream.name for stream in spec.streams if stream.rows_per_second is None]
    rates = f"{UNKNOWN_RATE:,g} rows/s of {', '.join(unknown)} and " if unknown else ""
    return f"{chosen} (assumed: {rates}a condition that holds for {UNKNOWN_SELECTIVITY:.0%})"


def _budget(spec: RingSpec, policy: RingPolicy) -> list[Node]:
    budget = spec.budget
    if budget is None:
        return []
    nodes = []
    if budget.memory is not None:
        what = {
            "spill": "what does not fit is read from disk when it is probed; nothing is lost",
            "fail": "the query stops before it takes more",
        }[budget.overflow]
        each = sizes.format(policy.memory or 0)
        nodes.append(
            Node(f"memory: {sizes.format(int(budget.memory))}, {each} for each shard: {what}")
        )
    return [Node("budget", [*nodes, *fan_out(spec, "matches of one row in one slice")])]


def _number(value: float) -> str:
    """A number that is an estimate: two digits of it count."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 1 else f"{value:.2g}"
