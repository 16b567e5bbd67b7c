"""The soak's enrichments are right by themselves: without Spark, and without faults, they give what
they expect."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from soak.case import MicroBatch, Start
from soak.families import enrichments
from soak.families.enrichments import CountedEnrichment, EnrichmentCase
from tests.oracle import assert_same_rows
from watersmeet.testing import LocalEnrich

FILES = 8


def drawn(seed: int) -> EnrichmentCase:
    case = enrichments.case(random.Random(seed), FILES)
    first = case.first if isinstance(case, CountedEnrichment) else case
    assert isinstance(first, EnrichmentCase)
    return first


def run(
    case: EnrichmentCase, dice: random.Random, folder: Path
) -> list[tuple[MicroBatch, pa.Table]]:
    """The enrichment, restarted and refreshed now and then: what came, and what left."""
    tables, files = case.tables(), list(case.files()["a"])
    local: LocalEnrich | None = None
    life = reads = 0
    ran = []
    for number, rows in enumerate([*files, case.closing()["a"], None, None]):
        last = number >= FILES
        if local is None or number == FILES or dice.random() < 0.3:
            life, reads = life + 1, 0
            start = Start(life, epoch=1, last=last)
            local = LocalEnrich(
                "a",
                case.stream,
                pa.concat_tables(tables[: case.parts(start, 0)]),
                table_name="b",
                shards=2,
                folder=str(folder),
                restart=local,
                policy=case.policy(start),
                **case.options(start),
            )
        if case.changes != "never" and (dice.random() < 0.3 or number == FILES):
            reads += 1
            local.refresh(pa.concat_tables(tables[: case.parts(start, reads)]))
        came = case.stream.schema.empty_table() if rows is None else rows
        ran.append((MicroBatch({"a": came}, local.run.watermark), local.batch(rows)))
    assert local is not None
    assert local.waiting() == 0
    return ran


def test_cases_give_what_they_expect(tmp_path: Path) -> None:
    shown: Counter[str] = Counter()
    for seed in range(40):
        case = drawn(seed)
        ran = run(case, random.Random(seed), tmp_path / str(seed))
        found = pa.concat_tables([results for _, results in ran])
        assert_same_rows(found, case.expected([batch for batch, _ in ran]), note=case.title)
        shown.update([case.how, case.changes, "as of" if case.as_of else "all"])
        shown["results"] += found.num_rows
    wanted = {"inner", "left", "semi", "anti", "never", "refresh", "retry", "as of", "all"}
    assert wanted <= {*shown}
    assert shown["results"] > 10_000


@pytest.mark.parametrize("seed", range(5))
def test_a_case_is_the_same_when_it_is_made_again(seed: int) -> None:
    first, again = drawn(seed), drawn(seed)
    assert first.title == again.title
    for one, other in ((first.files()["a"], again.files()["a"]), (first.tables(), again.tables())):
        assert_same_rows(pa.concat_tables(one), pa.concat_tables(other))
