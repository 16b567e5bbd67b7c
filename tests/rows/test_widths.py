"""How wide rows are, and cutting them by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.strategies import examples
from watersmeet.rows.widths import cuts, row_bytes, sliced

DEEP = pa.list_(pa.struct([("name", pa.string()), ("flags", pa.list_(pa.int16()))]))
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "number": (pa.int64(), [1, None]),
    "time": (pa.timestamp("us", "UTC"), [0]),
    "decimal": (pa.decimal128(10, 2), [None]),
    "nothing": (pa.null(), [None]),
    "text": (pa.string(), ["", "abc", "é" * 50, None]),
    "bytes": (pa.binary(), [b"", b"x" * 300, None]),
    "list": (pa.list_(pa.int32()), [[], [1, 2, None], None, [7] * 99]),
    "texts": (pa.list_(pa.string()), [[], ["a", None, "bcd"], None]),
    "struct": (pa.struct([("x", pa.int8()), ("s", pa.string())]), [None, {"x": 1, "s": "four"}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("key", 1), ("k", 2)], None]),
    "deep": (DEEP, [[], [{"name": "n", "flags": [1, 2]}, {"name": None, "flags": None}], None]),
}


def width(kind: pa.DataType, value: Any) -> int:
    """The bits of one value, its offsets included, as they are written down."""
    if pa.types.is_struct(kind):
        return sum(width(field.type, (value or {}).get(field.name)) for field in kind)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 32 + 8 * len((value or "").encode() if pa.types.is_string(kind) else value or b"")
    if pa.types.is_list(kind):
        return 32 + sum(width(kind.value_type, item) for item in value or [])
    if pa.types.is_map(kind):
        pairs = value or []
        return 32 + sum(width(kind.key_type, k) + width(kind.item_type, v) for k, v in pairs)
    return 0 if pa.types.is_null(kind) else kind.bit_width


@examples(200)
@given(data=st.data())
def test_every_row_is_measured_whatever_its_types_and_wherever_it_is_in_its_buffers(
    data: st.DataObject,
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True))
    count = data.draw(st.integers(1, 8))
    columns = []
    for kind, values in (COLUMNS[name] for name in names):
        drawn = data.draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))
        columns.append(pa.array(drawn, kind))
    rows = pa.RecordBatch.from_arrays(columns, names)
    rows = rows.slice(data.draw(st.integers(0, count - 1)))
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9)), np.int64)
    measured = np.broadcast_to(row_bytes(rows, chosen), len(chosen))
    for position, size in zip(chosen.tolist(), measured.tolist(), strict=True):
        bits = sum(
            width(field.type, column[position].as_py())
            for field, column in zip(rows.schema, rows.columns, strict=True)
        )
        assert 0 <= 8 * size - bits < 8


def test_a_column_of_another_type_is_taken_to_be_even() -> None:
    words = pa.array(["a", "b" * 100, "a", "b"], pa.string_view())
    rows = pa.RecordBatch.from_arrays([words], ["word"])
    measured = np.asarray(row_bytes(rows, np.arange(4))).tolist()
    assert len(set(measured)) == 1
    assert sum(measured) >= words.nbytes


@examples(200)
@given(
    widths=st.lists(st.integers(0, 30), max_size=40) | st.integers(0, 30),
    count=st.integers(0, 40),
    limit=st.integers(1, 60),
)
def test_runs_are_as_long_as_fits_and_leave_nothing_out(
    widths: list[int] | int, count: int, limit: int
) -> None:
    each = [widths] * count if isinstance(widths, int) else widths
    given_widths = widths if isinstance(widths, int) else np.array(widths, np.int64)
    cut = list(cuts(given_widths, len(each), limit))
    assert [n for run in cut for n in range(run.start, run.stop)] == list(range(len(each)))
    for run in cut:
        assert sum(each[run]) <= limit or run.stop - run.start == 1
        if run.stop < len(each):
            assert sum(each[run]) + each[run.stop] > limit


@pytest.mark.parametrize("limit", [1, 100, 1000, 10**6])
def test_slices_are_cut_where_the_wide_rows_are(limit: int) -> None:
    texts = ["x" * (900 if 20 <= n < 30 else 1) for n in range(50)]
    rows = pa.RecordBatch.from_pydict({"n": range(50), "text": texts})
    parts = list(sliced(rows, limit))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([rows])
    assert all(part.nbytes <= limit or len(part) == 1 for part in parts)


def test_no_rows_are_no_slice() -> None:
    assert list(sliced(pa.RecordBatch.from_pydict({"n": pa.array([], pa.int64())}), 10)) == []
