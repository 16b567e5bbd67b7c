"""Planning an enrichment: what is refused, and what follows from memory and shards."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.plan.asking import enrich_spec, explain, plan_enrich
from watersmeet import errors
from watersmeet.joins.enrich.plan import EnrichPlan
from watersmeet.joins.enrich.policy import enrich_policy
from watersmeet.joins.enrich.spec import EnrichSpec, EnrichTuning, Wait
from watersmeet.spec.stream import Column, Punctuation, StreamSpec
from watersmeet.table.staged_table import TableSize
from watersmeet.testing import LocalBackend

VIEWS = StreamSpec(
    "views",
    (Column("product", "int"), Column("seen", "timestamp"), Column("price", "double")),
    streaming=True,
    time="seen",
    delay=10_000_000,
)
PRODUCTS = StreamSpec(
    "products",
    (Column("product", "bigint"), Column("name", "string"), Column("price", "double")),
    streaming=False,
)


def spec(stream: StreamSpec = VIEWS, table: StreamSpec = PRODUCTS, **options: Any) -> EnrichSpec:
    return enrich_spec(stream, table, **({"on": "product"} | options))


def test_columns_are_the_key_then_the_stream_then_the_table() -> None:
    planned = spec()
    names = [column.name for column in planned.output]
    assert names == ["product", "seen", "views_price", "name", "products_price"]
    assert planned.key_types == ("bigint",)
    assert [column.name for column in spec(how="left_semi").output] == ["product", "seen", "price"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"how": "right"}, errors.JoinTypeError, "inner, left, semi, anti"),
        ({"how": "outer"}, errors.JoinTypeError, "how='outer'"),
        ({"how": "iner"}, errors.JoinTypeError, "one of inner, left, semi, anti. Did you mean"),
        ({"on": "produkt"}, errors.UnknownColumnError, "Did you mean 'product'"),
        ({"on": None}, errors.PlanError, "where='views.product = products.product'"),
        (
            {"table": replace(PRODUCTS, name="table"), "on": {"views": "product", "x": "product"}},
            errors.StreamNameError,
            "'x' is not one of the streams views, table. For another name than 'table', give",
        ),
        ({"as_of": "pric"}, errors.UnknownColumnError, "as_of='pric': the table .*mean 'price'"),
        ({"as_of": "price"}, errors.TimeColumnError, "as_of='price': 'price' is of type"),
        ({"memory": "much"}, errors.BudgetError, "memory='much' is not a size"),
        ({"max_wait": "soon"}, errors.DurationError, "max_wait='soon'.*like '10 batches'"),
        ({"max_wait": 1.5}, errors.DurationError, "max_wait=1.5.*like '10 batches'"),
        ({"max_wait": 0}, errors.PlanError, "one micro-batch or more"),
        ({"max_wait": "0 seconds"}, errors.PlanError, "'0 seconds' is no time.*or leave it out"),
        ({"max_wait": "0 batches"}, errors.PlanError, "one micro-batch or more"),
        ({"where": 7}, errors.PredicateError, "where=7"),
        ({"name": " "}, errors.PlanError, "name=' ' is not a name"),
        ({"tuning": "fast"}, errors.StrategyError, "wm.EnrichTuning"),
        ({"tuning": EnrichTuning(access="read")}, errors.StrategyError, "access='read'"),  # type: ignore[arg-type]
        ({"tuning": EnrichTuning(cache=1)}, errors.StrategyError, "cache=1"),  # type: ignore[arg-type]
        ({"table": replace(PRODUCTS, streaming=True)}, errors.PlanError, "wm.join"),
        ({"table": replace(PRODUCTS, name="views")}, errors.StreamNameError, "two streams"),
        ({"stream": replace(VIEWS, unique=True)}, errors.PlanError, "unique"),
        (
            {"stream": replace(VIEWS, punctuation=Punctuation("price = 0"))},
            errors.PlanError,
            "punctuation",
        ),
        (
            {"stream": replace(VIEWS, time=None, delay=None), "max_wait": 5},
            errors.PlanError,
            "has no time",
        ),
    ],
)
def test_a_mistake_is_said(
    options: dict[str, Any], error: type[errors.PlanError], message: str
) -> None:
    with pytest.raises(error, match=message):
        spec(**options)


@pytest.mark.parametrize(
    ("given", "wait"),
    [
        (None, None),
        (7, Wait(batches=7)),
        ("10 batches", Wait(batches=10)),
        ("1 micro-batch", Wait(batches=1)),
        ("30 seconds", Wait(microseconds=30_000_000)),
        (timedelta(minutes=1), Wait(microseconds=60_000_000)),
    ],
)
def test_a_wait_is_batches_or_a_time(given: object, wait: Wait | None) -> None:
    assert spec(max_wait=given).max_wait == wait


def test_memory_is_divided_once() -> None:
    planned = spec(memory="256 MB")
    policy = enrich_policy(planned, shards=4, cores=2, wakes=True)
    kept = policy.shards * policy.resident
    assert policy.cache + policy.queue == policy.resident
    assert 8 * policy.shards * policy.filters == planned.memory
    assert kept == planned.memory // 2
    assert 2 * 20 * policy.piece == planned.memory // 2
    # In place, two processes share the pages of the table, whatever its shards.
    for shards in (1, 4, 200):
        policy = enrich_policy(planned, shards=shards, cores=2, wakes=True, hosts=1)
        assert policy.in_place
        assert policy.shards == min(shards, 64)
        assert policy.resident == planned.memory // 2
        assert 4 * policy.cache == planned.memory // 2
        assert 8 * 2 * policy.filters == planned.memory
        assert 2 * (policy.cache + policy.partition + 20 * policy.piece) <= planned.memory


def test_tasks_pack_on_all_cores_however_few_shards_there_are() -> None:
    for shards in (1, 4, 200):
        policy = enrich_policy(spec(memory="256 MB"), shards=shards, cores=8, wakes=True)
        assert 8 * policy.packed == pytest.approx(256e6 / 20, rel=1e-3)


def test_what_is_read_at_once_is_for_all_shards_that_a_core_steps() -> None:
    planned = spec(max_wait="10 batches")
    for shards, cores, turns in ((1, 8, 1), (8, 8, 1), (9, 8, 2), (200, 8, 25)):
        policy = enrich_policy(planned, shards=shards, cores=cores, wakes=True)
        assert policy.at_once == 100e6 / turns
        # A checkpoint may have another number of shards.
        assert policy.on(16).at_once == pytest.approx(100e6 / 2)


def test_too_little_memory_is_refused_with_what_would_do() -> None:
    planned = spec(memory="1 MB")
    with pytest.raises(errors.BudgetError, match="give 16.8 MB or more"):
        enrich_policy(planned, shards=4, cores=2, wakes=True)
    enrich_policy(spec(memory="16.8 MB"), shards=4, cores=2, wakes=True)
    with pytest.raises(errors.BudgetError, match="for 2 tasks side by side .*: give 16.8 MB or"):
        enrich_policy(planned, shards=4, cores=2, wakes=True, hosts=1)
    # The default is enough for Spark's default of two hundred shuffle partitions.
    enrich_policy(spec(), shards=200, cores=8, wakes=True)


@pytest.mark.parametrize("cores", [2, 31, 64, 500])
@pytest.mark.parametrize("shards", [2, 200, 2000])
def test_the_default_memory_is_enough_for_any_number_of_cores(cores: int, shards: int) -> None:
    backend = LocalBackend(shards, "", cores=cores)
    ways: list[tuple[int | None, dict[str, Any]]] = [(None, {}), (4, {}), (4, {"max_wait": 5})]
    for hosts, further in ways:
        plan_enrich(VIEWS, PRODUCTS, backend, hosts=hosts, on="product", **further)
    # What is given is taken as it is.
    given = plan_enrich(VIEWS, PRODUCTS, backend, hosts=1, on="product", memory="8 GB")
    assert given.spec.memory == 8_000_000_000
    with pytest.raises(errors.BudgetError, match="memory=1,000,000 bytes are too few"):
        plan_enrich(VIEWS, PRODUCTS, backend, hosts=1, on="product", memory="1 MB")


def explained(
    size: TableSize | None = None, *, wakes: bool = True, hosts: int | None = None, **options: Any
) -> str:
    planned = spec(**options)
    policy = enrich_policy(planned, shards=2, cores=2, wakes=wakes, hosts=hosts)
    return explain(EnrichPlan(planned, policy, None, folder="/tables", size=size))


def test_explain_of_a_table_that_is_not_staged() -> None:
    assert explained() == (
        """\
