"""Which joins a plan of Spark's has. (What follows from that: test_recovery.py.)"""

from __future__ import annotations

import pytest

from watersmeet.spark import start_check


def test_the_joins_of_a_plan_are_found_by_the_names_of_their_observations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given joins of which one's name begins with another's, and with what follows a name,
    names = ["watersmeet: a", "watersmeet: a (2)", "watersmeet: a, [b", "watersmeet: c"]
    monkeypatch.setattr(start_check, "_fingerprints", {name: f"<{name}>" for name in names})
    plan = """WriteToMicroBatchDataSource
+- Project [id#1]
   +- CollectMetrics watersmeet: a (2), [transform(x)[0] AS step#1], 16
      +- ~CollectMetrics watersmeet: a, [b, [transform(x)[0] AS step#2], 17
         +- CollectMetrics of the user, [count(1) AS n#3L], 18"""
    # when a plan has two of them, then these are found, and no others.
    assert start_check.joins_in(plan) == ["<watersmeet: a (2)>", "<watersmeet: a, [b>"]
    assert start_check.joins_in("Project [id#1]") == []
