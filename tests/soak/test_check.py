"""A row that is lost, doubled or wrong is noticed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from soak.check import Verdict, check_all_read, micro_batches, verdict
from tests.soak.test_history import offset, source

EXPECTED = pa.table({"k": [1, 1, 2, None], "n": [1.0, 1.0, float("nan"), 4.0]})


def judged(*rows: tuple[int | None, float]) -> Verdict:
    keys, numbers = zip(*rows, strict=True)
    found = pa.table({"k": pa.array(keys, pa.int64()), "n": pa.array(numbers, pa.float64())})
    return verdict([found.slice(0, 2), found.slice(2)], EXPECTED)


NAN = float("nan")


def test_the_same_rows_in_another_order_hold() -> None:
    result = judged((None, 4.0), (1, 1.0), (2, NAN), (1, 1.0))
    assert result.holds
    assert (result.rows, result.lost, result.doubled, result.wrong) == (4, 0, 0, 0)


def test_what_is_lost_doubled_or_wrong_is_counted_and_shown() -> None:
    result = judged((None, 4.0), (None, 4.0), (1, 1.0), (2, 7.0), (2, 7.0))
    assert not result.holds
    assert (result.lost, result.doubled, result.wrong) == (2, 1, 2)
    assert result.examples == [
        "columns: k, n",
        "lost: 1 x (1, 1.0)",
        "lost: 1 x (2, 'NaN')",
        "doubled: 1 x (None, 4.0)",
        "wrong: 2 x (2, 7.0)",
    ]


def test_other_columns_are_told() -> None:
    with pytest.raises(AssertionError, match="columns"):
        verdict([EXPECTED.rename_columns(["k", "m"])], EXPECTED)


@dataclass(frozen=True)
class OneStream:
    """A case with one stream."""

    schemas: Mapping[str, pa.Schema] = field(
        default_factory=lambda: {"a": pa.schema([("n", pa.int64())])}
    )


def test_micro_batches_are_made_of_the_files_that_came_with_them(tmp_path: Path) -> None:
    files = {"a": {f"{n}.parquet": pa.table({"n": [n]}) for n in range(3)}}
    for number in range(3):
        source(tmp_path, 0, number, (number, f"{number}.parquet"))
    offset(tmp_path, 0, 0, 0)
    offset(tmp_path, 1, 0, 2)
    offset(tmp_path, 2, 0, 2)
    epochs = [(0, 0), (1, 1), (1, 2)]
    case: Any = OneStream()
    batches = micro_batches(case, tmp_path, files, epochs)
    assert [batch.rows["a"].column("n").to_pylist() for batch in batches] == [[0], [1, 2], []]
    assert [batch.epoch for batch in batches] == [0, 2, 2]
    check_all_read(batches, files)
    with pytest.raises(AssertionError, match="of stream a, 1 of 3 rows were read"):
        check_all_read(batches[:1], files)
