"""The ring join as a chain: its hops, and how rows go from one to the next."""

from __future__ import annotations

from functools import partial

from watersmeet.joins.chain import EVERY, Chain, Circumstances, Hop, Input
from watersmeet.joins.ring.hops import hops_of
from watersmeet.joins.ring.layout import RingLayout, of_hop
from watersmeet.joins.ring.operator import RingHop
from watersmeet.joins.ring.spec import RingSpec


def chain_of(spec: RingSpec, layout: RingLayout) -> Chain:
    """The chain of a join with this layout."""
    first, *later = hops_of(layout)
    inputs = (
        Input.of(stream, given.rows, route, counted=True)
        for stream, given, route in zip(spec.streams, layout.streams, first.routes, strict=True)
    )
    onward = [*(hop.routes for hop in later), ()]
    hops = (
        Hop(
            RingHop(layout, hop),
            of_hop(layout.fingerprint, hop.number, hop.count),
            routes,
            adapted=partial(_adapted, layout, hop.number),
            slices=layout.policy.dealt or EVERY,
        )
        for hop, routes in zip((first, *later), onward, strict=True)
    )
    return Chain.of(spec, tuple(inputs), tuple(hops), layout.policy.shards)


def _adapted(layout: RingLayout, number: int, now: Circumstances) -> RingHop:
    """A hop for the number of shards that there are, and that new rows must reach."""
    adapted = layout.on(now.shards, reach=now.reach)
    return RingHop(adapted, hops_of(adapted)[number])
