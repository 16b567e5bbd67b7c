"""What the equality join's operator knows of the join: how its rows are stored, what follows
from the spec, and the policy it runs by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.equi.policy import EquiPolicy
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.joins.layout import KeyedLayout, WindowedLayout, stream_facts
from watersmeet.rows.columns import CODE, TIME, key_name
from watersmeet.rows.input_layout import InputLayout, keyed_layouts
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.output import Output, sources
from watersmeet.state.fingerprint import fingerprint_of
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


@dataclass(frozen=True, kw_only=True)
class EquiLayout(KeyedLayout, WindowedLayout[EquiPolicy]):
    """All that the operator needs to know. ``remembered``: for how long are closed keys
    remembered?"""

    inputs: tuple[EquiInput, ...]
    violations: str
    emit_punctuations: bool
    remembered: int | None

    def on(self, shards: int) -> EquiLayout:
        """The same join, on another number of shards."""
        return self.run_by(self.policy.on(shards))

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
    return EquiLayout(
        inputs=_inputs(spec, layouts, schemas),
        how=spec.how,
        preserved=spec.preserved,
        exact=spec.exact,
        key_columns=tuple(key_name(i) for i in range(len(spec.key_types))),
        output=Output(
            output,
            sources(spec.output, layouts),
            spec.exact,
            piece_of(policy.memory),
            policy.limits,
        ),
        predicate=predicate,
        delay=spec.delay,
        fingerprint=fingerprint(spec, layouts),
        violations=spec.violations,
        emit_punctuations=spec.emit_punctuations,
        remembered=spec.remembered,
        timers=spec.timers,
        policy=policy,
    )


def _inputs(
    spec: EquiSpec, layouts: Sequence[RowLayout], schemas: Sequence[pa.Schema]
) -> tuple[EquiInput, ...]:
    return tuple(
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


def fingerprint(spec: EquiSpec, layouts: Sequence[RowLayout]) -> str:
    """What of a query must not change while its checkpoint lives. A join that hands punctuations on
    remembers keys that others forget."""
    keys = zip(spec.streams, spec.keys, strict=True)
    facts = {
        "join type": spec.how.name,
        "types of the key": list(spec.key_types),
        **{f"key of {stream.name}": list(names) for stream, names in keys},
        **stream_facts(spec, layouts),
    }
    if spec.emit_punctuations:
        facts["punctuations"] = "emitted"
    return fingerprint_of(facts)
