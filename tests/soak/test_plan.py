"""A round follows from its seed, in any process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from soak.case import Start
from soak.families import FAMILIES
from soak.plan import Order, RoundPlan

#: Prints the titles of a round's trials, and a hash of one case's rows.
PROGRAM = """
import json, sys
from soak.plan import RoundPlan
plan = RoundPlan.of(json.loads(sys.argv[1]))
files = plan.trials[0].case.files()
print(json.dumps([[trial.title for trial in plan.trials], str(files)]))
"""


def test_another_process_makes_the_same_plan() -> None:
    plan = RoundPlan.random(7, 3, list(FAMILIES))
    command = [sys.executable, "-c", PROGRAM, json.dumps(plan.told())]
    told = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=True)
    titles, files = json.loads(told.stdout)
    assert titles == [trial.title for trial in plan.trials]
    assert files == str(plan.trials[0].case.files())


def test_rounds_differ() -> None:
    plans = [RoundPlan.random(seed, number, list(FAMILIES)) for seed in (1, 2) for number in (0, 1)]
    assert len({tuple(trial.title for trial in plan.trials) for plan in plans}) == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_a_round_may_be_of_one_family(family: str) -> None:
    plan = RoundPlan.random(1, 0, [family])
    [module] = {type(trial.case).__module__ for trial in plan.trials}
    assert module.rpartition(".")[2] in (family, "equality")


def test_an_order_arrives_as_it_was_given() -> None:
    order = Order([Start(1, 2), Start(1, 0, last=True)], orderly=True)
    assert Order.of(json.loads(json.dumps(order.told()))) == order
