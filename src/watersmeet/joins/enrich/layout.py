"""What the semi-stream join's operator knows of the join: how rows are stored, what follows from
the spec, and the policy it runs by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.enrich.policy import EnrichPolicy
from watersmeet.joins.enrich.spec import EnrichSpec, Wait
from watersmeet.joins.layout import JoinLayout, KeyedLayout
from watersmeet.rows.columns import key_name
from watersmeet.rows.input_layout import InputLayout, keyed_layouts
from watersmeet.rows.layout import RowLayout, Value
from watersmeet.rows.output import Output, Sides, satisfying, sources, where
from watersmeet.rows.stored_keys import same_keys
from watersmeet.state.fingerprint import fingerprint_of

#: Positions of the two inputs, where rows of both are meant.
STREAM, TABLE = 0, 1


@dataclass(frozen=True, kw_only=True)
class EnrichLayout(KeyedLayout, JoinLayout[EnrichPolicy]):
    """All that the operator needs to know. The inputs are the stream and the table; ``delay`` is
    that of the stream's watermark, None if nothing wakes a shard. ``as_of``: does a row match
    one version of its key at most, the one that is valid at its time? ``retry``: do rows without
    a match wait for a newer version of the table? They do until ``retry_beyond`` microseconds after
    the watermark has reached their time. ``version`` names the column of the result, behind those
    of the ``output``, that says which version of the table a row was answered from."""

    version: str | None
    as_of: bool
    delay: int | None
    max_wait: Wait | None
    retry: bool
    retry_beyond: int
    caches: bool
    access: str

    def on(self, shards: int) -> EnrichLayout:
        """The same join, on another number of shards."""
        policy = self.policy.on(shards)
        output = replace(self.output, limit=policy.piece)
        return replace(self, policy=policy, output=output)

    def without_wait(self) -> EnrichLayout:
        """The same join, where nothing is sure to wake a shard: no row waits for the table."""
        return replace(self, delay=None)

    @property
    def pairs(self) -> bool:
        """Does each match add a row to the result?"""
        return self.how.combines

    @property
    def preserved(self) -> bool:
        """Does a row that matches nothing appear in the result?"""
        return self.how.preserves_first

    def confirmed(self, sides: Sides, widest: int) -> Iterator[Sides]:
        """Of pairs with equal codes, those with equal keys for which the predicate holds, in
        pieces. No pair takes more bytes than ``widest``."""
        if not self.exact:
            (ours, mine), (master, theirs) = sides[STREAM], sides[TABLE]
            sides = where(sides, same_keys(self, ours, master, mine, theirs, widest=widest))
        for piece in self.output.pieces(sides, widest=widest):
            yield satisfying(self, piece)


def lay_out(
    spec: EnrichSpec,
    policy: EnrichPolicy,
    predicate: Predicate | None,
    *,
    schemas: Sequence[pa.Schema],
    output: pa.Schema,
) -> EnrichLayout:
    """How rows are stored and results are made of them. ``schemas`` are the stream's and the
    table's columns, ``output`` the result's, in canonical Arrow types."""
    layouts = keyed_layouts(spec, predicate.columns if predicate else ())
    made = [column for column in spec.output if column.name != spec.version]
    schema = pa.schema([output.field(column.name) for column in made])
    inputs = tuple(
        InputLayout(given.name, rows, {field.name: field.type for field in schema})
        for given, rows, schema in zip(spec.streams, layouts, schemas, strict=True)
    )
    return EnrichLayout(
        inputs=inputs,
        how=spec.how,
        exact=spec.exact,
        key_columns=tuple(key_name(i) for i in range(len(spec.key_types))),
        output=Output(schema, sources(made, layouts), spec.exact, policy.piece, policy.limits),
        version=spec.version,
        predicate=predicate,
        as_of=spec.as_of is not None,
        delay=spec.delay if policy.wakes else None,
        max_wait=spec.max_wait,
        retry=spec.retry is not None and spec.timers,
        retry_beyond=(spec.retry or 0) if spec.streams[STREAM].watermarked else 0,
        caches=spec.tuning.cache,
        access=spec.tuning.access,
        fingerprint=fingerprint(spec, _stored_columns(spec, layouts[STREAM])),
        policy=policy,
    )


def _stored_columns(spec: EnrichSpec, rows: RowLayout) -> list[str]:
    """The stored columns of the stream with their types. A key is among them if it is stored as it
    came: the types in which keys are compared are facts of their own."""
    stream, encodings = spec.streams[STREAM], dict(rows.columns)
    names = (
        name
        for name in sorted(rows.stored)
        if name not in spec.keys[STREAM] or isinstance(encodings[rows.stored[name]], Value)
    )
    return [f"{name} {stream.column(name).type}" for name in names]


def fingerprint(spec: EnrichSpec, stored: Sequence[str]) -> str:
    """What of a query must not change while its checkpoint lives: what decides how waiting rows
    are stored."""
    stream, table = spec.streams
    facts: dict[str, str | list[str]] = {
        "join type": f"{spec.how} enrichment",
        "stream": stream.name,
        "table": table.name,
        "key of the stream": list(spec.keys[STREAM]),
        "key of the table": list(spec.keys[TABLE]),
        "types of the key": list(spec.key_types),
        "as of": spec.as_of or "none",
        "time": stream.time or "none",
        "stored columns": list(stored),
    }
    return fingerprint_of(facts)
