"""The semi-stream join as a chain: one hop, to which rows of the stream go by their keys."""

from __future__ import annotations

from functools import partial

from watersmeet.joins.chain import Chain, Circumstances, Hop, Input
from watersmeet.joins.enrich.layout import STREAM, EnrichLayout
from watersmeet.joins.enrich.operator import Enrich
from watersmeet.joins.enrich.spec import EnrichSpec
from watersmeet.rows.route import ByKey
from watersmeet.table.staged_table import StagedTable
from watersmeet.table.versions import Versions


def chain_of(
    spec: EnrichSpec, layout: EnrichLayout, staged: StagedTable, versions: Versions | None
) -> Chain:
    """The chain of a join that is laid out so, with a table and its versions."""
    stream, policy = spec.streams[STREAM], layout.policy
    given = Input(
        stream.name,
        layout.inputs[STREAM].rows,
        ByKey(),
        delay=None if stream.time is None else spec.delay,
        own_watermark=stream.watermarked,
        packed=policy.packed,
    )
    hop = Hop(
        Enrich(layout, staged, versions),
        layout.fingerprint,
        adapted=partial(_adapted, layout, staged, versions),
        waits=spec.max_wait is not None and policy.wakes,
    )
    return Chain.of(spec, (given,), (hop,), policy.shards)


def _adapted(
    layout: EnrichLayout, staged: StagedTable, versions: Versions | None, now: Circumstances
) -> Enrich:
    """The join, where that many shards share its memory. With several watermarks, no row waits."""
    there = layout.on(now.shards)
    return Enrich(there.without_wait() if now.several else there, staged, versions)
