"""The code of every document runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.oracle import assert_same_rows

DOCUMENTS = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))


@pytest.mark.spark
@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.stem)
def test_the_code_of_the_document_runs(document: Path, run_document: Callable[[Path], int]) -> None:
    assert run_document(document) == document.read_text().count("```python\n")


def test_there_are_documents() -> None:
    assert DOCUMENTS


BOTH = ["user_id", "price", "viewed_at", "bid", "clicked_at"]
#: On the page "Replace your Spark join": Spark's join, ours, and the columns of the result besides
#: the key.
REPLACED = [
    ("spark_inner", "inner", BOTH),
    ("spark_inner", "pasted", BOTH),
    ("spark_left", "left", BOTH),
    ("spark_right", "right", BOTH),
    ("spark_full", "full", BOTH),
    ("spark_semi", "semi", BOTH[:3]),
    ("spark_anti", "anti", BOTH[:3]),
    ("spark_dear", "dear", BOTH),
    ("spark_chain", "funnel", [*BOTH, "amount", "sold_at"]),
]


@pytest.mark.spark
def test_joins_that_replace_sparks_give_the_same_rows(
    spark: SparkSession, run_document: Callable[..., int]
) -> None:
    # Given views, and clicks and sales before them, at the ends of the interval, and outside,
    def at(second: int) -> dt.datetime:
        return dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC) + dt.timedelta(seconds=second)

    views = [(ad, 10 + ad, 0.5, at(600)) for ad in range(1, 7)] + [(1, 20, 0.5, at(660))]
    clicks = [(1, 0.9, at(600)), (1, 0.1, at(630)), (2, 0.9, at(900)), (3, 0.9, at(901))]
    clicks += [(4, 0.9, at(599)), (5, 0.9, at(299)), (9, 0.9, at(600))]
    sales = [(1, 9.5, at(700)), (1, 8.5, at(610)), (2, 9.5, at(599)), (4, 9.5, at(700))]
    names: dict[str, Any] = {
        "views_df": spark.createDataFrame(
            views, "ad_id bigint, user_id bigint, price double, viewed_at timestamp"
        ),
        "clicks_df": spark.createDataFrame(
            clicks, "ad_id bigint, bid double, clicked_at timestamp"
        ),
        "sales_df": spark.createDataFrame(sales, "ad_id bigint, amount double, sold_at timestamp"),
    }
    # when all joins of the page run over them, then each two give the same rows.
    run_document(Path(__file__).parent.parent / "docs" / "replace.md", names)
    for native, ours, columns in REPLACED:
        both = "clicked_at" in columns
        key = F.expr("coalesce(views.ad_id, clicks.ad_id)" if both else "ad_id").alias("ad_id")
        wanted = names[native].select(key, *columns).toArrow()
        assert wanted.num_rows > 0
        assert_same_rows(names[ours].select("ad_id", *columns).toArrow(), wanted)
    wanted = names["spark_minutes"].select("window.start", "count").toArrow()
    assert_same_rows(names["minutes"].select("window.start", "count").toArrow(), wanted)
