"""Explain: the text says what matches, what is kept and what purges it, for every join."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from tests.plan.asking import explain, plan_join
from watersmeet.conditions.predicate import SqlPredicate
from watersmeet.conditions.terms import Term
from watersmeet.cost.engine import Weights
from watersmeet.cost.slices import SliceWeights
from watersmeet.spec.budget import Budget
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.spec.stream import Column, Punctuation, StreamSpec
from watersmeet.spec.tuning import Tuning

SECOND = 1_000_000

VIEWS = StreamSpec(
    "views",
    (Column("ad_id", "int"), Column("price", "double"), Column("viewed_at", "timestamp")),
    streaming=True,
    time="viewed_at",
    delay=10 * SECOND,
)
CLICKS = StreamSpec(
    "clicks",
    (Column("ad_id", "bigint"), Column("bid", "double"), Column("clicked_at", "timestamp")),
    streaming=True,
    time="clicked_at",
    delay=20 * SECOND,
)
VIEWS_UNMATCHED = "unmatched rows of views: emitted"
CLICKS_UNMATCHED = "unmatched rows of clicks: emitted"


class EightShards:
    """A backend with eight shards, on a machine with known weights."""

    shards: int = 8
    cores: int | None = 2

    def weights(self) -> Weights:
        return WEIGHTS

    def slice_weights(self) -> SliceWeights:
        return SliceWeights(compare=20, send=1_000, byte=1, step=1_000_000)

    def translate(self, sql: str) -> tuple[Term, ...]:
        return (Term(SqlPredicate(sql, (), pl.lit(True))),)


def explained(*streams: StreamSpec, **arguments: Any) -> str:
    arguments = {"on": "ad_id", "within": "5 minutes", **arguments}
    return explain(plan_join(streams or (VIEWS, CLICKS), EightShards(), **arguments))


def batch(stream: StreamSpec) -> StreamSpec:
    return replace(stream, streaming=False, delay=None)


def test_an_inner_join_reads_as_a_tree() -> None:
    clicks = replace(CLICKS, rows_per_second=50.0, watermarked=True)
    text = explained(
        VIEWS,
        clicks,
        on="ad_id",
        within={"views": "5 minutes", "clicks": "0 seconds"},
        where="views.price < clicks.bid",
    )

    assert (
        text
        == """\
