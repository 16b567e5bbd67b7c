"""Names: which column is meant, and what the columns of a result are called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plan.asking import equi_spec
from watersmeet.errors import AmbiguousColumnError, PlanError, UnknownColumnError
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.plan.naming import resolve
from watersmeet.spec.output import OutputColumn
from watersmeet.spec.stream import Column, StreamSpec


def stream(name: str, columns: str, *, time: str | None = None) -> StreamSpec:
    """A batch input from text like ``"ad_id int, price double"``."""
    parsed = tuple(Column(*column.split()) for column in columns.split(", "))
    return StreamSpec(name, parsed, streaming=False, time=time)


VIEWS = stream("views", "ad_id int, price double, viewed_at timestamp")
CLICKS = stream("clicks", "ad_id int, price double, user string, clicked_at timestamp")


def names(spec: EquiSpec) -> list[str]:
    return [column.name for column in spec.output]


# --- resolve


def test_a_name_spelled_exactly_wins_over_one_that_differs_in_case() -> None:
    views = stream("views", "id int, ID bigint")

    assert resolve(views, "ID", argument="on") == Column("ID", "bigint")


def test_a_name_that_differs_just_in_case_is_found_if_it_is_the_only_one() -> None:
    assert resolve(VIEWS, "AD_ID", argument="on") == Column("ad_id", "int")


def test_a_name_that_could_be_two_columns_by_case_is_ambiguous() -> None:
    views = stream("views", "id int, ID bigint")

    with pytest.raises(AmbiguousColumnError, match=r"'Id' could .* 2 columns .*'id', 'ID'"):
        resolve(views, "Id", argument="on")


def test_a_name_that_stands_twice_in_a_dataframe_is_ambiguous() -> None:
    views = stream("views", "id int, id int")

    with pytest.raises(AmbiguousColumnError, match=r"on: 'id' .*'views'.*Rename or drop"):
        resolve(views, "id", argument="on")


def test_an_unknown_name_gets_a_suggestion_and_the_list_of_columns() -> None:
    with pytest.raises(UnknownColumnError) as caught:
        resolve(VIEWS, "add_id", argument="on='add_id'")

    assert "on='add_id'" in str(caught.value)
    assert "'views' has no column 'add_id'" in str(caught.value)
    assert "Did you mean 'ad_id'?" in str(caught.value)
    assert "ad_id, price, viewed_at" in str(caught.value)


def test_a_long_list_of_columns_is_cut_short() -> None:
    wide = stream("wide", ", ".join(f"c{i} int" for i in range(25)))

    with pytest.raises(UnknownColumnError, match=r"c19 and 5 more"):
        resolve(wide, "zebra", argument="on")


def test_a_name_with_the_stream_in_front_is_told_to_leave_it_out() -> None:
    with pytest.raises(UnknownColumnError, match="Did you mean 'ad_id', without the stream's name"):
        resolve(VIEWS, "views.ad_id", argument="on")


def test_a_field_of_a_struct_is_told_to_be_selected_first() -> None:
    views = stream("views", "user struct<id:int>")

    with pytest.raises(UnknownColumnError, match="field of 'user', select it as a column"):
        resolve(views, "user.id", argument="on")


# --- result columns


def test_keys_come_first_then_each_streams_other_columns_with_shared_names_prefixed() -> None:
    spec = equi_spec([VIEWS, CLICKS], on="ad_id", how="left")

    assert spec.output == (
        OutputColumn("ad_id", "int", stream=0, column="ad_id", key=0),
        OutputColumn("views_price", "double", stream=0, column="price"),
        OutputColumn("viewed_at", "timestamp", stream=0, column="viewed_at"),
        OutputColumn("clicks_price", "double", stream=1, column="price"),
        OutputColumn("user", "string", stream=1, column="user"),
        OutputColumn("clicked_at", "timestamp", stream=1, column="clicked_at"),
    )


def test_keys_stand_in_the_order_of_on_and_not_of_the_stream() -> None:
    spec = equi_spec([VIEWS, CLICKS], on=["price", "ad_id"])

    assert names(spec)[:2] == ["price", "ad_id"]
    assert [column.key for column in spec.output[:3]] == [0, 1, None]


def test_a_key_has_the_first_streams_name_and_the_common_type_and_appears_once() -> None:
    clicks = stream("clicks", "ad bigint, user string")

    spec = equi_spec([VIEWS, clicks], on={"views": "ad_id", "clicks": "ad"})

    assert spec.output[0] == OutputColumn("ad_id", "bigint", stream=0, column="ad_id", key=0)
    assert names(spec) == ["ad_id", "price", "viewed_at", "user"]


def test_a_column_with_the_name_of_a_key_of_the_result_is_prefixed() -> None:
    clicks = stream("clicks", "ad int, ad_id int")

    spec = equi_spec([VIEWS, clicks], on={"views": "ad_id", "clicks": "ad"})

    assert names(spec) == ["ad_id", "price", "viewed_at", "clicks_ad_id"]


def test_a_column_with_the_name_of_the_other_streams_unseen_key_keeps_its_name() -> None:
    views = stream("views", "ad_id int, ad string")
    clicks = stream("clicks", "ad int, user string")

    spec = equi_spec([views, clicks], on={"views": "ad_id", "clicks": "ad"})

    assert names(spec) == ["ad_id", "ad", "user"]


def test_an_inner_join_of_streams_with_times_ends_with_event_time() -> None:
    views, clicks = replace(VIEWS, time="viewed_at"), replace(CLICKS, time="clicked_at")

    spec = equi_spec([views, clicks], on="ad_id")

    assert spec.output[-1] == OutputColumn("event_time", "timestamp")


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_no_other_join_has_an_event_time(how: str) -> None:
    views, clicks = replace(VIEWS, time="viewed_at"), replace(CLICKS, time="clicked_at")

    assert "event_time" not in names(equi_spec([views, clicks], on="ad_id", how=how))


def test_an_inner_join_has_no_event_time_if_one_stream_has_no_time() -> None:
    views = replace(VIEWS, time="viewed_at")

    assert "event_time" not in names(equi_spec([views, CLICKS], on="ad_id"))


def test_a_column_called_event_time_is_prefixed_where_the_join_carries_event_time() -> None:
    views = stream("views", "ad_id int, event_time timestamp", time="event_time")
    clicks = stream("clicks", "ad_id int, at timestamp", time="at")

    inner = equi_spec([views, clicks], on="ad_id")
    left = equi_spec([views, clicks], on="ad_id", how="left")

    assert names(inner) == ["ad_id", "views_event_time", "at", "event_time"]
    assert names(left) == ["ad_id", "event_time", "at"]


def test_names_that_differ_just_in_case_count_as_shared() -> None:
    clicks = stream("clicks", "ad_id int, Price double")

    spec = equi_spec([VIEWS, clicks], on="ad_id")

    assert names(spec) == ["ad_id", "views_price", "viewed_at", "clicks_Price"]


def test_columns_that_differ_just_in_case_in_their_own_dataframe_stay_as_they_are() -> None:
    views = stream("views", "ad_id int, a int, A int")
    clicks = stream("clicks", "ad_id int, user string")

    assert names(equi_spec([views, clicks], on="ad_id")) == ["ad_id", "a", "A", "user"]


def test_a_prefixed_name_that_is_taken_asks_to_rename() -> None:
    clicks = stream("clicks", "ad_id int, price double, views_price double")

    with pytest.raises(PlanError) as caught:
        equi_spec([VIEWS, clicks], on="ad_id")

    assert "two columns 'views_price'" in str(caught.value)
    assert "views.price and clicks.views_price" in str(caught.value)
    assert "Rename" in str(caught.value)


def test_a_key_called_event_time_asks_to_rename_where_the_join_carries_event_time() -> None:
    views = stream("views", "event_time timestamp, price double", time="event_time")
    clicks = stream("clicks", "event_time timestamp, user string", time="event_time")

    with pytest.raises(PlanError) as caught:
        equi_spec([views, clicks], on="event_time")

    assert "views.event_time and the event time of the join" in str(caught.value)


def test_a_column_that_stands_twice_in_a_result_is_ambiguous() -> None:
    views = stream("views", "ad_id int, price int, price int")

    for how in ("inner", "semi"):
        with pytest.raises(AmbiguousColumnError, match="'views' has 2 columns of the name 'price'"):
            equi_spec([views, CLICKS], on="ad_id", how=how)


def test_a_column_that_stands_twice_but_is_not_in_the_result_does_not_matter() -> None:
    clicks = stream("clicks", "ad_id int, user string, user string")

    assert names(equi_spec([VIEWS, clicks], on="ad_id", how="semi"))[0] == "ad_id"


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_semi_and_anti_have_exactly_the_first_streams_columns_in_its_own_order(how: str) -> None:
    views = stream("views", "price double, ad_id int, at timestamp", time="at")
    clicks = stream("clicks", "ad bigint, price double")

    spec = equi_spec([views, clicks], on={"views": "ad_id", "clicks": "ad"}, how=how)

    assert spec.output == (
        OutputColumn("price", "double", stream=0, column="price"),
        OutputColumn("ad_id", "bigint", stream=0, column="ad_id", key=0),
        OutputColumn("at", "timestamp", stream=0, column="at"),
    )
