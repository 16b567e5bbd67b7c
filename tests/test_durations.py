"""Durations: what is read, what is refused, and that text and number mean the same."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet import durations
from watersmeet.errors import DurationError, PlanError

TEN_THOUSAND_YEARS = 3_652_500 * 86_400_000_000


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("5 minutes", 300_000_000),
        ("1 minute", 60_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("250 milliseconds", 250_000),
        ("1.5 seconds", 1_500_000),
        (".5 s", 500_000),
        ("7 us", 7),
        ("7 µs", 7),
        ("3 microseconds", 3),
        ("250 ms", 250_000),
        ("10 s", 10_000_000),
        ("10 sec", 10_000_000),
        ("2 min", 120_000_000),
        ("2 h", 7_200_000_000),
        ("1 d", 86_400_000_000),
        ("2 days", 172_800_000_000),
        ("1 week", 604_800_000_000),
        ("2 weeks", 1_209_600_000_000),
        ("interval 5 minutes", 300_000_000),
        ("INTERVAL 5 Minutes", 300_000_000),
        ("  5   minutes  ", 300_000_000),
        ("1h30min", 5_400_000_000),
        ("+5 minutes", 300_000_000),
        ("0 seconds", 0),
    ],
)
def test_text_is_read_as_microseconds(text: str, microseconds: int) -> None:
    assert durations.parse(text, argument="within") == microseconds


def test_a_timedelta_is_read_as_microseconds() -> None:
    assert durations.parse(timedelta(minutes=1, microseconds=1), argument="delay") == 60_000_001


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("-5 minutes", "negative"),
        ("1 hour -30 minutes", "negative"),
        (timedelta(seconds=-1), "negative"),
        ("", "empty"),
        ("   ", "empty"),
        ("interval", "empty"),
        ("5", "without a unit"),
        ("-5", "without a unit"),
        (5, "without a unit"),
        (5.0, "without a unit"),
        (True, "is not a duration"),
        (None, "is not a duration"),
        (["5 minutes"], "is not a duration"),
        ("soon", "cannot read 'soon'"),
        ("5 minutes or so", "cannot read 'or so'"),
        ("1,000 ms", "cannot read '1,000 ms'"),
        ("1.2.3 s", "cannot read"),
        ("5 5 minutes", "cannot read"),
        ("1 month", "no fixed length"),
        ("2 years", "no fixed length"),
        ("5 m", "minutes or months"),
        ("5 minuts", "Did you mean 'minutes'?"),
        ("5 parsecs", "'parsecs' is not a unit"),
        ("0.1 us", "whole number of microseconds"),
        ("4000000 days", "longer than 10,000 years"),
        (timedelta.max, "longer than 10,000 years"),
    ],
)
def test_what_is_not_a_duration_is_refused_by_the_name_of_its_argument(
    value: object, expected: str
) -> None:
    with pytest.raises(DurationError) as caught:
        durations.parse(value, argument="within['views']")

    assert str(caught.value).startswith(f"within['views']={value!r}")
    assert expected in str(caught.value)


def test_a_duration_error_is_a_plan_error_and_a_value_error() -> None:
    with pytest.raises(PlanError):
        durations.parse("", argument="delay")
    with pytest.raises(ValueError, match="delay='' is empty"):
        durations.parse("", argument="delay")


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0 s"),
        (1, "1 us"),
        (250_000, "250 ms"),
        (300_000_000, "5 min"),
        (5_400_000_000, "1 h 30 min"),
        (90_000_000_000 + 500, "1 d 1 h 500 us"),
    ],
)
def test_a_duration_is_shown_in_the_largest_units(microseconds: int, text: str) -> None:
    assert durations.format(microseconds) == text


@given(st.integers(min_value=0, max_value=TEN_THOUSAND_YEARS))
def test_what_is_shown_reads_back_unchanged(microseconds: int) -> None:
    shown = durations.format(microseconds)

    assert durations.parse(shown, argument="within") == microseconds


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3_652_500)))
def test_a_timedelta_and_its_text_mean_the_same(value: timedelta) -> None:
    microseconds = durations.parse(value, argument="within")

    assert timedelta(microseconds=microseconds) == value
    assert durations.parse(durations.format(microseconds), argument="within") == microseconds


@given(st.text(max_size=20))
def test_any_text_is_either_a_duration_or_a_duration_error(text: str) -> None:
    with suppress(DurationError):
        assert durations.parse(text, argument="within") >= 0
