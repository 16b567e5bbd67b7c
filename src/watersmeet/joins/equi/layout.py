"""What the equality join's operator knows of the join: how its rows are stored, what follows
from the spec, and the policy it runs by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet import durations
from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.equi.policy import EquiPolicy
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.rows.columns import CODE, TIME, key_name
from watersmeet.rows.input_layout import InputLayout, keyed_layouts
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.output import Output, sources
from watersmeet.spec.join_type import JoinType
from watersmeet.state.fingerprint import STORED, STREAMS, fingerprint_of
from watersmeet.state.memory import piece_of


@dataclass(frozen=True)
class EquiInput(InputLayout):
    """One stream as the operator sees it.

    ``window`` is how long a row waits for a later one, ``kept`` how long it is stored.
    ``own_watermark``: the stream brought a watermark of its own. ``unique`` and ``arrival`` are
    what it promises about its keys, ``closes`` whether it ever closes any, ``punctuated`` whether
    punctuations may do so.
    """

    window: int | None
    kept: int | None
    own_watermark: bool
    unique: bool = False
    arrival: str | None = None
    closes: bool = False
    punctuated: bool = False


@dataclass(frozen=True)
class EquiLayout:
    """All that the operator needs to know. ``preserved[i]``: does an unmatched row of stream i
    appear in the result? ``remembered``: for how long are closed keys remembered? ``timers``: is a
    shard that stores anything stepped again when the watermark moves?"""

    inputs: tuple[EquiInput, ...]
    how: JoinType
    preserved: tuple[bool, ...]
    exact: bool
    key_columns: tuple[str, ...]
    output: Output
    predicate: Predicate | None
    delay: int
    fingerprint: str
    violations: str
    emit_punctuations: bool
    remembered: int | None
    timers: bool
    policy: EquiPolicy

    def on(self, shards: int) -> EquiLayout:
        """The same join, on another number of shards."""
        policy = self.policy.on(shards)
        output = replace(self.output, limit=piece_of(policy.memory))
        return replace(self, policy=policy, output=output)

    @property
    def piece(self) -> int | None:
        """The bytes that are handled at a time, if a budget limits them."""
        return piece_of(self.policy.memory)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns in which a row is not null, if it can match: the code, and the time where
        there is a window."""
        windowed = any(length is not None for length in self.kept)
        return (CODE, TIME) if windowed else (CODE,)

    @property
    def kept(self) -> list[int | None]:
        """For how long rows of each stream are stored."""
        return [stream.kept for stream in self.inputs]

    def holds(self, sides: Mapping[int, tuple[pa.RecordBatch, np.ndarray]]) -> np.ndarray | None:
        """For which combinations of rows, given as positions in each stream's rows, the
        predicate holds; None if there is none."""
        if self.predicate is None:
            return None
        return self.predicate.mask(
            [
                self.inputs[stream].read_at(*sides[stream], name)
                for stream, name in self.predicate.columns
            ]
        )


def lay_out(
    spec: EquiSpec,
    policy: EquiPolicy,
    predicate: Predicate | None,
    *,
    schemas: Sequence[pa.Schema],
    output: pa.Schema,
) -> EquiLayout:
    """How rows are stored and results are made of them. ``schemas`` are the streams' own
    columns, ``output`` the result's, in canonical Arrow types."""
    layouts = keyed_layouts(spec, predicate.columns if predicate else ())
    inputs = tuple(
        EquiInput(
            name=stream.name,
            rows=rows,
            types={field.name: field.type for field in schema},
            window=window,
            kept=kept,
            own_watermark=stream.watermarked,
            unique=stream.unique,
            arrival=stream.arrival,
            closes=stream.closes,
            punctuated=stream.punctuation is not None,
        )
        for stream, rows, schema, window, kept in zip(
            spec.streams, layouts, schemas, spec.windows, spec.kept, strict=True
        )
    )
    return EquiLayout(
        inputs=inputs,
        how=spec.how,
        preserved=spec.preserved,
        exact=spec.exact,
        key_columns=tuple(key_name(i) for i in range(len(spec.key_types))),
        output=Output(output, sources(spec.output, layouts), spec.exact, piece_of(policy.memory)),
        predicate=predicate,
        delay=spec.delay,
        fingerprint=fingerprint(spec, layouts),
        violations=spec.violations,
        emit_punctuations=spec.emit_punctuations,
        remembered=spec.remembered,
        timers=spec.timers,
        policy=policy,
    )


def fingerprint(spec: EquiSpec, layouts: Sequence[RowLayout]) -> str:
    """What of a query must not change while its checkpoint lives. Delays and the
    predicate may: they decide about rows to come. (But a predicate that reads other columns needs
    rows that were stored with them.) Windows may too, unless a row that
    was emitted as unmatched could match after all. A join that hands punctuations on remembers keys
    that others forget."""
    facts: dict[str, str | list[str]] = {
        "join type": spec.how.name,
        STREAMS: ", ".join(stream.name for stream in spec.streams),
        "types of the key": list(spec.key_types),
    }
    for stream, keys, window, layout in zip(
        spec.streams, spec.keys, spec.windows, layouts, strict=True
    ):
        facts[f"key of {stream.name}"] = list(keys)
        facts[f"time of {stream.name}"] = stream.time or "none"
        facts[f"columns of {stream.name}"] = [f"{c.name} {c.type}" for c in stream.columns]
        facts[f"{STORED}columns of {stream.name}"] = sorted(layout.stored)
        if any(spec.preserved):
            length = "none" if window is None else durations.format(window)
            facts[f"window of {stream.name}"] = length
    if spec.hold:
        facts["Spark's watermark held back by"] = durations.format(spec.hold)
    if spec.emit_punctuations:
        facts["punctuations"] = "emitted"
    return fingerprint_of(facts)
