"""Canonical types, and Spark's own again: nested fields that are NOT NULL, at every depth."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.strategies import examples
from watersmeet.rows.types import canonical_rows, canonical_schema, in_type

_LEAVES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [0, 7],
    pa.string(): ["", "x", "xyz"],
    pa.binary(): [b"\x00"],
    pa.bool_(): [True, False],
}


@st.composite
def types(draw: st.DrawFn, depth: int = 3) -> pa.DataType:
    """Types that are nested at random, with fields that may be null and others."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*_LEAVES]))

    def field(name: str) -> pa.Field:
        return pa.field(name, draw(types(depth - 1)), nullable=draw(st.booleans()))

    shape = draw(st.sampled_from(["struct", "list", "map"]))
    if shape == "struct":
        return pa.struct([field(f"f{number}") for number in range(draw(st.integers(1, 3)))])
    return pa.list_(field("element")) if shape == "list" else pa.map_(pa.string(), field("value"))


def value(kind: pa.DataType, dice: random.Random, *, nullable: bool = True) -> Any:
    """Any value of a type."""
    if nullable and dice.random() < 0.3:
        return None
    if pa.types.is_struct(kind):
        return {f.name: value(f.type, dice, nullable=f.nullable) for f in kind}
    if not pa.types.is_nested(kind):
        return dice.choice(_LEAVES[kind])
    inner = kind.item_field if pa.types.is_map(kind) else kind.value_field
    values = [value(inner.type, dice, nullable=inner.nullable) for _ in range(dice.randrange(3))]
    return [(str(n), v) for n, v in enumerate(values)] if pa.types.is_map(kind) else values


@examples(200)
@given(types(), st.integers(0, 1 << 30), st.integers(0, 3))
def test_what_may_not_be_null_comes_back_as_it_was_and_rows_may_be_missing(
    kind: pa.DataType, seed: int, cut: int
) -> None:
    dice = random.Random(seed)
    given = pa.array([value(kind, dice) for _ in range(6)], kind)
    rows = canonical_rows(pa.RecordBatch.from_arrays([given], ["x"]))
    assert rows.schema == canonical_schema(rows.schema)
    # Some rows, and some that are not there, in one array and in one of nulls alone.
    chosen = pa.array([3, 1, None, 0, 5, 2])
    stored = rows.column("x").take(chosen)[cut:]
    found = in_type(pa.concat_arrays([stored, pa.nulls(2, stored.type)]), kind)
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == [*given.take(chosen)[cut:].to_pylist(), None, None]
