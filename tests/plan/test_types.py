"""Key types: which may be keys, and in which type different ones are compared."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import UnsupportedTypeError
from watersmeet.plan.types import check_key_type, common_type

ATOMIC = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,2)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]


@pytest.mark.parametrize("type", ATOMIC)
def test_an_atomic_type_may_be_a_key_and_equal_types_stay(type: str) -> None:
    check_key_type(type, column="views.ad_id")

    assert common_type([type, type]) == type


@pytest.mark.parametrize(
    "type",
    ["array<int>", "map<string,int>", "struct<a:int>", "variant", "void", "interval day to second"],
)
def test_a_type_without_plain_equality_may_not_be_a_key(type: str) -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        check_key_type(type, column="views.ad_id")

    assert "views.ad_id" in str(caught.value)
    assert repr(type) in str(caught.value)
    assert "cannot be a key" in str(caught.value)


def test_a_collated_string_may_not_be_a_key() -> None:
    with pytest.raises(UnsupportedTypeError) as caught:
        check_key_type("string collate UTF8_LCASE", column="views.name")

    assert "views.name" in str(caught.value)
    assert "collation UTF8_LCASE" in str(caught.value)
    assert "F.lower" in str(caught.value)


# Pairs: what Spark 4.3 casts to in the analysed plan of a join; triples: the type of its coalesce.
@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (("tinyint", "smallint"), "smallint"),
        (("int", "bigint"), "bigint"),
        (("tinyint", "bigint"), "bigint"),
        (("decimal(10,2)", "decimal(12,1)"), "decimal(13,2)"),
        (("decimal(10,2)", "int"), "decimal(12,2)"),
        (("decimal(10,2)", "bigint"), "decimal(22,2)"),
        (("decimal(30,2)", "decimal(38,20)"), "decimal(38,10)"),
        (("decimal(38,0)", "decimal(38,38)"), "decimal(38,0)"),
        (("float", "double"), "double"),
        (("float", "int"), "double"),
        (("double", "bigint"), "double"),
        (("float", "decimal(10,2)"), "double"),
        (("tinyint", "int", "bigint"), "bigint"),
        (("int", "decimal(5,2)", "bigint"), "decimal(22,2)"),
        (("int", "decimal(5,2)", "float"), "double"),
    ],
)
def test_different_numbers_are_compared_in_a_type_that_holds_them_in_any_order(
    types: tuple[str, ...], expected: str
) -> None:
    assert {common_type(order) for order in permutations(types)} == {expected}


@pytest.mark.parametrize(
    "types",
    [
        ("string", "int"),
        ("boolean", "int"),
        ("date", "timestamp"),
        ("timestamp", "timestamp_ntz"),
        ("string", "binary"),
        ("string", "date"),
        ("int", "bigint", "string"),
    ],
)
def test_types_of_different_kinds_do_not_compare(types: tuple[str, ...]) -> None:
    assert {common_type(order) for order in permutations(types)} == {None}


@given(st.lists(st.sampled_from(ATOMIC), min_size=1, max_size=4))
def test_a_common_type_may_itself_be_a_key(types: list[str]) -> None:
    common = common_type(types)

    if common is not None:
        check_key_type(common, column="views.ad_id")


@given(
    st.lists(
        st.integers(1, 38).flatmap(
            lambda precision: st.tuples(st.just(precision), st.integers(0, precision))
        ),
        min_size=2,
        max_size=4,
    )
)
def test_a_common_decimal_keeps_every_integral_digit(shapes: list[tuple[int, int]]) -> None:
    common = common_type([f"decimal({precision},{scale})" for precision, scale in shapes])

    assert common is not None
    precision, scale = map(int, common.removeprefix("decimal(").removesuffix(")").split(","))
    assert precision <= 38
    assert precision - scale >= max(precision - scale for precision, scale in shapes)
