"""The experiments that depend on no machine come out as the paper says, also when short."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import report
from experiments.report import Claim, Outcome
from experiments.window import figures


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(figures.figure_2, id="figure 2"),
        pytest.param(figures.figure_3, id="figure 3"),
        pytest.param(lambda: figures.figure_8(seconds=1500), id="figure 8"),
        pytest.param(lambda: figures.figure_9(seconds=500), id="figure 9"),
        pytest.param(lambda: figures.figure_10(seconds=2500), id="figure 10"),
    ],
)
def test_the_papers_claims_hold(outcome) -> None:  # type: ignore[no-untyped-def]
    for claim in outcome().claims:
        assert claim.holds, f"{claim.where}: {claim.claimed}: {claim.measured}"


def test_a_report_keeps_claims_and_figures(tmp_path: Path) -> None:
    def experiment() -> Outcome:
        """one"""
        figure = report.bars("title", "unit", {"a": 1.0})
        return Outcome("one", [Claim("figure 1", "more", "less", holds=False)], figure)

    claims = report.run("a paper", [experiment], tmp_path)
    assert [claim.holds for claim in claims] == [False]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claims.json", "one.png"]
