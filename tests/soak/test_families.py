"""A family's cases are right by themselves: without Spark, and without faults, they give what they
expect."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from soak.case import MicroBatch, Start
from soak.families import FAMILIES
from soak.families.equality import EqualityCase
from tests.oracle import assert_same_rows
from watersmeet.testing import LocalJoin

FILES = 8
LOCAL = ["windows", "promises", "rings"]


def micro_batches(
    case: EqualityCase, dice: random.Random
) -> Iterator[Mapping[str, list[pa.Table]]]:
    """The files, cut anywhere, and at last those that close everything."""
    waiting = {name: list(tables) for name, tables in case.files().items()}
    while any(waiting.values()):
        yield {
            name: [tables.pop(0) for _ in range(min(len(tables), dice.choice([0, 1, 1, 2])))]
            for name, tables in waiting.items()
        }
    yield {name: [rows] for name, rows in case.closing().items()}
    yield {name: [] for name in waiting}


def run(case: EqualityCase, dice: random.Random, folder: Path) -> tuple[pa.Table, list[MicroBatch]]:
    """The join, restarted now and then, with another condition or not."""
    join: LocalJoin | None = None
    life = epoch = 0
    batches, results = [], []
    cuts = list(micro_batches(case, dice))
    for number, files in enumerate(cuts):
        closing = number == len(cuts) - 2
        if join is None or closing or dice.random() < 0.3:
            life, epoch = life + 1, epoch + dice.randrange(2)
            streams, options = case.call(Start(life, epoch, last=closing))
            join = LocalJoin(streams, shards=2, folder=str(folder), restart=join, **options)
        rows = {
            name: pa.concat_tables([case.schemas[name].empty_table(), *tables])
            for name, tables in files.items()
        }
        batches.append(MicroBatch(rows, join.watermark, epoch))
        results.append(join.batch(**rows))
    return pa.concat_tables(results), batches


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", LOCAL)
def test_a_case_gives_what_it_expects(family: str, seed: int, tmp_path: Path) -> None:
    case = FAMILIES[family](random.Random(seed), FILES)
    assert isinstance(case, EqualityCase)
    # A local join knows no streams with their own watermark.
    case = replace(case, own=frozenset())
    found, batches = run(case, random.Random(seed), tmp_path)
    if case.emits:
        found = found.filter(pa.compute.invert(found.column("is_punctuation")))
        found = found.drop_columns("is_punctuation")
    assert_same_rows(found, case.expected(batches), note=case.title)
