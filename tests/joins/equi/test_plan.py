"""The planner: what a call means, and that every mistake in it has its own clear error."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.plan.asking import equi_spec
from watersmeet import durations
from watersmeet.errors import (
    AmbiguousColumnError,
    BudgetError,
    DurationError,
    InternalError,
    JoinTypeError,
    KeyTypeError,
    MixedInputError,
    PlanError,
    PredicateError,
    PunctuationError,
    StrategyError,
    StreamNameError,
    TimeColumnError,
    UnboundedStateError,
    UnknownColumnError,
    UnsupportedTypeError,
    WindowError,
)
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.spec.budget import Budget
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.stream import Column, Punctuation, StreamSpec
from watersmeet.spec.tuning import IndexChoice, Tuning

SECOND = 1_000_000
MINUTE = 60 * SECOND

VIEWS = StreamSpec(
    "views",
    (
        Column("ad_id", "bigint"),
        Column("site", "string"),
        Column("tags", "array<string>"),
        Column("viewed_at", "timestamp"),
    ),
    streaming=True,
    time="viewed_at",
    delay=10 * SECOND,
)
CLICKS = StreamSpec(
    "clicks",
    (
        Column("ad_id", "bigint"),
        Column("place", "string"),
        Column("day", "date"),
        Column("clicked_at", "timestamp"),
    ),
    streaming=True,
    time="clicked_at",
    delay=20 * SECOND,
)


def batch(stream: StreamSpec) -> StreamSpec:
    return replace(stream, streaming=False, time=None, delay=None)


def retyped(stream: StreamSpec, name: str, type: str) -> StreamSpec:
    columns = tuple(Column(c.name, type) if c.name == name else c for c in stream.columns)
    return replace(stream, columns=columns)


def plan(*streams: StreamSpec, **arguments: Any) -> EquiSpec:
    """A call that is right in all that the test does not say."""
    return equi_spec(
        streams or (VIEWS, CLICKS), **{"on": "ad_id", "within": "5 minutes", **arguments}
    )


def refusal(error: type[PlanError], *streams: StreamSpec, **arguments: Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan(*streams, **arguments)
    assert type(caught.value) is error
    return str(caught.value)


# --- what a right call means


def test_a_plain_call_is_planned_in_full() -> None:
    spec = plan(where="views.site = clicks.place")

    assert spec.streams == (VIEWS, CLICKS)
    assert spec.keys == (("ad_id",), ("ad_id",))
    assert spec.key_types == ("bigint",)
    assert spec.windows == (5 * MINUTE, 5 * MINUTE)
    assert spec.how.name == "inner"
    assert spec.where == "views.site = clicks.place"
    assert spec.unbounded is False
    assert [column.name for column in spec.output] == [
        "ad_id",
        "site",
        "tags",
        "viewed_at",
        "place",
        "day",
        "clicked_at",
        "event_time",
    ]


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_every_join_type_is_planned_with_a_window(how: str) -> None:
    assert plan(how=how).how.name == how


def test_on_may_be_a_list_of_names() -> None:
    clicks = replace(CLICKS, columns=(*CLICKS.columns, Column("site", "string")))

    spec = plan(VIEWS, clicks, on=["ad_id", "site"])

    assert spec.keys == (("ad_id", "site"), ("ad_id", "site"))
    assert spec.key_types == ("bigint", "string")


def test_on_may_be_a_dict_from_streams_to_one_or_more_columns() -> None:
    assert plan(on={"clicks": "place", "views": "site"}).keys == (("site",), ("place",))
    assert plan(on={"views": ["ad_id", "site"], "clicks": ("ad_id", "place")}).keys == (
        ("ad_id", "site"),
        ("ad_id", "place"),
    )


def test_names_that_differ_in_case_are_planned_with_their_real_names() -> None:
    views = replace(VIEWS, time="VIEWED_AT")

    spec = plan(views, CLICKS, on="AD_ID")

    assert spec.streams[0].time == "viewed_at"
    assert spec.keys == (("ad_id",), ("ad_id",))


def test_keys_of_different_numbers_are_compared_in_their_common_type() -> None:
    assert plan(retyped(VIEWS, "ad_id", "int"), CLICKS).key_types == ("bigint",)
    assert plan(retyped(VIEWS, "ad_id", "double"), CLICKS).key_types == ("double",)


def test_within_may_be_a_dict_or_a_timedelta() -> None:
    assert plan(within={"clicks": "0 seconds", "views": "1 minute"}).windows == (MINUTE, 0)
    assert plan(within=timedelta(minutes=1)).windows == (MINUTE, MINUTE)


def test_a_stream_may_bring_its_own_watermark() -> None:
    assert plan(replace(VIEWS, watermarked=True), CLICKS).streams[0].watermarked


@pytest.mark.parametrize("how", ["inner", "semi"])
def test_inner_and_semi_joins_may_be_unbounded_if_asked_for(how: str) -> None:
    spec = plan(within=None, how=how, unbounded=True)

    assert spec.unbounded is True
    assert spec.windows == (None, None)


def test_unbounded_streams_need_no_time() -> None:
    views = replace(VIEWS, time=None, delay=None)

    assert plan(views, CLICKS, within=None, unbounded=True).streams[0].time is None


def test_a_join_with_a_window_is_bounded_even_if_it_need_not_be() -> None:
    assert plan(unbounded=True).unbounded is False


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_batch_inputs_need_neither_times_nor_windows_nor_unbounded(how: str) -> None:
    spec = plan(batch(VIEWS), batch(CLICKS), within=None, how=how)

    assert spec.unbounded is False
    assert spec.windows == (None, None)


def test_batch_inputs_with_a_time_need_no_delay() -> None:
    views, clicks = replace(VIEWS, delay=None, streaming=False), replace(CLICKS, streaming=False)

    assert plan(views, clicks).windows == (5 * MINUTE, 5 * MINUTE)


# --- mistakes in the streams


@pytest.mark.parametrize("count", [1, 11])
def test_fewer_than_two_or_more_than_ten_streams_are_refused(count: int) -> None:
    streams = [replace(CLICKS, name=f"clicks_{i}") for i in range(count)]

    message = refusal(PlanError, *streams)

    assert "two to 10 streams" in message
    assert f"{count} given" in message


@pytest.mark.parametrize("name", ["my views", "2views", "", "views.x", "ansichten-ä"])
def test_a_name_that_is_not_an_identifier_is_refused(name: str) -> None:
    message = refusal(StreamNameError, replace(VIEWS, name=name), CLICKS)

    assert f"{name!r} is not an identifier" in message


@pytest.mark.parametrize("name", ["views", "Views"])
def test_two_streams_of_one_name_are_refused(name: str) -> None:
    message = refusal(StreamNameError, VIEWS, replace(CLICKS, name=name))

    assert f"two streams have the name {name!r}" in message


def test_a_mix_of_batch_and_streaming_inputs_is_refused() -> None:
    message = refusal(MixedInputError, VIEWS, batch(CLICKS))

    assert "views is a streaming DataFrame, clicks a batch one" in message
    assert "spark.readStream" in message


def test_an_unknown_time_column_is_refused_with_a_suggestion() -> None:
    message = refusal(UnknownColumnError, replace(VIEWS, time="view_at"), CLICKS)

    assert "time of the stream 'views'" in message
    assert "Did you mean 'viewed_at'?" in message


def test_a_time_column_that_stands_twice_is_ambiguous() -> None:
    views = replace(VIEWS, columns=(*VIEWS.columns, Column("viewed_at", "timestamp")))

    assert "time of the stream 'views'" in refusal(AmbiguousColumnError, views, CLICKS)


def test_a_time_without_zone_is_told_to_be_cast() -> None:
    message = refusal(TimeColumnError, retyped(VIEWS, "viewed_at", "timestamp_ntz"), CLICKS)

    assert "'viewed_at' is of type 'timestamp_ntz'" in message
    assert "F.col('viewed_at').cast('timestamp')" in message


def test_a_time_that_is_no_timestamp_is_refused() -> None:
    message = refusal(TimeColumnError, VIEWS, replace(CLICKS, time="day"))

    assert "'day' is of type 'date'" in message
    assert "must be of type 'timestamp'" in message
    assert "Of that type here: clicked_at" in message


def test_a_streaming_time_without_delay_or_watermark_is_refused() -> None:
    message = refusal(TimeColumnError, replace(VIEWS, delay=None), CLICKS)

    assert "delay of the stream 'views'" in message
    assert 'delay="10 seconds"' in message
    assert "df.withWatermark('viewed_at', '10 seconds')" in message


def test_a_delay_without_a_time_is_refused() -> None:
    message = refusal(TimeColumnError, replace(VIEWS, time=None), CLICKS)

    assert "delay of the stream 'views': 10 s behind which time?" in message
    assert 'time="viewed_at"' in message


def test_a_watermark_without_a_delay_is_our_own_mistake() -> None:
    with pytest.raises(InternalError, match="views"):
        plan(replace(VIEWS, watermarked=True, delay=None), CLICKS)


# --- mistakes in how, where and unbounded


@pytest.mark.parametrize(
    ("how", "meant"),
    [
        ("left_outer", "left"),
        ("leftouter", "left"),
        ("LEFT OUTER", "left"),
        ("right_outer", "right"),
        ("outer", "full"),
        ("full_outer", "full"),
        ("leftsemi", "semi"),
        ("left_semi", "semi"),
        ("left_anti", "anti"),
        ("Inner", "inner"),
    ],
)
def test_sparks_spellings_of_join_types_are_taken(how: str, meant: str) -> None:
    assert equi_spec([VIEWS, CLICKS], on="ad_id", within="1 hour", how=how).how.name == meant


@pytest.mark.parametrize(("how", "suggested"), [("iner", "inner"), ("leftt_semi", "left_semi")])
def test_an_unknown_join_type_is_refused_with_a_suggestion(how: str, suggested: str) -> None:
    message = refusal(JoinTypeError, how=how)

    assert f"how={how!r}" in message
    assert "inner, left, right, full, semi, anti" in message
    assert f"Did you mean {suggested!r}?" in message


@pytest.mark.parametrize("how", [None, 1, ["inner"]])
def test_a_join_type_that_is_no_text_is_refused(how: object) -> None:
    assert f"how={how!r}" in refusal(JoinTypeError, how=how)


@pytest.mark.parametrize("where", ["", "  "])
def test_an_empty_condition_is_refused(where: str) -> None:
    assert f"where={where!r} is empty" in refusal(PredicateError, where=where)


@pytest.mark.parametrize("where", [True, ["views.site = clicks.place", 3], []])
def test_a_condition_that_is_no_text_is_refused(where: object) -> None:
    message = refusal(PredicateError, where=where)

    assert f"where={where!r}" in message
    assert "views.price < clicks.bid" in message


def test_several_conditions_must_all_hold() -> None:
    spec = plan(where=["views.site = clicks.place", "views.price > 3 OR clicks.place IS NULL"])
    assert spec.where == (
        "(views.site = clicks.place) AND (views.price > 3 OR clicks.place IS NULL)"
    )


def test_unbounded_must_be_true_or_false() -> None:
    assert "unbounded='yes'" in refusal(PlanError, unbounded="yes")


# --- mistakes in on


def test_a_join_without_on_is_refused() -> None:
    assert "on: missing" in refusal(PlanError, on=None)


@pytest.mark.parametrize("on", ["", [], ["ad_id", ""], {"views": [], "clicks": []}])
def test_an_empty_on_is_refused(on: Any) -> None:
    assert f"on={on!r} is empty" in refusal(PlanError, on=on)


@pytest.mark.parametrize("on", [1, ["ad_id", 2], {"ad_id"}, {"views": "ad_id", "clicks": None}])
def test_an_on_that_names_no_columns_is_refused(on: Any) -> None:
    assert "is not a column name" in refusal(PlanError, on=on)


def test_an_unknown_key_column_is_refused_with_a_suggestion_and_the_dict_form() -> None:
    message = refusal(UnknownColumnError, on="site")

    assert "on='site': the stream 'clicks' has no column 'site'" in message
    assert "on={'views': ..., 'clicks': ...}" in message
    assert "Did you mean 'ad_id'?" in refusal(UnknownColumnError, on="ad_idd")


def test_an_unknown_key_column_in_a_dict_is_refused_without_the_dict_form() -> None:
    message = refusal(UnknownColumnError, on={"views": "site", "clicks": "plaice"})

    assert "Did you mean 'place'?" in message
    assert "..." not in message


def test_a_key_column_that_stands_twice_is_ambiguous() -> None:
    clicks = replace(CLICKS, columns=(*CLICKS.columns, Column("ad_id", "int")))

    message = refusal(AmbiguousColumnError, VIEWS, clicks)

    assert "'ad_id' could be any of 2 columns of the stream 'clicks'" in message


def test_a_key_named_twice_is_refused() -> None:
    assert "'ad_id' of the stream 'views' twice" in refusal(PlanError, on=["ad_id", "AD_ID"])


def test_a_dict_of_keys_must_name_every_stream() -> None:
    message = refusal(StreamNameError, on={"views": "ad_id"})

    assert "lacks the stream(s) clicks" in message


def test_a_dict_of_keys_must_not_name_another_stream() -> None:
    message = refusal(StreamNameError, on={"views": "ad_id", "click": "ad_id"})

    assert "on={'views': 'ad_id', 'click': 'ad_id'}" in message
    assert "'click' is not one of the streams views, clicks" in message
    assert "Did you mean 'clicks'?" in message


def test_a_dict_of_keys_must_have_lists_of_equal_length() -> None:
    message = refusal(PlanError, on={"views": ["ad_id", "site"], "clicks": "ad_id"})

    assert "2 of views, 1 of clicks" in message
    assert "same number of columns" in message


def test_keys_whose_types_do_not_compare_are_refused() -> None:
    message = refusal(KeyTypeError, on={"views": "ad_id", "clicks": "place"})

    assert "views.ad_id is bigint, clicks.place is string" in message
    assert "F.col('place').cast('bigint')" in message


def test_a_key_of_a_nested_type_is_refused() -> None:
    message = refusal(UnsupportedTypeError, on={"views": "tags", "clicks": "place"})

    assert "views.tags is of type 'array<string>'" in message


def test_a_key_with_a_collation_is_refused() -> None:
    views = retyped(VIEWS, "site", "string collate UTF8_LCASE")

    message = refusal(UnsupportedTypeError, views, CLICKS, on={"views": "site", "clicks": "place"})

    assert "views.site" in message
    assert "collation UTF8_LCASE" in message


# --- mistakes in within


@pytest.mark.parametrize("within", ["soon", 5, True, "1 month", "-1 minute", ""])
def test_a_window_that_is_no_duration_is_refused(within: object) -> None:
    assert f"within={within!r}" in refusal(DurationError, within=within)


def test_a_window_in_a_dict_that_is_no_duration_is_refused_by_its_stream() -> None:
    message = refusal(DurationError, within={"views": "1 minute", "clicks": None})

    assert "within['clicks']=None" in message


def test_a_dict_of_windows_must_name_every_stream() -> None:
    assert "lacks the stream(s) clicks" in refusal(StreamNameError, within={"views": "1 minute"})


def test_a_dict_of_windows_must_not_name_another_stream() -> None:
    within = {"views": "1 minute", "clicks": "1 minute", "sales": "1 minute"}

    assert "'sales' is not one of the streams" in refusal(StreamNameError, within=within)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_window_on_a_stream_without_time_is_refused(streaming: bool) -> None:
    views = replace(VIEWS, streaming=streaming)
    clicks = replace(CLICKS, streaming=streaming, time=None, delay=None)

    message = refusal(TimeColumnError, views, clicks)

    assert "within='5 minutes'" in message
    assert "the stream 'clicks' has none" in message
    assert 'wm.stream(df, "clicks", time="clicked_at", ...)' in message


@pytest.mark.parametrize("how", ["inner", "semi"])
def test_streams_without_a_window_are_refused_unless_unbounded(how: str) -> None:
    message = refusal(UnboundedStateError, within=None, how=how)

    assert "within: missing" in message
    assert "nothing would ever leave the state" in message
    assert "unbounded=True" in message


@pytest.mark.parametrize("unbounded", [True, False])
@pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
def test_outer_and_anti_joins_of_streams_need_a_window_even_if_unbounded(
    how: str, unbounded: bool
) -> None:
    message = refusal(WindowError, within=None, how=how, unbounded=unbounded)

    assert f"how={how!r}" in message
    assert "never prove that a row stays unmatched" in message
    assert "not even with unbounded=True" in message


class TestHowTheStateIsHeld:
    def planned(self, *streams: StreamSpec, **arguments: Any) -> EquiSpec:
        arguments = {"on": "ad_id", "within": "5 minutes", **arguments}
        return equi_spec(streams or (VIEWS, CLICKS), **arguments)

    def test_one_way_for_all_streams_or_one_for_each(self) -> None:
        assert self.planned().tuning.index == "auto"
        assert self.planned(tuning=Tuning(index="never")).tuning.index == "never"
        given: dict[str, IndexChoice] = {"clicks": "always", "views": "auto"}
        assert self.planned(tuning=Tuning(index=given)).tuning.index == given

    def test_an_unknown_way_is_refused(self) -> None:
        with pytest.raises(StrategyError, match="index='sometimes' is none of 'auto', 'always'"):
            self.planned(tuning=Tuning(index="sometimes"))  # type: ignore[arg-type]
        with pytest.raises(StrategyError, match="Did you mean 'lazy'?"):
            self.planned(tuning=Tuning(invalidation="laxy"))  # type: ignore[arg-type]
        with pytest.raises(StreamNameError, match="lacks the stream"):
            self.planned(tuning=Tuning(index={"views": "auto"}))

    def test_a_budget_is_given_in_bytes(self) -> None:
        spec = self.planned(budget=Budget(memory="1.5 GiB"))
        assert spec.budget == Budget(memory=1_610_612_736, overflow="spill")

    @pytest.mark.parametrize(
        ("budget", "message"),
        [
            ("2 GB", "is not a wm.Budget"),
            (Budget(), "it limits nothing"),
            (Budget(memory="2 gallons"), "'2 gallons' is not a size"),
            (Budget(memory=0), "must be above 0"),
            (Budget(memory="2 GB", overflow="shred"), "Did you mean 'shed'"),  # type: ignore[arg-type]
            (Budget(rate=-1, overflow="shed"), "rows a second above 0"),
            (Budget(rate="fast", overflow="shed"), "or 'measured'"),
            (Budget(rate=100), "can only be shed"),
        ],
    )
    def test_a_budget_that_makes_no_sense_is_refused(self, budget: Any, message: str) -> None:
        with pytest.raises(BudgetError, match=message):
            self.planned(budget=budget)

    @pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
    def test_shedding_is_refused_where_it_would_make_up_results(self, how: str) -> None:
        with pytest.raises(BudgetError, match="only because their match was shed"):
            self.planned(how=how, budget=Budget(memory="1 GB", overflow="shed"))
        assert self.planned(how=how, budget=Budget(memory="1 GB")).budget is not None

    def test_shedding_needs_windows_and_times_and_streams(self) -> None:
        shed = Budget(memory="1 GB", overflow="shed")
        with pytest.raises(BudgetError, match="needs windows"):
            self.planned(within=None, unbounded=True, budget=shed)
        untimed = replace(CLICKS, time=None, delay=None)
        rate = Budget(rate=5, overflow="shed")
        with pytest.raises(BudgetError, match="clicks has none"):
            self.planned(VIEWS, untimed, within=None, unbounded=True, budget=rate)
        with pytest.raises(BudgetError, match="it is for streams"):
            self.planned(batch(VIEWS), batch(CLICKS), within=None, budget=shed)


class TestPromises:
    ENDS = Punctuation(when="place = 'end'")

    def planned(self, views: dict[str, Any], clicks: dict[str, Any], **arguments: Any) -> EquiSpec:
        streams = [replace(VIEWS, **views), replace(CLICKS, **clicks)]
        return equi_spec(streams, **{"on": "ad_id", **arguments})

    def test_a_join_that_promises_bound_needs_no_window(self) -> None:
        spec = self.planned({"unique": True}, {"punctuation": self.ENDS})
        assert not spec.unbounded
        with pytest.raises(UnboundedStateError):
            self.planned({"unique": True}, {})
        with pytest.raises(UnboundedStateError):
            self.planned({}, {"punctuation": self.ENDS})

    @pytest.mark.parametrize("clicks", [{"unique": True}, {"arrival": "clustered"}])
    def test_keys_that_are_closed_only_when_they_come_bound_nothing(
        self, clicks: dict[str, Any]
    ) -> None:
        with pytest.raises(UnboundedStateError, match="never comes in the other stream would stay"):
            self.planned({"unique": True}, clicks)
        assert self.planned({"unique": True}, clicks, unbounded=True).unbounded
        assert not self.planned({"unique": True}, clicks, within="1 minute").lasting

    def test_an_outer_join_needs_to_hear_of_keys_that_never_come(self) -> None:
        self.planned({"unique": True}, {"punctuation": self.ENDS}, how="left")
        self.planned({"unique": True}, {"arrival": "ordered"}, how="anti")
        with pytest.raises(WindowError, match="which rows of clicks match nothing"):
            self.planned({"unique": True}, {"punctuation": self.ENDS}, how="right")
        with pytest.raises(WindowError, match="arrival='ordered' of clicks"):
            self.planned({"unique": True}, {"arrival": "clustered"}, how="left")

    @pytest.mark.parametrize(
        ("clicks", "arguments", "message"),
        [
            ({"arrival": "sorted"}, {}, "arrival='sorted' is none of"),
            ({"punctuation": "place = 'end'"}, {}, "give wm.Punctuation"),
            ({"arrival": "ordered"}, {"on": {"views": "site", "clicks": "place"}}, "single key"),
            (
                {"punctuation": Punctuation(when="true", low="day")},
                {"on": {"views": "site", "clicks": "place"}},
                "a range needs a single key",
            ),
            ({}, {"emit_punctuations": True}, "no stream has punctuations to emit"),
            ({"punctuation": ENDS}, {"emit_punctuations": True, "how": "semi"}, "how='semi'"),
            ({"punctuation": ENDS}, {"emit_punctuations": True}, "views never closes its keys"),
        ],
    )
    def test_promises_that_cannot_be_kept_are_refused(
        self, clicks: dict[str, Any], arguments: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(PunctuationError, match=message):
            self.planned({}, clicks, within="5 minutes", **arguments)

    def test_columns_goal_and_violations_are_checked(self) -> None:
        low = Punctuation(when="true", low="nowhere")
        with pytest.raises(UnknownColumnError, match="punctuation: the stream 'clicks'"):
            self.planned({}, {"punctuation": low}, within="1 minute")
        with pytest.raises(StrategyError, match="goal='speed' is none of"):
            self.planned({}, {}, within="1 minute", goal="speed")
        with pytest.raises(StrategyError, match="violations='ignore' is none of"):
            self.planned({}, {}, within="1 minute", violations="ignore")

    def test_a_column_tells_punctuations_from_results(self) -> None:
        spec = self.planned({"unique": True}, {"punctuation": self.ENDS}, emit_punctuations=True)
        assert [column.name for column in spec.output][-2:] == ["is_punctuation", "event_time"]

    def test_closed_keys_are_remembered_as_long_as_rows_are_kept(self) -> None:
        streams = {"unique": True}, {"punctuation": self.ENDS}
        within = {"views": "5 minutes", "clicks": "1 minute"}
        delay = max(VIEWS.delay or 0, CLICKS.delay or 0)
        assert delay > 0
        assert self.planned(*streams, within=within).remembered == 5 * MINUTE + delay
        assert self.planned(*streams).remembered is None
        emitting = self.planned(*streams, within=within, emit_punctuations=True)
        assert emitting.remembered is None, "a punctuation may ask at any time"


# --- more than two streams

SALES = replace(CLICKS, name="sales")
REFUNDS = replace(CLICKS, name="refunds")


def test_many_streams_are_planned_each_with_its_window() -> None:
    within = {"views": "5 minutes", "clicks": "1 minute", "sales": "0 seconds"}
    spec = plan(VIEWS, CLICKS, SALES, within=within)

    assert spec.windows == spec.kept == (5 * MINUTE, MINUTE, 0)
    assert spec.preserved == (False, False, False)
    assert spec.carries_event_time
    assert [column.name for column in spec.output] == [
        "ad_id",
        "site",
        "tags",
        "viewed_at",
        "clicks_place",
        "clicks_day",
        "clicks_clicked_at",
        "sales_place",
        "sales_day",
        "sales_clicked_at",
        "event_time",
    ]


def test_a_left_join_of_many_streams_keeps_what_a_first_row_may_have_met() -> None:
    within = {"views": "5 minutes", "clicks": "1 minute", "sales": "0 seconds"}
    spec = plan(VIEWS, CLICKS, SALES, within=within, how="left")

    assert spec.preserved == (True, False, False)
    assert spec.kept == (5 * MINUTE, 6 * MINUTE, 5 * MINUTE)


@pytest.mark.parametrize("how", ["right", "full", "semi", "anti"])
def test_other_join_types_are_for_two_streams(how: str) -> None:
    message = refusal(JoinTypeError, VIEWS, CLICKS, SALES, how=how)

    assert f"how={how!r} is for two streams" in message
    assert "inner, left" in message


@pytest.mark.parametrize(
    "promise", [{"unique": True}, {"arrival": "ordered"}, {"punctuation": Punctuation("true")}]
)
def test_promises_are_for_two_streams(promise: dict[str, Any]) -> None:
    message = refusal(PunctuationError, VIEWS, replace(CLICKS, **promise), SALES)

    assert "'clicks'" in message
    assert "joins of two" in message


def test_a_rate_is_divided_between_two_streams() -> None:
    budget = Budget(rate=100, overflow="shed")
    assert "two streams; 3 are given" in refusal(BudgetError, VIEWS, CLICKS, SALES, budget=budget)


def test_memory_is_for_any_number_of_streams() -> None:
    for overflow in ("spill", "shed", "fail"):
        spec = plan(VIEWS, CLICKS, SALES, REFUNDS, budget=Budget(memory="1 MB", overflow=overflow))
        assert spec.budget is not None


@pytest.mark.parametrize("fanout", [0, -1, 2.5, True, "10"])
def test_a_fanout_is_a_number_of_results(fanout: Any) -> None:
    message = refusal(BudgetError, budget=Budget(fanout=fanout, overflow="fail"))

    assert f"fanout={fanout!r}" in message


def test_a_fanout_needs_to_know_what_happens() -> None:
    assert "overflow='shed'" in refusal(BudgetError, budget=Budget(fanout=10))


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_a_fanout_that_leaves_out_results_is_not_for_outer_joins(how: str) -> None:
    message = refusal(BudgetError, how=how, budget=Budget(fanout=10, overflow="shed"))
    assert "unmatched" in message


def test_an_unknown_driver_is_refused() -> None:
    tuning = Tuning(driver="timestamps")  # type: ignore[arg-type]
    assert "Did you mean 'timestamp'?" in refusal(StrategyError, tuning=tuning)


def test_a_driver_by_time_needs_times() -> None:
    untimed = replace(SALES, time=None, delay=None)
    message = refusal(
        StrategyError,
        VIEWS,
        CLICKS,
        untimed,
        within=None,
        unbounded=True,
        tuning=Tuning(driver="timestamp"),
    )
    assert "sales has none" in message


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "10"])
def test_purge_after_is_a_number_of_punctuations(count: Any) -> None:
    ending = replace(CLICKS, punctuation=Punctuation("true"))
    assert f"purge_after={count!r}" in refusal(
        PunctuationError, VIEWS, ending, tuning=Tuning(purge_after=count)
    )


def test_purge_after_needs_keys_that_are_over() -> None:
    assert "no stream closes its keys" in refusal(PunctuationError, tuning=Tuning(purge_after=10))


@pytest.mark.parametrize("kind", ["double", "string", "decimal(10,2)"])
def test_bounds_of_a_range_have_the_type_of_the_key(kind: str) -> None:
    columns = (*CLICKS.columns, Column("low", kind))
    ranged = replace(CLICKS, columns=columns, punctuation=Punctuation("true", low="low"))
    message = refusal(PunctuationError, VIEWS, ranged)
    assert f"the bound 'low' is of type {kind}, the key of type bigint" in message


@pytest.mark.parametrize(("prefix", "name"), [(None, "views_site"), ("v_", "v_site"), ("", "site")])
def test_shared_column_names_get_the_prefix_that_is_asked_for(
    prefix: str | None, name: str
) -> None:
    clicks = replace(CLICKS, columns=(*CLICKS.columns, Column("site", "string")))
    spec = equi_spec([replace(VIEWS, prefix=prefix), clicks], on="ad_id", within="1 hour")
    names = [column.name for column in spec.output]
    assert name in names
    assert "clicks_site" in names


def test_a_prefix_that_is_no_text_is_refused() -> None:
    views = replace(VIEWS, prefix=3)  # type: ignore[arg-type]
    assert "prefix=3 is not a string" in refusal(PlanError, views, CLICKS)


@pytest.mark.parametrize(
    ("how", "event_time", "hold"),
    [
        ("inner", None, 0),
        ("inner", "greatest", 0),
        ("inner", "clicks", 1),
        ("left", "greatest", 5),
        ("left", "clicks", 1),
        ("right", "greatest", 1),
        ("full", "greatest", 5),
        ("semi", "views", 5),
        ("anti", "greatest", 5),
    ],
)
def test_sparks_watermark_is_held_back_as_far_as_results_may_be_behind_the_joins(
    how: str, event_time: str | None, hold: int
) -> None:
    within = {"views": "5 minutes", "clicks": "1 minute"}
    spec = plan(how=how, within=within, event_time=event_time)
    assert spec.hold == hold * MINUTE
    assert spec.output[-1].name == "event_time"


def test_what_is_held_back_is_what_delays_are_longer_by() -> None:
    # Given a window and a delay that are a part of a millisecond each, and Spark, which rounds up,
    views = replace(VIEWS, delay=500)
    spec = plan(views, CLICKS, how="left", within="1500 us", event_time="views")
    held, alone = (durations.milliseconds(500 + hold) for hold in (spec.hold, 0))
    # then the delay with what is held back is longer by what the join takes off.
    assert held - alone == durations.milliseconds(spec.hold) == 2


def test_a_join_may_hold_the_watermark_back_for_one_that_follows() -> None:
    # Given a join that holds it back for an hour more than it needs,
    first = plan(how="left", within="5 minutes", event_time="views", hold="1 hour")
    assert first.hold == 65 * MINUTE
    # when its result is joined again, it is ahead by that hour: windows up to that may be named.
    seen = replace(VIEWS, watermarked=True, ahead=60 * MINUTE)
    assert plan(seen, CLICKS, how="left", within="1 hour", event_time="views").hold == 60 * MINUTE
    longer = {"how": "left", "within": "61 minutes", "event_time": "views"}
    assert "hold='1 h 1 min' to that one" in refusal(TimeColumnError, seen, CLICKS, **longer)
    # What is held back for a third join counts too.
    for_third = {"how": "left", "within": "1 hour", "event_time": "views", "hold": "1 second"}
    assert "hold='1 h 1 s' to that one" in refusal(TimeColumnError, seen, CLICKS, **for_third)


def test_a_watermark_is_held_back_for_others_only_if_there_is_an_event_time_to_go_on_with() -> None:
    message = refusal(TimeColumnError, how="left", hold="1 hour")
    assert "hold='1 h' holds Spark's watermark back for a join that follows" in message
    assert "event_time='views'" in message
    assert plan(how="inner", hold="1 hour").hold == 60 * MINUTE


def test_in_a_left_join_of_many_streams_others_may_be_behind_by_the_first_window_too() -> None:
    within = {"views": "5 minutes", "clicks": "1 minute", "sales": "0 seconds"}
    for event_time, hold in (("greatest", 5), ("views", 5), ("clicks", 6), ("sales", 5)):
        spec = plan(VIEWS, CLICKS, SALES, within=within, how="left", event_time=event_time)
        assert spec.hold == hold * MINUTE


def test_an_event_time_that_cannot_be_carried_on_is_refused() -> None:
    assert "'views'" in refusal(PlanError, how="semi", event_time="clicks")
    assert "Did you mean 'views'?" in refusal(PlanError, how="left", event_time="view")
    own = replace(CLICKS, watermarked=True)
    message = refusal(TimeColumnError, VIEWS, own, how="left", event_time="views")
    assert "holds Spark's watermark back by 5 min" in message
    assert "Give delay=... to wm.stream instead of withWatermark" in message
    untimed = replace(CLICKS, time=None, delay=None)
    refused = {"within": None, "unbounded": True, "event_time": "greatest"}
    assert "clicks has none" in refusal(TimeColumnError, VIEWS, untimed, **refused)
    timed = {"within": None, "unbounded": True, "event_time": "views"}
    assert "Give within=..." in refusal(WindowError, **timed)