inner enrichment of views from products (streaming)
├─ condition
│  └─ views.product = products.product
├─ keys (a null matches nothing)
│  └─ views.product (int), products.product (bigint): compared as bigint
├─ table products: 3 columns
│  ├─ 2 of its columns are needed besides the key
│  ├─ staged in /tables, sorted by key
│  └─ not staged yet: that is done when the query's DataFrame is made
├─ disk phase
│  ├─ each partition is sought (only where the wanted keys are) or scanned (as a whole), """
        """whichever is cheaper for the keys that are wanted of it, by what both have cost so far
│  │  ├─ expected: sought for up to 323 keys of a partition of 32 MB, scanned for more
│  │  │  └─ if to seek a key takes 100 us and to read a gigabyte one second, as on a """
        """solid-state disk; what is in memory already is sought
│  │  └─ what they cost is measured only while the query runs, and is in the metrics: seek_ns """
        """for a key; read_us for a megabyte, and find_ns for a key in it
│  └─ partitions that cannot have a key, by their bounds and filters, are not read
├─ rows are answered in the micro-batch in which they come
├─ memory: 256 MB for the query, of which 64 MB are kept by each shard
│  ├─ cache: 32 MB in each shard; a key is cached if its master rows take less memory than its """
        """stream rows of one cycle
