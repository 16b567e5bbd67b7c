"""Which joins a plan of Spark's has. (What follows from that: test_recovery.py.)"""

from __future__ import annotations

import pytest

from watersmeet.spark import start_check
from watersmeet.spark.start_check import Watched


def test_the_joins_of_a_plan_are_found_by_the_names_of_their_observations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given joins of which one's name begins with another's, and with what follows a name,
    names = ["watersmeet: a", "watersmeet: a (2)", "watersmeet: a, [b", "watersmeet: c"]
    monkeypatch.setattr(start_check, "_operators", {name: Watched(f"<{name}>") for name in names})
    plan = """WriteToMicroBatchDataSource
+- Project [id#1]
   +- CollectMetrics watersmeet: a (2), [transform(x)[0] AS step#1], 16
      +- ~CollectMetrics watersmeet: a, [b, [transform(x)[0] AS step#2], 17
         +- CollectMetrics of the user, [count(1) AS n#3L], 18"""
    # when a plan has two of them, then these are found, and no others.
    found = [operator.fingerprint for operator in start_check.operators_in(plan)]
    assert found == ["<watersmeet: a (2)>", "<watersmeet: a, [b>"]
    assert start_check.operators_in("Project [id#1]") == []
