"""The public calls, as editors and ``help`` see them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.plan.signatures import warn


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


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: wm.plan(1, 2, on="k"), ["wm.plan: give the streams as one list", "wm.plan([v"]),
        (lambda: wm.join(1, 2, 3), ["wm.join: give the streams as one list", "wm.join([views"]),
        (lambda: wm.join(on="k"), ["wm.join: streams missing: give the streams as one list"]),
        (lambda: wm.join([], onn="k"), ["wm.join: there is no argument 'onn'. Did you mean 'on'?"]),
        (lambda: wm.join("ab"), ["streams is a str: give them as one list"]),
        (lambda: wm.plan(1), ["streams is a int: give them as one list"]),
        (lambda: wm.join([1], streams=[2]), ["wm.join: multiple values for argument 'streams'."]),
        (lambda: wm.enrich(1, 2, 3), ["wm.enrich: give the stream and the table, and everything"]),
        (
            lambda: wm.enrich(1),
            ["wm.enrich: table missing: give the stream", "products_df, on"],
        ),
        (lambda: wm.plan_enrich(), ["wm.plan_enrich: stream and table missing"]),
        (lambda: wm.enrich(1, 2, key="k"), ["wm.enrich: there is no argument 'key'."]),
        (lambda: wm.enrich([1], 2), ["stream is a list, not a stream: name it with wm.stream("]),
        (lambda: wm.stream(1), ["wm.stream: name missing: give a DataFrame and a name."]),
        (lambda: wm.stream(1, "a", "t"), ["wm.stream: give a DataFrame and a name, and every"]),
        (lambda: wm.stream(1, "a", delays="1 s"), ["no argument 'delays'. Did you mean 'delay'?"]),
    ],
)
def test_a_call_that_does_not_fit_is_answered_with_one_that_does(
    call: Callable[[], object], parts: list[str]
) -> None:
    with pytest.raises(wm.errors.PlanError) as error:
        call()
    assert all(part in str(error.value) for part in parts), str(error.value)
    assert error.value.__cause__ is None


def test_what_belongs_to_spark_connect_is_refused() -> None:
    frame, session = (
        type(name, (), {"__module__": f"pyspark.sql.connect.{name.lower()}"})()
        for name in ("DataFrame", "SparkSession")
    )
    with pytest.raises(wm.errors.SessionError, match="stream 'a': Watersmeet needs Spark classic"):
        wm.stream(frame, "a")
    with pytest.raises(wm.errors.SessionError, match="configure: Watersmeet needs Spark classic"):
        wm.configure(session)


def test_metrics_are_those_of_a_query_or_a_progress_report() -> None:
    with pytest.raises(wm.errors.PlanError, match=r"None until the first .* wm\.metrics\(query\)"):
        wm.metrics(None)
    with pytest.raises(wm.errors.PlanError, match="list is neither a query nor a progress report"):
        wm.metrics([])


def test_a_warning_shows_the_line_that_has_called_us() -> None:
    # Given a function of ours, in a file of its own, that warns,
    ours: dict[str, Any] = {"__name__": "watersmeet.api", "warn": warn}
    exec(compile("def call(): warn('beware')", "ours.py", "exec"), ours)
    # when it is called from here, then this file is named.
    with pytest.warns(UserWarning, match="beware") as caught:
        ours["call"]()
    assert [warning.filename for warning in caught] == [__file__]
