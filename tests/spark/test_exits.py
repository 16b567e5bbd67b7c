"""The report of a step leaves last, together with results that are few."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from watersmeet.rows.types import canonical_schema
from watersmeet.spark.query.counters import REPORT
from watersmeet.spark.query.exits import SMALL_BYTES, with_last_report
from watersmeet.spark.query.frames import to_frame

SCHEMA = pa.schema([("n", pa.int64()), ("tags", pa.list_(pa.string()))])


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": n, "tags": ["a"]} for n in numbers], SCHEMA)


LARGE = rows(*range(SMALL_BYTES // 8))


@pytest.mark.parametrize(
    ("batches", "sizes"),
    [
        ([], [1]),
        ([rows(1, 2)], [3]),
        ([rows(1), rows(2)], [1, 2]),
        ([rows(1), LARGE], [1, len(LARGE), 1]),
        ([LARGE, rows(1)], [len(LARGE), 2]),
    ],
)
def test_a_small_last_batch_takes_the_report_along(
    batches: list[pa.RecordBatch], sizes: list[int]
) -> None:
    taken: list[int] = []

    def emitted() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            taken.append(len(batch))

    def report() -> str:
        assert len(taken) == len(batches), "all results are taken before the state is committed"
        return "done"

    left = list(with_last_report(emitted(), SCHEMA, report))
    assert [len(batch) for batch in left] == sizes
    reports = [text for batch in left for text in batch.column(REPORT).to_pylist()]
    assert reports == [None] * sum(map(len, batches)) + ["done"]
    results = pa.Table.from_batches(left).slice(0, len(reports) - 1).drop_columns([REPORT])
    assert results == pa.Table.from_batches(batches, SCHEMA)


def test_the_report_leaves_with_columns_whose_fields_are_not_null() -> None:
    # Given results with a struct and a variant, whose fields Spark takes for NOT NULL,
    bytes_ = pa.field("value", pa.binary(), nullable=False)
    variant = pa.struct([bytes_, pa.field("metadata", pa.binary(), False, {"variant": "true"})])
    inner = pa.field("a", pa.list_(pa.field("element", variant, nullable=False)), nullable=False)
    types = {"struct": pa.struct([inner]), "variant": variant}
    result = {"struct": {"a": [{"value": b"1", "metadata": b"2"}]}, "variant": None}
    schema = canonical_schema(pa.schema([*types.items()]))
    batch = pa.RecordBatch.from_pylist([result], schema)
    # when they leave with the report, then Spark's conversion takes all rows as they are.
    [left] = with_last_report(iter([batch]), schema, lambda: "done")
    frame = to_frame(left)
    for name, kind in types.items():
        column = pa.Array.from_pandas(frame[name], type=kind)
        column.validate(full=True)
        assert column.type.equals(kind, check_metadata=True)
        assert column.to_pylist() == [result[name], None]