inner join of views and clicks (streaming)
├─ condition
│  ├─ a row of views matches rows of clicks from 0 s before it to 5 min after it
│  ├─ views.ad_id = clicks.ad_id
│  ├─ AND clicks.clicked_at - views.viewed_at <= 5 min
│  ├─ AND views.viewed_at - clicks.clicked_at <= 0 s
│  └─ AND (views.price < clicks.bid)
├─ keys (a null matches nothing)
│  └─ views.ad_id (int), clicks.ad_id (bigint): compared as bigint
├─ stream views: 3 columns, time viewed_at, delay 10 s
│  ├─ window: a row of views waits 5 min for a later row of clicks
│  ├─ purge: a row leaves when the watermark reaches views.viewed_at + 5 min
│  └─ expected state: 320,000 rows for every 1,000 rows/s (rows/s x (5 min + 20 s))
├─ stream clicks: 3 columns, time clicked_at, its own watermark (delay 20 s)
│  ├─ window: a row of clicks waits 0 s for a later row of views
│  ├─ purge: a row leaves when the watermark reaches clicks.clicked_at + 0 s
│  └─ expected state: 1,000 rows (50 rows/s x (0 s + 20 s))
├─ watermark: the least of (greatest views.viewed_at - 10 s, greatest clicks.clicked_at - 20 s)
│  └─ a row at or behind it when it arrives is late: it is dropped and counted
├─ index
│  ├─ views is stored with an index at first; then as the measured rates suggest
│  ├─ clicks is stored with an index at first; then as the measured rates suggest
│  └─ expired rows leave whenever the watermark moves
├─ shards: 8, by a hash of the key
└─ event time: carried on as `event_time`, the greatest of the times; works with windowed \
aggregation in the same query"""
    )


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_every_join_names_its_type_its_condition_and_what_purges_each_stream(how: str) -> None:
    text = explained(how=how)

    assert text.startswith(f"{how} join of views and clicks (streaming)")
    assert "views.ad_id = clicks.ad_id" in text
    assert "a row leaves when the watermark reaches views.viewed_at + 5 min" in text
    assert "a row leaves when the watermark reaches clicks.clicked_at + 5 min" in text
    assert "watermark: the least of" in text
    assert "WARNING" not in text


@pytest.mark.parametrize(
    ("how", "views", "clicks"),
    [
        ("inner", False, False),
        ("left", True, False),
        ("right", False, True),
        ("full", True, True),
        ("semi", False, False),
        ("anti", True, False),
    ],
)
def test_unmatched_rows_come_out_of_the_streams_that_the_join_preserves(
    how: str, views: bool, clicks: bool
) -> None:
    text = explained(how=how)

    assert (
        f"{VIEWS_UNMATCHED} when the watermark reaches views.viewed_at + 5 min" in text
    ) is views
    assert (
        f"{CLICKS_UNMATCHED} when the watermark reaches clicks.clicked_at + 5 min" in text
    ) is clicks


def test_an_outer_joins_unmatched_rows_have_nulls_and_an_anti_joins_have_not() -> None:
    assert "with nulls for clicks" in explained(how="left")
    assert "with nulls for views" in explained(how="right")
    assert "nulls for" not in explained(how="anti")


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_only_semi_and_anti_joins_forget_a_row_of_the_first_stream_at_its_first_match(
    how: str,
) -> None:
    lines = explained(how=how).splitlines()
    forgetting = [line for line in lines if "or at its first match" in line]

    assert len(forgetting) == (1 if how in ("semi", "anti") else 0)
    assert all("views.viewed_at" in line for line in forgetting)


@pytest.mark.parametrize(
    ("how", "why", "whose"),
    [
        ("left", "only when the watermark has passed its time", "views"),
        ("right", "only when the watermark has passed its time", "clicks"),
        ("full", "only when the watermark has passed its time", "greatest"),
        ("anti", "only when the watermark has passed its time", "views"),
        ("semi", "first match long after its own time", "views"),
    ],
)
def test_joins_that_do_not_carry_event_time_on_say_why_and_whose_to_take(
    how: str, why: str, whose: str
) -> None:
    text = explained(how=how)

    assert "event time: not carried on" in text
    assert why in text
    assert "`event_time`" not in text
    assert f"event_time='{whose}' carries it on" in text
    assert "without a match" not in explained(how=how, event_time=whose)
    assert f"event_time='{whose}' adds it" in explained(batch(VIEWS), batch(CLICKS), how=how)


@pytest.mark.parametrize(
    ("how", "event_time", "lacking"),
    [
        ("left", "clicks", "views without a match in clicks"),
        ("right", "views", "clicks without a match in views"),
        ("full", "views", "clicks without a match in views"),
        ("full", "clicks", "views without a match in clicks"),
    ],
)
def test_results_without_an_event_time_are_warned_of(
    how: str, event_time: str, lacking: str
) -> None:
    text = explained(how=how, event_time=event_time)

    assert (
        f"WARNING: null for rows of {lacking}; a window drops them; event_time='greatest' keeps "
        "them"
    ) in text


def test_a_join_that_holds_sparks_watermark_back_says_so() -> None:
    text = explained(how="left", event_time="views")
    assert "carried on as `event_time`, the time of views" in text
    assert "Spark's watermark is held back by 5 min" in text
    assert "held back" not in explained(event_time="greatest")


def test_the_last_unmatched_rows_wait_for_the_watermark() -> None:
    assert "when the input ends (availableNow, a pause)" in explained(how="anti")
    assert "`unproven` in the metrics" in explained(how="anti")
    assert "end every stream with a row that is more than 5 min 20 s later" in explained(how="anti")
    within = {"views": "5 minutes", "clicks": "1 minute"}
    held = explained(how="left", within=within, event_time="clicks")
    assert "end every stream with a row that is more than 5 min 20 s later" in held
    assert "windows over `event_time` need one that is 1 min 20 s later than their end" in held
    assert "when the input ends" not in explained(how="inner")


@pytest.mark.parametrize(("shards", "crowded"), [(16, False), (17, True), (200, True)])
def test_far_more_shards_than_cores_are_warned_of(shards: int, crowded: bool) -> None:
    class Shards(EightShards):
        pass

    Shards.shards = shards
    text = explain(plan_join((VIEWS, CLICKS), Shards(), on="ad_id", within="5 minutes"))
    warning = f"WARNING: {shards} shards on 2 cores"
    assert (warning in text) is crowded
    assert ('spark.conf.set("spark.sql.shuffle.partitions", 2)' in text) is crowded


def test_nothing_is_warned_of_where_the_cores_are_not_known() -> None:
    class Cluster(EightShards):
        shards, cores = 200, None

    text = explain(plan_join((VIEWS, CLICKS), Cluster(), on="ad_id", within="5 minutes"))
    assert "WARNING" not in text


def test_an_inner_join_without_all_times_names_the_stream_that_has_none() -> None:
    views = replace(VIEWS, time=None, delay=None)

    text = explained(views, CLICKS, within=None, unbounded=True)

    assert "event time: not carried on, as there is no time in: views" in text
    assert "stream views: 3 columns, no time" in text
    assert "watermark: greatest clicks.clicked_at - 20 s" in text


def test_streams_without_any_time_have_no_watermark() -> None:
    streams = [replace(stream, time=None, delay=None) for stream in (VIEWS, CLICKS)]

    assert "watermark: none" in explained(*streams, within=None, unbounded=True)


def test_an_unbounded_inner_join_warns_that_both_streams_grow() -> None:
    text = explained(within=None, unbounded=True)

    assert text.splitlines()[0] == (
        "WARNING: unbounded state: every row of views and of clicks is kept for ever; "
        "nothing removes it."
    )
    assert text.count("purge: nothing, ever") == 2
    assert text.count("expected state: grows without bound") == 2


def test_an_unbounded_semi_join_warns_of_the_rows_that_have_not_matched() -> None:
    text = explained(within=None, unbounded=True, how="semi")

    assert "every row of views that has not matched, and every row of clicks" in text
    assert "purge: a row of views leaves at its first match only" in text
    assert text.count("purge: nothing, ever") == 1


def test_keys_of_one_type_are_shown_with_it() -> None:
    clicks = replace(CLICKS, columns=(Column("ad_id", "int"), *CLICKS.columns[1:]))

    text = explained(VIEWS, clicks)

    assert "└─ ad_id: int" in text
    assert "compared as" not in text


@pytest.mark.parametrize("how", JOIN_NAMES)
def test_batch_inputs_are_one_run_without_watermark_or_purge(how: str) -> None:
    text = explained(batch(VIEWS), batch(CLICKS), how=how)

    assert "(batch: one run, no watermark)" in text
    assert "watermark reaches" not in text
    assert "purge" not in text
    assert "expected state" not in text
    assert "WARNING" not in text


def test_batch_inputs_give_unmatched_rows_at_the_end_of_the_run() -> None:
    text = explained(batch(VIEWS), batch(CLICKS), how="full", within=None)

    assert f"{VIEWS_UNMATCHED} at the end of the run" in text
    assert f"{CLICKS_UNMATCHED} at the end of the run" in text


def test_a_batch_of_timed_inputs_has_event_time_as_a_plain_column() -> None:
    text = explained(batch(VIEWS), batch(CLICKS))

    assert "carried on as `event_time`" in text
    assert "a plain column in a batch" in text


WEIGHTS = Weights(sort=70, merge=20, search=100, scan=3, hit=160, call=200_000)


def test_declared_rates_show_the_numbers_behind_the_first_choice() -> None:
    views, clicks = (
        replace(VIEWS, rows_per_second=100_000.0),
        replace(CLICKS, rows_per_second=10.0, distinct_keys=500.0),
    )
    text = explained(views, clicks)
    assert "views is stored" in text
    assert "ms a micro-batch with an index" in text
    assert "12,500 new rows and 1 probes a micro-batch, 4,000,000 stored rows" in text
    assert "(declared rates, micro-batches of a second)" in text


def test_a_fixed_choice_is_shown_as_asked_for() -> None:
    text = explained(tuning=Tuning(index={"views": "always", "clicks": "never"}))
    assert "views is stored with an index: key-sorted segments" in text
    assert "clicks is stored plain: segments without an index, scanned (as asked for)" in text
    lazy = explained(tuning=Tuning(invalidation="lazy"))
    assert "expired rows leave when their window is probed" in lazy


def test_a_budget_and_early_results_say_what_comes_first() -> None:
    spill = Budget(memory="2 GB")
    assert (
        "answers from memory first; what is on disk is probed when no rows come, or the watermark "
        "requires it; nothing is lost"
    ) in explained(budget=spill, goal="early")
    assert "answers from memory" not in explained(
        budget=replace(spill, overflow="fail"), goal="early"
    )


def test_a_budget_says_what_it_costs() -> None:
    spill = explained(budget=Budget(memory="2 GB"))
    assert "memory: 2 GB, 1 GB for each of 2 shards at work at a time" in spill
    assert "nothing is lost" in spill
    shed = Budget(memory="2 GB", rate=50_000, overflow="shed")
    text = explained(budget=shed)
    assert "of which each shard has about its part of the rows, also where keys are skewed" in text
    assert "so skew does not matter" in text
    assert "windows shrink to fit, the faster stream's first; results are lost" in text
    assert "rate: 50,000 rows/s: if more rows come, some are shed" in text


def test_a_goal_that_changes_nothing_is_said_to() -> None:
    nothing = "goal 'early' changes nothing here: it takes streams that promise something"
    assert nothing in explained(goal="early")
    assert "changes nothing" in explained(goal="memory")
    assert "goal" not in explained()
    # Promises, a memory budget and the drivers of many streams are what goals are about.
    sales = replace(CLICKS, name="sales")
    for streams, goal, budget, does in [
        ((replace(VIEWS, unique=True), CLICKS), "memory", None, True),
        ((VIEWS, CLICKS), "early", Budget(memory="1 GB"), True),
        ((VIEWS, CLICKS), "memory", Budget(memory="1 GB"), False),
        ((VIEWS, CLICKS, sales), "memory", None, True),
        ((VIEWS, CLICKS, sales), "early", None, False),
    ]:
        text = explained(*streams, goal=goal, budget=budget)
        assert ("changes nothing here" not in text) == does
    tuning = Tuning(purge_after=5)
    fixed = explained(replace(VIEWS, unique=True), CLICKS, goal="memory", tuning=tuning)
    assert "goal 'memory' changes nothing here: purge_after was asked for" in fixed


def test_a_budget_that_is_far_too_small_says_which_one_would_do() -> None:
    needed = "needs about 1 MB, or its work is cut so small that it takes many times longer"
    assert f"each of 2 shards at work {needed}. Give at least memory='2 MB'" in explained(
        budget=Budget(memory="100 kB")
    )
    assert "too little" not in explained(budget=Budget(memory="2 MB"))


def test_promises_say_what_lets_rows_leave() -> None:
    views, clicks = replace(VIEWS, unique=True), replace(CLICKS, punctuation=Punctuation("bid < 0"))
    text = explained(views, clicks, within=None, how="left", emit_punctuations=True)
    assert "purge: a row leaves when a punctuation of clicks closes its key" in text
    assert "a row leaves when it has found its only match in views, whose keys are unique" in text
    assert "unmatched rows of views: emitted when a punctuation of clicks closes its key" in text
    assert "purged after 100 punctuations, or when no rows come" in text
    assert "a row that its stream had promised not to bring stops the query" in text
    assert "emitted when all results they cover have left" in text
    assert "closed keys are remembered for the life of the query" in text
    grows = (
        "WARNING: unbounded state: a row of clicks whose key never comes in views is kept for ever"
    )
    assert text.startswith(f"{grows}.\n")
    both = explained(views, replace(clicks, arrival="clustered"), goal="memory", violations="drop")
    assert "reaches views.viewed_at + 5 min, or when clicks, which is clustered" in both
    assert "purged at once" in both
    assert "is dropped and counted" in both
    assert "closed keys are remembered until the watermark has moved by 5 min" in both
    unique = explained(views, replace(CLICKS, arrival="ordered"))
    assert "closed keys are remembered" not in unique, "a number says which are closed"