│  ├─ rows that wait: 32 MB in each shard
│  ├─ new rows, results and copies: pieces of 3.2 MB
│  └─ a table of up to 128 MB is kept as a whole
├─ shards: 2, by a hash of the key, for stream and table
└─ event time: `seen` stays the event time; rows leave before they are late"""
    )


def test_explain_of_rows_that_may_wait() -> None:
    large = TableSize(shards=2, rows=5_000_000, bytes=600_000_000, partitions=20)
    text = explained(large, how="left", max_wait="5 batches", name="prices")
    assert text.startswith("prices: left enrichment of views from products (streaming)")
    assert "5,000,000 rows, 600 MB, in 20 partitions" in text
    assert "after 5 micro-batches at most" in text
    assert "so a step of a shard reads 2 of 10 partitions or more" in text
    assert "unmatched rows of views: emitted as soon as that is known, with nulls" in text
    assert "(Spark runs none without data)" in explained(large, max_wait=5, wakes=False)


def test_explain_of_a_table_that_fits() -> None:
    text = explained(TableSize(shards=2, rows=1000, bytes=100_000, partitions=2))
    assert "the table fits, so this is a main-memory join" in text


def test_explain_of_rows_that_are_answered_in_place() -> None:
    text = explained(hosts=1)
    assert "in place: rows are answered by the tasks that read them, 2 side by side" in text
    assert "cache: 32 MB in each process" in text
    assert "rows that wait" not in text
    assert "shards" not in text


def test_explain_of_a_table_that_is_refreshed() -> None:
    text = explained(how="left", refresh="10 minutes", version="of")
    assert "every 10 min products is read again, and staged anew unless it is known to be" in text
    assert "a newer version takes effect between two micro-batches with rows" in text
    assert "each row is answered from one version, which `of` names" in text
    assert "rows are answered in the micro-batch in which they come" in text
    assert "unmatched rows of views: emitted as soon as that is known, with nulls" in text
    assert "the watermark stays behind" not in text
    assert "read again" not in explained()


@pytest.mark.parametrize(
    ("how", "given_up"),
    [
        ("left", "in the second case they are emitted with nulls for products"),
        ("anti", "in the second case they are emitted\n"),
        ("inner", "in the second case they are dropped, and counted as `given_up`"),
        ("semi", "in the second case they are dropped, and counted as `given_up`"),
    ],
)
@pytest.mark.parametrize("max_wait", [None, "5 batches"])
def test_explain_of_rows_that_are_retried(how: str, given_up: str, max_wait: str | None) -> None:
    text = explained(how=how, refresh="10 minutes", retry="1 hour", max_wait=max_wait)
    at_once = "rows that have a match are answered in the micro-batch in which they come"
    assert (at_once in text) == (max_wait is None)
    assert ("after 5 micro-batches at most" in text) == (max_wait is not None)
    assert "unmatched rows of views: kept in the state until a newer version of products" in text
    assert "a row has come that is newer by 1 h 10 s (retry and delay)" in text
    assert given_up in text
    assert "as soon as that is known" not in text
    assert "`seen` stays the event time" in text
    assert "the watermark stays behind the newest row by 1 h 10 s (retry and delay)" in text


def test_explain_of_event_time_that_does_not_go_on() -> None:
    own = replace(VIEWS, watermarked=True)
    text = explained(stream=own, how="left", refresh="10 minutes", retry="1 hour")
    assert "`seen` does not stay the event time: retried rows leave late" in text
    assert "the watermark stays behind" not in text
    assert "newer by 1 h 10 s (retry and delay)" in text
    assert "`seen` stays the event time" in explained(stream=own, refresh="10 minutes")
    batch = explained(stream=replace(VIEWS, streaming=False))
    assert "event time: `seen` is a plain column in a batch" in batch


LARGE = TableSize(shards=2, rows=5_000_000, bytes=600_000_000, partitions=20)


@pytest.mark.parametrize(
    ("known", "max_wait", "expected"),
    [
        (
            {"rows_per_second": 1000},
            None,
            "asked for 50 keys at a time on average, or fewer: sought",
        ),
        ({"rows_per_second": 1000}, 5, "asked for 250 keys at a time on average, or fewer: sought"),
        (
            {"rows_per_second": 1000},
            "1 minute",
            "3,000 keys at a time on average, or fewer: scanned, unless",
        ),
        (
            {"rows_per_second": 1e6},
            None,
            "50,000 keys at a time on average, or fewer: scanned, unless",
        ),
        (
            {"rows_per_second": 1e6, "distinct_keys": 2000},
            None,
            "100 keys at a time on average, or fewer: s",
        ),
    ],
)
def test_explain_says_which_way_of_reading_is_expected(
    known: dict[str, float], max_wait: object, expected: str
) -> None:
    text = explained(LARGE, stream=replace(VIEWS, **known), max_wait=max_wait)  # type: ignore[arg-type]
    assert "expected: sought for up to 303 keys of a partition of 30 MB, scanned for more" in text
    assert "rows/s in micro-batches of a second" in text
    assert expected in text


def test_explain_expects_nothing_that_it_does_not_know() -> None:
    assert "rows/s" not in explained(LARGE)
    asked = explained(LARGE, tuning=EnrichTuning(access="scan"))
    assert "scanned: read as a whole (as asked for)" in asked
    assert "expected" not in asked
    fits = explained(TableSize(shards=2, rows=1000, bytes=100_000, partitions=2))
    assert "expected: sought, as the table stays in memory" in fits
