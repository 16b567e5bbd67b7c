"""What the ring join's operators know of the join: how its rows are stored, the facts of the spec
that they need, and the policy that they follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.conditions.conjunction import Conditions
from watersmeet.joins.layout import WindowedLayout, stream_facts
from watersmeet.joins.ring.policy import RingPolicy
from watersmeet.joins.ring.spec import RingSpec
from watersmeet.rows.columns import TIME
from watersmeet.rows.input_layout import InputLayout, needed_columns
from watersmeet.rows.layout import RowLayout, keyless_layout
from watersmeet.rows.output import Output, sources
from watersmeet.state.fingerprint import facts_of, fingerprint_of
from watersmeet.state.memory import piece_of

#: Facts of the fingerprint: the order of the hops, if there are more than two streams, and the hop
#: whose state it is.
ORDER = "order of the hops"
HOP = "hop"


@dataclass(frozen=True)
class RingStream(InputLayout):
    """One stream as the operators see it, with how long a row waits for a later one, and whether
    the stream brought a watermark of its own."""

    window: int | None
    own_watermark: bool


@dataclass(frozen=True, kw_only=True)
class RingLayout(WindowedLayout[RingPolicy]):
    """All that the operators need to know. ``marked`` is the stream whose matched rows the join
    must know, if any."""

    streams: tuple[RingStream, ...]
    marked: int | None
    conditions: Conditions

    def on(self, shards: int, *, reach: int = 0) -> RingLayout:
        """The same join, on another number of shards. New rows reach at least ``reach`` of them."""
        return self.run_by(self.policy.on(shards, reach=reach))

    @property
    def windowed(self) -> bool:
        """Do times decide about matches? Then a row without a time matches nothing."""
        return any(stream.window is not None for stream in self.streams)

    @property
    def own_watermarks(self) -> bool:
        """Is there a stream that brought a watermark of its own?"""
        return any(stream.own_watermark for stream in self.streams)

    def home_only(self, stream: int) -> tuple[str, ...]:
        """The stored columns that no condition reads: only the result needs them."""
        stored = self.streams[stream].rows.stored
        read = {stored[name] for name in self.conditions.columns(stream)}
        return tuple(name for name in stored.values() if name not in read and name != TIME)


def lay_out(
    spec: RingSpec,
    policy: RingPolicy,
    conditions: Conditions,
    *,
    schemas: Sequence[pa.Schema],
    output: pa.Schema,
) -> RingLayout:
    """How rows are stored and results are made of them. ``schemas`` are the streams' own columns,
    ``output`` the result's, in canonical Arrow types."""
    layouts = stored_rows(spec, conditions)
    return RingLayout(
        streams=tuple(
            RingStream(
                stream.name,
                rows,
                {field.name: field.type for field in schema},
                window,
                stream.watermarked,
            )
            for stream, rows, schema, window in zip(
                spec.streams, layouts, schemas, spec.windows, strict=True
            )
        ),
        how=spec.how,
        preserved=spec.preserved,
        marked=spec.marked,
        output=Output(
            output,
            sources(spec.output, layouts),
            exact=False,
            limit=piece_of(policy.memory),
            limits=policy.limits,
        ),
        conditions=conditions,
        delay=spec.delay,
        fingerprint=fingerprint(spec, policy, layouts),
        timers=spec.timers,
        policy=policy,
    )


def stored_rows(spec: RingSpec, conditions: Conditions) -> list[RowLayout]:
    """How each stream's rows are stored: with the columns that the result or a condition needs."""
    return [
        keyless_layout(
            stream,
            needed=needed_columns(spec, position, conditions.columns(position)),
            identified=position == spec.marked,
        )
        for position, stream in enumerate(spec.streams)
    ]


def fingerprint(spec: RingSpec, policy: RingPolicy, layouts: Sequence[RowLayout]) -> str:
    """The facts about a query that must not change while its checkpoint lives. (The number of
    slices may change.)"""
    facts = {"join type": f"{spec.how}, without a key", **stream_facts(spec, layouts)}
    if len(spec.streams) > 2:
        facts[ORDER] = [spec.streams[stream].name for stream in policy.order]
    return fingerprint_of(facts)


def of_hop(fingerprint: str, number: int, count: int) -> str:
    """The fingerprint of the state of one of so many hops."""
    return fingerprint_of({**facts_of(fingerprint), HOP: f"{number + 1} of {count}"})
