"""Is a result the oracle's? What is missing, what is there twice, and what should not be there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from soak.case import Case, MicroBatch
from soak.history import entries
from tests.oracle import multiset

_SHOWN = 10


@dataclass(frozen=True)
class Verdict:
    """The result of a case beside the expected one, as numbers of rows. ``wrong`` rows are those
    that are not expected at all."""

    rows: int
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    examples: Sequence[str] = ()

    def __str__(self) -> str:
        return f"{self.lost} rows lost, {self.doubled} doubled, {self.wrong} wrong, of {self.rows}"

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)


def verdict(found: Sequence[pa.Table], expected: pa.Table) -> Verdict:
    """Compare what was found, in parts, with what is expected."""
    for part in found:
        assert part.column_names == expected.column_names, (
            f"columns {part.column_names}, expected {expected.column_names}"
        )
    got = sum(map(multiset, found), Counter())
    wanted = multiset(expected)
    missing, excess = wanted - got, got - wanted
    doubled = {row: count for row, count in excess.items() if row in wanted}
    wrong = {row: count for row, count in excess.items() if row not in wanted}
    return Verdict(
        rows=expected.num_rows,
        lost=missing.total(),
        doubled=sum(doubled.values()),
        wrong=sum(wrong.values()),
        examples=[
            f"columns: {', '.join(expected.column_names)}",
            *_examples("lost", missing),
            *_examples("doubled", doubled),
            *_examples("wrong", wrong),
        ],
    )


def _examples(title: str, rows: Mapping[tuple[Any, ...], int]) -> list[str]:
    return [f"{title}: {count} x {row}" for row, count in list(rows.items())[:_SHOWN]]


def micro_batches(
    case: Case,
    checkpoint: Path,
    files: Mapping[str, Mapping[str, pa.Table]],
    epochs: Sequence[tuple[int, int]],
) -> list[MicroBatch]:
    """The micro-batches as Spark ran them. ``files`` are the streams' tables by the name of the
    file, ``epochs`` the micro-batches from which on an epoch was in force."""
    batches = []
    for number, entry in enumerate(entries(checkpoint, len(case.schemas))):
        rows = {
            name: pa.concat_tables(
                [schema.empty_table(), *(files[name][file] for file in entry.files[source])]
            )
            for source, (name, schema) in enumerate(case.schemas.items())
        }
        epoch = max((since, epoch) for since, epoch in epochs if since <= number)[1]
        batches.append(MicroBatch(rows, entry.watermark, epoch))
    return batches


def check_all_read(batches: Sequence[MicroBatch], files: Mapping[str, Mapping[str, Any]]) -> None:
    """Every row of every file has come, once: else the soak itself is wrong, or Spark is."""
    for name, tables in files.items():
        came = sum(batch.rows[name].num_rows for batch in batches)
        there = sum(table.num_rows for table in tables.values())
        assert came == there, f"of stream {name}, {came} of {there} rows were read"
