"""The hops of a ring join: what comes into each, what it stores, and what it hands on.

**Rule.** New rows of the stream at place i of the order *drive*: they probe the slices of all other
streams, hop by hop. Of the streams before place i they see new and older rows, of the streams
behind it only older ones. So a combination is found by its new row of the last stream in the order,
and by no other: each combination is found once.

**Three and more streams.** Hop j stores the rows of stream ``order[j]``, and nothing else::

    new rows    hop 0: a           hop 1: b             hop 2: c
    a ────────► stored ─────────►  a × b (older) ────►  ab × c (older) ──► results
    b ────────► b × a (all) ────►  ab passes ────────►  ab × c (older) ──► results
       └──────► b passes ───────►  b is stored
    c ────────► c × a (all) ────►  ac × b (all) ─────►  abc passes ──────► results
       └──────► c passes ───────►  c passes ─────────►  c is stored

Rows that probe a hop go to all of its shards; rows that pass it, or are stored in it, go to one.

**Example.** Each stream has an older row (a0, b0, c0) and brings a new one (a1, b1, c1), and all
rows match::

    driver   finds
    a1       a1 b0 c0
    b1       a0 b1 c0, a1 b1 c0
    c1       a0 b0 c1, a1 b0 c1, a0 b1 c1, a1 b1 c1

These are seven of the eight combinations. The eighth, a0 b0 c0, was found before.

**Two streams** need no partial results: one hop holds the slices of both.

**Left, right, semi and anti joins** of two streams must know which rows of one stream, the *marked*
one, have matched. Its slices are in the second and last hop. Its new rows probe the first hop; the
rows that they find go to their homes in the second hop, in the same micro-batch. Only there it is
decided which rows are unmatched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from watersmeet.joins.ring.layout import RingLayout
from watersmeet.rows.route import Everywhere, First, Home, Route, StoredInOne

#: Stands for the number of an input of the next hop, where rows leave as results.
RESULTS = -1


@dataclass(frozen=True)
class Inlet:
    """One input of a hop: rows of one stream, or partial results, with a row of each of some
    ``streams``.

    ``new``: the rows come from a stream, and it is still to be decided which are late. ``stored``:
    rows whose home is here are stored. ``probes`` is the stream whose slices they probe;
    ``sees_new``: do they probe its new rows too? Their matches leave as ``found``, the rows
    themselves as ``onward``: both are the number of an input of the next hop. ``reports_back``:
    matches are sent to the home of the new row. ``marks``: such matches come in here.
    ``measurements``: the measurements of the hops before come in here.
    """

    name: str
    streams: tuple[int, ...]
    new: bool = False
    stored: bool = False
    probes: int | None = None
    sees_new: bool = False
    found: int | None = None
    onward: int | None = None
    reports_back: bool = False
    marks: bool = False
    measurements: bool = False


@dataclass(frozen=True)
class HopLayout:
    """One hop: hop ``number`` of ``count``, the streams whose slices it ``holds``, its inputs, and
    the routes of the rows that come in through them."""

    number: int
    count: int
    holds: tuple[int, ...]
    inlets: tuple[Inlet, ...]
    routes: tuple[Route, ...]

    @property
    def last(self) -> bool:
        return self.number == self.count - 1

    @property
    def advised(self) -> int | None:
        """The input of the next hop that takes the measurements of this one, if any."""
        return None if self.last else 0


def hops_of(layout: RingLayout) -> list[HopLayout]:
    """The chain of hops of a join."""
    if layout.marked is not None:
        return _marking(layout, layout.marked)
    return _one_hop(layout) if len(layout.streams) == 2 else _one_for_each(layout)


def _one_hop(layout: RingLayout) -> list[HopLayout]:
    """Two streams in one hop."""
    first, second = layout.policy.order
    inlets = {
        first: Inlet(
            _name(layout, first), (first,), new=True, stored=True, probes=second, found=RESULTS
        ),
        second: Inlet(
            _name(layout, second),
            (second,),
            new=True,
            stored=True,
            probes=first,
            sees_new=True,
            found=RESULTS,
        ),
    }
    route = StoredInOne(layout.policy.dealt, layout.policy.reached)
    return [HopLayout(0, 1, (first, second), (inlets[0], inlets[1]), (route, route))]


def _marking(layout: RingLayout, marked: int) -> list[HopLayout]:
    """Two streams in two hops: the second hop holds the one whose rows are marked."""
    other = 1 - marked
    policy = layout.policy
    home, everywhere = Home(policy.dealt), Everywhere(policy.reached)
    stored, finds, probing = range(1, 4)
    inlets = {
        other: Inlet(_name(layout, other), (other,), new=True, stored=True, onward=probing),
        marked: Inlet(
            _name(layout, marked),
            (marked,),
            new=True,
            probes=other,
            sees_new=True,
            found=finds,
            onward=stored,
            reports_back=True,
        ),
    }
    driving = StoredInOne(policy.dealt, policy.reached, layout.home_only(marked))
    routes: dict[int, Route] = {other: home, marked: driving}
    return [
        HopLayout(0, 2, (other,), (inlets[0], inlets[1]), (routes[0], routes[1])),
        HopLayout(
            1,
            2,
            (marked,),
            (
                Inlet("measurements", (), measurements=True),
                Inlet("stored", (marked,), stored=True),
                Inlet("finds", (marked, other), marks=True),
                Inlet("probing", (other,), probes=marked, found=RESULTS),
            ),
            (First(), home, home, everywhere),
        ),
    ]


def _one_for_each(layout: RingLayout) -> list[HopLayout]:
    """A hop for each stream, in the order of the policy."""
    order, policy = layout.policy.order, layout.policy
    home, everywhere = Home(policy.dealt), Everywhere(policy.reached)
    driving = StoredInOne(policy.dealt, policy.reached)
    first = _first_hop(layout)
    hops = [
        HopLayout(
            0,
            len(order),
            order[:1],
            first,
            tuple(home if inlet.stored else driving for inlet in first),
        )
    ]
    for number in range(1, len(order)):
        inlets = _later_hop(order, number)
        routes: list[Route] = [everywhere if inlet.probes is not None else home for inlet in inlets]
        routes[0] = First()
        held = order[number : number + 1]
        hops.append(HopLayout(number, len(order), held, inlets, tuple(routes)))
    return hops


def _first_hop(layout: RingLayout) -> tuple[Inlet, ...]:
    """The inputs are the streams, as the query has them."""
    order = layout.policy.order
    names = _input_names(len(order), 1)
    inlets = {}
    for place, stream in enumerate(order):
        name = _name(layout, stream)
        if place == 0:
            onward = names.index("before")
            inlets[stream] = Inlet(name, (stream,), new=True, stored=True, onward=onward)
        else:
            inlets[stream] = Inlet(
                name,
                (stream,),
                new=True,
                probes=order[0],
                sees_new=True,
                found=names.index("own" if place == 1 else f"driver {place}"),
                onward=names.index(f"rows {place}"),
            )
    return tuple(inlets[stream] for stream in range(len(order)))


def _later_hop(order: Sequence[int], number: int) -> tuple[Inlet, ...]:
    """The inputs of a hop that is not the first."""
    places, met, here = len(order), tuple(order[:number]), order[number]
    following = _input_names(places, number + 1) if number + 1 < places else []

    def onward(name: str) -> int:
        return following.index(name) if following else RESULTS

    inlets = [
        Inlet("measurements", (), measurements=True),
        Inlet("before", met, probes=here, found=onward("before")),
        Inlet("own", (*met, here), onward=onward("before")),
    ]
    for place in range(number + 1, places):
        found = onward("own" if place == number + 1 else f"driver {place}")
        streams = (*met, order[place])
        name = f"driver {place}"
        inlets.append(Inlet(name, streams, probes=here, sees_new=True, found=found))
    inlets.append(Inlet(f"rows {number}", (here,), stored=True))
    for place in range(number + 1, places):
        name = f"rows {place}"
        inlets.append(Inlet(name, (order[place],), onward=onward(name)))
    assert [inlet.name for inlet in inlets] == _input_names(places, number), "hops fit together"
    return tuple(inlets)


def _input_names(places: int, number: int) -> list[str]:
    """The inputs of a hop that is not the first: measurements; the partial results of drivers
    before it, of its own stream, and of each driver behind it; and the rows that are to be stored,
    in it or in a later hop."""
    behind = range(number + 1, places)
    drivers = [f"driver {place}" for place in behind]
    rows = [f"rows {place}" for place in (number, *behind)]
    return ["measurements", "before", "own", *drivers, *rows]


def _name(layout: RingLayout, stream: int) -> str:
    return layout.streams[stream].name
