"""What tests of all folders share: one Spark for all of them, and documents that run."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import watersmeet as wm

ROOT = Path(__file__).parent.parent

# Helpers' assertions tell what they compared, and hold under ``python -O`` too.
pytest.register_assert_rewrite(
    "tests.oracle", "tests.conformance", "tests.joins", "tests.spark", "tests.state"
)

# The JVMs of tests, also of those that tests start, live too short for the optimising compiler
# to pay: without it they are done in about six sevenths of the time.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_VIEWS = "ad_id bigint, user_id bigint, price double, viewed_at timestamp"
_CLICKS = "ad_id bigint, bid double, clicked_at timestamp"
_SALES = "ad_id bigint, amount double, sold_at timestamp"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session of all tests."""
    session = wm.local_session(cores=2, name="watersmeet tests")
    session.sparkContext.setLogLevel("ERROR")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.watersmeet.cache.folder", str(tmp_path_factory.mktemp("cache")))
    yield session
    session.stop()


@pytest.fixture
def run_document(spark: SparkSession, tmp_path: Path) -> Callable[..., int]:
    """Runs a document's Python blocks, top to bottom; gives how many there were.

    The blocks share their names. They find ``spark``, the streams ``views_df``, ``clicks_df``
    and ``sales_df`` with a few rows, and, new for each block, the folders ``out`` and
    ``ck``. Queries that a block started are stopped when they have read the rows. A dict of
    ``names`` replaces some of what they find, and gets all that they define.
    """

    def run(document: Path, names: dict[str, Any] | None = None) -> int:
        blocks = _BLOCK.findall(document.read_text())
        partitions = spark.conf.get("spark.sql.shuffle.partitions")
        names = {} if names is None else names
        names |= {"spark": spark, **_streams(spark, tmp_path), **names}
        try:
            for number, block in enumerate(blocks):
                folder = tmp_path / f"block-{number}"
                names |= {"out": str(folder / "out"), "ck": str(folder / "ck")}
                exec(compile(block, f"{document.name}, Python block {number + 1}", "exec"), names)
                for query in spark.streams.active:
                    query.processAllAvailable()
                    query.stop()
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        return len(blocks)

    return run


def _streams(spark: SparkSession, folder: Path) -> dict[str, object]:
    def at(second: int) -> dt.datetime:
        return dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC) + dt.timedelta(seconds=second)

    views = [(ad, 100 + ad, 0.5, at(ad)) for ad in range(60)]
    clicks = [(ad, 0.1 * ad, at(ad + 30)) for ad in range(0, 60, 3)]
    spark.createDataFrame(views, _VIEWS).write.parquet(str(folder / "views"))
    spark.createDataFrame(clicks, _CLICKS).write.parquet(str(folder / "clicks"))
    sales = [(ad, 9.5, at(ad + 60)) for ad in range(0, 60, 6)]
    spark.createDataFrame(sales, _SALES).write.parquet(str(folder / "sales"))
    return {
        "views_df": spark.readStream.schema(_VIEWS).parquet(str(folder / "views")),
        "clicks_df": spark.readStream.schema(_CLICKS).parquet(str(folder / "clicks")),
        "sales_df": spark.readStream.schema(_SALES).parquet(str(folder / "sales")),
        "views_path": str(folder / "views"),
        "clicks_path": str(folder / "clicks"),
    }
