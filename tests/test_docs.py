"""The code of every document runs, its links and modules exist, and its table of joins is right."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.oracle import assert_same_rows
from watersmeet.testing import LocalJoin, LocalStream

ROOT = Path(__file__).parent.parent
DOCS, PACKAGE = ROOT / "docs", ROOT / "src/watersmeet"
DOCUMENTS = sorted(DOCS.rglob("*.md"))
PAGES = [*DOCUMENTS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
#: The pages that name modules: by their paths in the package, or in the repository.
ABOUT_CODE = [
    DOCS / "architecture.md",
    DOCS / "spark.md",
    *sorted((DOCS / "internals").glob("*.md")),
    ROOT / "CONTRIBUTING.md",
]
#: A path in one of these pages that is not ours.
FOREIGN = {"google/protobuf"}


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.spark
@pytest.mark.parametrize("document", DOCUMENTS, ids=_name)
def test_the_code_of_the_document_runs(document: Path, run_document: Callable[[Path], int]) -> None:
    assert run_document(document) == document.read_text().count("```python\n")


def test_there_are_documents() -> None:
    assert DOCUMENTS


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_links_of_the_page_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", page.read_text()):
        other = page.parent / target if target else page
        assert other.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in _anchors(other), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", DOCUMENTS, ids=_name)
def test_the_page_is_in_the_package_and_links_only_to_pages_there(page: Path) -> None:
    assert (PACKAGE / page.relative_to(ROOT)).exists()
    for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
        other = (page.parent / target).resolve()
        assert other.is_relative_to(DOCS), f"{page.name} links to {target}, outside of docs/"


@pytest.mark.parametrize("page", ABOUT_CODE, ids=_name)
def test_the_modules_that_the_page_names_exist(page: Path) -> None:
    # A path such as `state/store`, `joins/*/step`, `spec/` or `joins/families.py`, in backticks,
    found = set(re.findall(r"`([a-z_*]+/[a-z_*/]*(?:\.py)?)`", page.read_text())) - FOREIGN
    assert found
    missing = {path for path in found if not _exists(path)}
    assert not missing, f"{page.name} names {sorted(missing)}"
    # and a command such as `python -m benchmarks.cold_start`.
    for module in re.findall(r"python -m\s+([\w.]+)", page.read_text()):
        assert _exists(module.replace(".", "/")), f"{page.name} runs {module}"


def _exists(path: str) -> bool:
    return any(
        any(top.glob(path.rstrip("/") + end)) for top in (PACKAGE, ROOT) for end in ("", ".py")
    )


def _anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them in links."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


INSTANT = pa.timestamp("us", "UTC")
JOIN_TYPES = ["inner", "left", "right", "full", "semi", "anti"]
#: A micro-batch of the table "Row by row": what arrives, the watermark, and what each join emits.
Line = dict[str, str]


@pytest.mark.parametrize("how", JOIN_TYPES)
def test_the_table_of_arrivals_says_what_the_join_emits(how: str) -> None:
    # Given the join that the guide describes above its table,
    schemas = {
        name: pa.schema([("ad", pa.string()), (name, pa.string()), ("time", INSTANT)])
        for name in ("view", "click")
    }
    join = LocalJoin(
        {
            name: LocalStream(schema, time="time", delay="5 seconds")
            for name, schema in schemas.items()
        },
        on="ad",
        within="10 seconds",
        how=how,
    )
    lines = _table_of_arrivals()
    assert len(lines) == 14
    for line in lines:
        # when what a line says arrives, under the watermark that it says,
        assert line["watermark"] == _second(join.watermark), line
        rows = _arriving(line["arrives"], schemas)
        result = join.batch(**rows) if rows else join.pause()
        # then the join emits what the line says.
        emitted = ["+".join(_names(row)) for row in result.to_pylist()]
        assert sorted(emitted) == sorted(filter(None, line[how].split(", "))), line
        assert sum(stream.late for stream in join.counters.streams) == ("v7" in line["arrives"])
    assert sum(join.unproven()) == (1 if how in ("left", "full", "anti") else 0), "v8 waits"


def _table_of_arrivals() -> list[Line]:
    rows = re.findall(r"^\| (?:#|\d+) \|.*\|$", (ROOT / "docs/guide.md").read_text(), re.MULTILINE)
    titles, *lines = ([cell.strip(" `") for cell in row.split("|")[1:-1]] for row in rows)
    return [dict(zip(titles, line, strict=True)) for line in lines]


def _arriving(text: str, schemas: dict[str, pa.Schema]) -> dict[str, pa.Table]:
    """The row of a line, such as "v1: ad A, time 10", by its stream."""
    if text == "no rows":
        return {}
    found = re.fullmatch(r"(([vc])\d): ad (\w+), time (\d+)", text)
    assert found, text
    name, letter, ad, second = found.groups()
    stream = {"v": "view", "c": "click"}[letter]
    values = [None if ad == "null" else ad], [name], [int(second) * 1_000_000]
    columns = [pa.array(v, t) for v, t in zip(values, schemas[stream].types, strict=True)]
    return {stream: pa.table(columns, schema=schemas[stream])}


def _names(row: dict[str, Any]) -> list[str]:
    return [row[name] or "null" for name in ("view", "click") if name in row]


def _second(watermark: int | None) -> str:
    return "" if watermark is None else str(watermark // 1_000_000)


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
