"""What has changed about a query is said in words."""

from __future__ import annotations

from watersmeet.state.fingerprint import differences, fingerprint_of

VIEWS = {"window of views": "5 min", "columns of views": ["ad int", "price double"]}


def changes(**facts: str | list[str]) -> list[str]:
    now = {**VIEWS, **{name.replace("_", " "): fact for name, fact in facts.items()}}
    return differences(fingerprint_of(VIEWS), fingerprint_of(now))


def test_equal_fingerprints_do_not_differ() -> None:
    assert changes() == []


def test_a_fact_is_shown_as_it_was_and_as_it_is() -> None:
    assert changes(window_of_views="10 min") == ["window of views: was 5 min, now 10 min"]
    assert changes(punctuations="emitted") == ["punctuations: was none, now emitted"]


def test_a_window_that_only_one_join_type_has_is_not_said_to_have_changed() -> None:
    inner = fingerprint_of({"join type": "inner", "columns of views": VIEWS["columns of views"]})
    left = fingerprint_of({"join type": "left", **VIEWS})
    assert differences(inner, left) == ["join type: was inner, now left"]
    assert differences(left, inner) == ["join type: was left, now inner"]


def test_of_a_list_what_is_new_and_what_is_missing_is_shown() -> None:
    assert changes(columns_of_views=["ad bigint", "price double", "at timestamp"]) == [
        "columns of views: ad bigint is new, at timestamp is new, ad int is missing"
    ]
    assert changes(columns_of_views=["price double", "ad int"]) == [
        "columns of views: was ad int, price double, now in the order price double, ad int"
    ]


def test_of_a_stream_that_was_renamed_only_its_name_is_shown() -> None:
    # Given a join of views and clicks, and one whose clicks have another name,
    facts = {"window of clicks": "5 min", "columns of clicks": ["ad int"], **VIEWS}
    before = {"streams": "views, clicks", **facts}
    renamed = {name.replace("clicks", "taps"): fact for name, fact in facts.items()}
    now = {"streams": "views, taps", **renamed, "window of views": "1 h"}
    # when they are compared, then it is the name that differs, and what differs of views.
    names = "streams: was views, clicks, now views, taps"
    found = differences(fingerprint_of(before), fingerprint_of(now))
    assert found == [names, "window of views: was 5 min, now 1 h"]


def test_any_text_can_be_a_fingerprint() -> None:
    assert differences("a join", "another") == ["query: was a join, now another"]
