"""Regular expressions are found where Java finds them, or are refused."""

from __future__ import annotations

import itertools
import random
import re

import polars as pl
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from watersmeet.spark.sql.regexes import java_to_rust, plain_text

#: Alphabets and line breaks in which both differ, beside plain characters.
CHARACTERS = ["a", "B", "3", "_", " ", "\n", "\r", "\t", "\u000b", "\x85", "\u2028", "é", "٣", "😀"]
PIECES = ["a", "B", "é", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", r"\.", "[a-z]", "[^a]"]
PIECES += [r"[\d_]", r"[^\w]", "(a|B)", "(?:a.)", "a|3", "\n", "\r"]
TIMES = ["", "", "", "+", "*", "?", "{2}", "{1,2}", "*?"]


def random_patterns(count: int) -> list[str]:
    dice = random.Random(1)
    made = (
        dice.choice(["", "^"])
        + "".join(dice.choice(PIECES) + dice.choice(TIMES) for _ in range(dice.randint(0, 3)))
        + dice.choice(["", "$"])
        for _ in itertools.count()
    )
    known = (pattern for pattern in made if java_to_rust(pattern) is not None)
    return list(itertools.islice(known, count))


def random_texts() -> list[str]:
    dice = random.Random(2)
    texts = ["".join(dice.choices(CHARACTERS, k=dice.randint(0, 4))) for _ in range(150)]
    ends = ["\r\n", "\n\r", "\r", "\n", "\x85", "\n\n", "\r\r\n"]
    return [*texts, *(start + end for start in ("", "a", "a3", "B\r") for end in ends)]


@pytest.mark.spark
def test_a_pattern_is_found_where_java_finds_it(spark: SparkSession) -> None:
    # Given texts with every kind of line break, and patterns of all that is known,
    patterns, texts = random_patterns(250), random_texts()
    frame = spark.createDataFrame([(text,) for text in texts], "s string")
    # when Spark and Polars look for them,
    by_java = frame.select(*(F.col("s").rlike(pattern) for pattern in patterns)).collect()
    column = pl.Series(texts)
    # then they find the same.
    for number, pattern in enumerate(patterns):
        by_rust = column.str.contains(java_to_rust(pattern) or "").to_list()
        different = [
            text
            for text, one, java in zip(texts, by_rust, by_java, strict=True)
            if one != java[number]
        ]
        assert different == [], pattern
    assert sum("$" in pattern for pattern in patterns) > 50


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("^(ad|promo)-[0-9]+", "ad-17", "bad-1"),
        (r"[A-Za-z_.-]+@x\.(org|net)", "me@x.org", "me@xyorg"),
        (r"^\d{3}$", "123\n", "٣٣٣"),
        (r"^[^@]+@x$", "a@x\r\n", "a@xy"),
        ("a.c", "aéc", "a\u2028c"),
        (r"[\w.]+?-\s", "é.- ", "é- "),
        ("", "", None),
    ],
)
def test_a_known_pattern_means_what_it_means_in_java(
    pattern: str, found: str, not_found: str | None
) -> None:
    regex = java_to_rust(pattern)
    assert regex is not None
    assert pl.Series([found]).str.contains(regex).item()
    assert not_found is None or not pl.Series([not_found]).str.contains(regex).item()


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"\bx", "a++", "(?i)a", r"(a)\1", "a^", "a$b", "[a--b]", "[[a]]", "(a", "a)", "*a", "a{"),
        *("[z-a]", r"\p{L}", "(?<n>a)", "(?=a)", "a{2}{3}", "a{3,2}", "((a{999}){999}){999}"),
        *(r"\s$", r"a\s*$", r"(a|\s)$", "[^a]*$", "\r$", r"\Wa?$", r"\s|$"),
    ],
)
def test_any_other_pattern_is_refused(pattern: str) -> None:
    assert java_to_rust(pattern) is None


@pytest.mark.parametrize("text", [",", "|", ".", "a.b", "\\", "||", " - "])
def test_an_escaped_text_is_a_plain_one(text: str) -> None:
    assert plain_text(re.sub(r"([.+*?()|\[\]{}^$\\/-])", r"\\\1", text)) == text


@pytest.mark.parametrize("pattern", ["", "a|b", "a*", "[ab]", r"\s", "(a)", "a\\"])
def test_what_may_stand_for_several_texts_is_not_plain(pattern: str) -> None:
    assert plain_text(pattern) is None
