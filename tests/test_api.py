"""The public calls, as editors and ``help`` see them."""

from __future__ import annotations

import inspect

import watersmeet as wm


def test_join_takes_what_plan_takes() -> None:
    planned, joined = inspect.signature(wm.plan), inspect.signature(wm.join)
    assert list(joined.parameters.items()) == list(planned.parameters.items())
    assert planned.return_annotation == "Plan"
    assert joined.return_annotation == "DataFrame"


def test_every_argument_is_documented() -> None:
    for call in (wm.stream, wm.join, wm.predicate):
        documented = inspect.getdoc(call) or ""
        for name in inspect.signature(call).parameters:
            assert name in documented, f"{call.__name__}: {name}"
