"""The equality join as a chain: one hop, to which rows go by their keys."""

from __future__ import annotations

from functools import partial

from watersmeet.joins.chain import Chain, Circumstances, Hop, Input
from watersmeet.joins.equi.layout import EquiLayout
from watersmeet.joins.equi.operator import EquiJoin
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.rows.route import ByKey


def chain_of(spec: EquiSpec, layout: EquiLayout) -> Chain:
    """The chain of a join with this layout."""
    inputs = (
        Input.of(stream, given.rows, ByKey())
        for stream, given in zip(spec.streams, layout.inputs, strict=True)
    )
    hop = Hop(EquiJoin(layout), layout.fingerprint, adapted=partial(_adapted, layout))
    return Chain.of(spec, tuple(inputs), (hop,), layout.policy.shards)


def _adapted(layout: EquiLayout, now: Circumstances) -> EquiJoin:
    """The join, with as many shards as there are: they share its budget."""
    return EquiJoin(layout.on(now.shards))
