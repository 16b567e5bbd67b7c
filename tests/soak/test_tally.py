"""What a soak reports."""

from __future__ import annotations

from soak.check import Verdict
from soak.plan import RoundPlan
from soak.process import Process
from soak.tally import Tally

PLAN = RoundPlan("some seed", ("windows",), lives=1, cases=2)


def test_the_sums_are_reported() -> None:
    tally = Tally()
    assert tally.add(PLAN, [Verdict(1000), Verdict(500)], {"executors killed": 3}) is None
    for memory in (3 << 20, 5 << 20, 4 << 20):
        tally.sample([Process(1, "worker", memory), Process(2, "worker", 1 << 20)])
    lines = tally.lines()
    assert lines[:2] == ["rounds: 1", "rows checked: 1,500"]
    assert {"  3 executors killed", "rows lost: 0", "rows doubled: 0"} <= set(lines)
    assert "  worker: 3 MB, 4 MB, 5 MB" in lines


def test_what_is_wrong_is_told_and_its_faults_were_not_survived() -> None:
    tally = Tally()
    wrong = tally.add(PLAN, [Verdict(9, lost=2, examples=["lost: 2 x (1,)"]), Verdict(5)], {"x": 1})
    assert wrong is not None
    assert "2 rows lost, 0 doubled, 0 wrong, of 9\nlost: 2 x (1,)" in wrong
    assert PLAN.trials[0].title in wrong
    assert PLAN.trials[1].title not in wrong
    assert "rows lost: 2" in tally.lines()
    assert tally.faults == {}
