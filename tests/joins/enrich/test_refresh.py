"""A table that changes: newer versions, and rows that wait for one."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given as randomly
from hypothesis import strategies as st

from tests.conformance.join import at, table
from tests.conformance.strategies import INSTANT, examples, until_shown
from tests.conformance.ways import Disturbance
from tests.joins.enrich.enrichment import UNHURRIED, Enrichment, disturbed
from watersmeet.joins.enrich import operator as operator_module
from watersmeet.joins.enrich.spec import ENRICH_NAMES
from watersmeet.joins.enrich.state import INCREMENTING, PHASE_OUT, SWITCHING
from watersmeet.joins.enrich.step import EnrichStep
from watersmeet.rows.shard import Shard
from watersmeet.table.versions import Versions
from watersmeet.testing import LocalEnrich, LocalStream

STREAM = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("t", INSTANT)])
SMALL = {"resident": 0, "partition": 100, "cache": 10_000, "queue": 1}


def prices(version: int, keys: Any = range(20)) -> pa.Table:
    schema = pa.schema([("k", pa.int64()), ("version", pa.int64())])
    return table(schema, [(key, version) for key in keys])


def changing(how: str = "left", *, master: pa.Table | None = None, **further: Any) -> Enrichment:
    policy = SMALL | further.pop("policy", {})
    return Enrichment(
        LocalStream(STREAM, time="t", delay=timedelta(0)),
        prices(0) if master is None else master,
        on="k",
        how=how,
        policy=policy,
        further={"refresh": "1 minute", **further},
    )


def rows(keys: Any, second: float) -> pa.Table:
    return table(STREAM, [(key, 0, at(second)) for key in keys])


def versions(found: pa.Table) -> list[int | None]:
    return found["version"].to_pylist()


def test_a_newer_version_takes_effect_between_two_steps(tmp_path: Path) -> None:
    local = changing().start(str(tmp_path))
    assert versions(local.batch(rows([1, 1, 1], 0))) == [0, 0, 0]
    old = local.counters.notes
    # Given a newer version, the next step still uses the one that was noted before it,
    local.refresh(prices(1))
    assert versions(local.batch(rows([1, 1, 1], 1))) == [0, 0, 0]
    assert local.counters.notes == old
    # and those after it use the newer one, whatever was cached.
    for second in range(2, 5):
        assert versions(local.batch(rows([1, 1, 1], second))) == [1, 1, 1]
    assert local.counters.notes != old
    assert local.counters.hits == 3


@pytest.mark.parametrize(
    ("keys", "last", "phase"),
    [([1], 1, INCREMENTING), ([1], 3, SWITCHING), ([3], 1, PHASE_OUT)],
)
def test_cached_keys_stay_cached_with_what_the_newer_version_has(
    tmp_path: Path, keys: list[int], last: int, phase: str
) -> None:
    # Given two cached keys, in any phase,
    local = changing().start(str(tmp_path))
    for second in range(4):
        local.batch(rows([1, 1, 1, 2, 2, 2], second))
    assert local.counters.cached_keys == 2
    local.batch(rows(keys, 4))
    # and a version in which one of them has more rows, and the other none,
    local.refresh(prices(1, [1, 1, 1, 5, 6, 7]))
    local.batch(rows([last], 5))
    assert local.run.state(0).progress.phase == phase
    found = local.batch(rows([1, 2], 6))
    # when it takes effect, then both are answered from the cache, as it has them.
    assert local.counters.hits == 2
    assert sorted(versions(found), key=str) == [1, 1, 1, None]


def test_keys_that_have_grown_leave_if_there_is_no_room_for_them(tmp_path: Path) -> None:
    # Given three cached keys, and a version in which two of them have very many rows,
    local = changing(policy={"cache": 600}).start(str(tmp_path))
    for second in range(4):
        local.batch(rows([1, 2, 3] * 3, second))
    assert local.counters.cached_keys == 3
    grown = [1, *[2] * 20, *[3] * 500]
    local.refresh(prices(1, grown))
    local.batch(rows([1], 5))
    # when it takes effect,
    found = local.batch(rows([1, 2, 3], 6))
    # then the smallest stay, as many as there is room for,
    assert local.counters.hits == 2
    assert local.counters.cached_bytes <= 600
    # and rows of the other are answered, from the table.
    assert sorted(found["k"].to_pylist()) == grown


def test_rows_that_are_added_are_staged_beside_those_that_are_there(tmp_path: Path) -> None:
    # Given a cached key, and another one,
    local = changing().start(str(tmp_path))
    for second in range(3):
        local.batch(rows([1, 1, 1], second))
    assert local.counters.hits == 3
    # when rows of both are added to the table, and of a new key,
    local.append(prices(1, [1, 2, 50]))
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*.arrow")}
    local.batch(rows([3], 3))
    # then all of their rows are found, from the cache or not,
    found = local.batch(rows([1, 2, 3, 50], 4))
    assert local.counters.hits == 1
    pairs = sorted(zip(found["k"].to_pylist(), versions(found), strict=True))
    assert pairs == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (50, 1)]
    # and the rows that were there are where they were.
    current = local._versions().current()
    assert current is not None
    assert current.layers[0] == local.staged
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/*.arrow")} == files


def test_a_version_needs_all_of_its_layers(tmp_path: Path) -> None:
    local = changing().start(str(tmp_path))
    local.append(prices(1, [50]))
    current = local._versions().current()
    assert current is not None
    size = current.size()
    assert size is not None
    assert size.rows == 21
    # A version that is superseded by one with the same layers keeps these.
    local.append(prices(2, [51]))
    newer = local._versions().current()
    assert newer is not None
    assert newer.parts - current.parts == {newer, newer.layers[2]}
    current.supersede(newer)
    marked = {path.parent.name for path in tmp_path.glob("*/superseded")}
    assert marked == {current.version}
    newer.supersede(current)
    marked = {path.parent.name for path in tmp_path.glob("*/superseded")}
    assert marked == {newer.version, newer.layers[2].version}
    shutil.rmtree(current.layers[1].folder)
    assert current.size() is None


def test_a_column_of_the_result_says_which_version_it_is_of(tmp_path: Path) -> None:
    local = changing("left", version="of").start(str(tmp_path))
    seen = []
    for number in range(3):
        found = local.batch(rows([1, 1, 50, None], number))
        assert found.schema.names[-1] == "of"
        (of,) = set(found["of"].to_pylist())
        assert f"table version {of}" in local.counters.notes
        seen.append((of, *versions(found)))
        local.refresh(prices(1))
    # A row without a match, or without a key, has a version too.
    assert [row[1:] for row in seen] == [(None, 0, 0, None), (None, 0, 0, None), (None, 1, 1, None)]
    assert seen[0][0] == seen[1][0] != seen[2][0]


def test_a_restart_with_another_table_does_not_use_the_cache_of_the_old_one(
    tmp_path: Path,
) -> None:
    given = Enrichment(LocalStream(STREAM), prices(0), "k", policy=SMALL)
    local = given.start(str(tmp_path))
    for second in range(4):
        local.batch(rows([1, 1, 1], second))
    assert local.counters.hits == 3
    other = local.stage(prices(1))
    again = given.start(str(tmp_path), restart=local, staged=other)
    assert versions(again.batch(rows([1, 1, 1], 5))) == [1, 1, 1]


def test_a_version_that_is_gone_is_replaced_by_the_current_one(tmp_path: Path) -> None:
    local = changing().start(str(tmp_path))
    local.batch(rows([1], 0))
    local.refresh(prices(1))
    shutil.rmtree(local.staged.folder)
    assert versions(local.batch(rows([1], 1))) == [1]


@pytest.mark.parametrize("lost", ["0/0.arrow", "0/1.arrow", "0/index.arrow", "0/filter", "0"])
def test_a_version_of_which_files_are_gone_is_replaced_at_a_restart(
    tmp_path: Path, lost: str
) -> None:
    # Given a version that the state has noted, and a newer one that is made at a restart,
    local = changing(policy=SMALL).start(str(tmp_path))
    for second in range(2):
        local.batch(rows([1], second))
    newer = local.stage(prices(1))
    local._versions().set(newer.version)
    # when a file of the old one is gone, but for what says that it is complete,
    gone = Path(local.staged.folder) / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    assert local.staged.size() is not None
    again = changing(policy=SMALL).start(str(tmp_path), restart=local, staged=newer)
    # then rows are answered from the newer one.
    assert versions(again.batch(rows([*range(20)], 2))) == [1] * 20


def test_a_step_that_takes_long_keeps_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a step that has begun with a version,
    monkeypatch.setattr(operator_module, "TOUCH_SECONDS", 0)
    local = changing().start(str(tmp_path))
    idle = []

    def chunks() -> Iterator[list[pa.RecordBatch | None]]:
        yield [local._encoded(0, rows([1], 0))]
        # which is superseded meanwhile, an hour and more ago,
        local.staged.supersede(local.stage(prices(1)))
        long_ago = time.time() - 3700
        os.utime(Path(local.staged.folder) / "table.json", (long_ago, long_ago))
        idle.append(local.staged.idle())
        # when further rows come, then that is still in use.
        yield [local._encoded(0, rows([2], 0))]
        idle.append(local.staged.idle())

    operator, state = local.run.operator, local.run.state(0)
    list(operator.step(chunks(), None, state, operator.counters()))
    assert idle == [True, False]


def test_a_failed_refresh_is_noted_and_the_old_version_stays(tmp_path: Path) -> None:
    local = changing().start(str(tmp_path))
    local.batch(rows([1], 0))
    local._versions().fail("no column 'price'")
    assert versions(local.batch(rows([1], 1))) == [0]
    assert "the table could not be refreshed: no column 'price'" in local.counters.notes


def test_rows_that_wait_are_answered_when_a_newer_version_is_empty(tmp_path: Path) -> None:
    # Given rows that wait for their partition,
    local = changing(
        max_wait="9 batches", policy={**UNHURRIED, "cache": 0, "queue": 1 << 20}
    ).start(str(tmp_path))
    for second in range(3):
        local.batch(rows([second, second + 7, 15], second))
    assert local.waiting() > 0
    # when a newer version has no rows at all, then they leave without a match, although rows come.
    local.refresh(prices(1, []))
    local.batch(rows([2], 4))
    left = local.batch(rows([3], 5))
    assert local.waiting() == 0
    assert {*versions(left)} == {None}


def test_queries_that_refresh_one_table_may_do_so_at_the_same_time(tmp_path: Path) -> None:
    # Given a version of a table that two threads of a driver have staged, for a query each,
    several = Versions(str(tmp_path), "prices", "prices")

    def make_current(number: int) -> None:
        for turn in range(300):
            several.set(f"{number}-{turn}")
            assert several.current() is not None

    # when both make theirs the current one, again and again, then neither is in the other's way.
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(make_current, number) for number in range(2)]:
            done.result()
    current = several.current()
    assert current is not None
    assert current.version in ("0-299", "1-299")
    assert [path.name for path in tmp_path.iterdir()] == ["prices.current"]


@pytest.mark.parametrize(
    "columns", [["k", "brand", "price"], ["k", "price", "name"], ["k", "name", "price", "brand"]]
)
@pytest.mark.parametrize("cached", [False, True], ids=["", "cached"])
def test_a_restart_with_other_columns_of_the_table_does_not_read_the_old_ones(
    tmp_path: Path, columns: list[str], cached: bool
) -> None:
    # Given a table of which some columns are needed, and a row that waits for a newer version,
    wide = pa.table({"k": [1, 2], "name": ["n1", "n2"], "price": [1.0, 2.0], "brand": ["b1", "b2"]})
    further: dict[str, Any] = {"policy": {} if cached else {"cache": 0}, "retry": "1 hour"}
    local = changing(master=wide.select(["k", "name", "price"]), **further).start(str(tmp_path))
    for second in range(4):
        local.batch(rows([1, 1, 1, 50], second))
    assert local.counters.hits == (3 if cached else 0)
    # when the query starts again, and needs others, or these in another order,
    again = changing(master=wide.select(columns), **further).start(str(tmp_path), restart=local)
    found = again.batch(rows([1, 2, 2], 5))
    # then it is answered from these from the first row on,
    wanted = {row["k"]: row for row in wide.select(columns).to_pylist()}
    assert found.select(columns).to_pylist() == [wanted[key] for key in found["k"].to_pylist()]
    assert sorted(found["k"].to_pylist()) == [1, 2, 2]
    # and from newer versions of them, which have the row that waits.
    newer = pa.concat_tables([wide, wide.set_column(0, "k", pa.array([50, 51]))])
    again.refresh(newer.select(columns))
    again.batch(rows([1], 6))
    assert sorted(again.batch(rows([1], 7))["k"].to_pylist()) == [1, 50, 50, 50, 50]


def test_a_state_that_does_not_say_of_what_table_is_answered_from_the_one_of_the_start(
    tmp_path: Path,
) -> None:
    local = changing().start(str(tmp_path))
    local.batch(rows([1], 0))
    state = local.run.state(0)
    state.progress.table = None
    state.commit()
    other = local.stage(prices(1))
    again = changing().start(str(tmp_path), restart=local, staged=other)
    assert versions(again.batch(rows([1], 1))) == [1]


# --- rows that are retried


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_a_row_without_a_match_waits_for_a_newer_version(tmp_path: Path, how: str) -> None:
    # Given rows of keys that are not there yet, to be retried for a minute,
    local = changing(how, retry="1 minute").start(str(tmp_path))
    first = local.batch(rows([1, 50, 51], 0))
    assert first["k"].to_pylist() == ([] if how == "anti" else [1])
    assert local.counters.retried == 2
    # when a newer version has one of them, then that row is answered as soon as it takes effect;
    local.refresh(prices(1, [50]))
    local.batch(rows([], 0))
    assert local.counters.retried == 2
    second = local.batch(rows([], 0))
    assert second["k"].to_pylist() == ([] if how == "anti" else [50])
    assert local.counters.retried == 1
    # when a minute has passed, the other one is given up.
    local.batch(rows([-1], 60))
    third = local.batch(rows([], 60))
    assert local.counters.given_up == 1
    assert third["k"].to_pylist() == ([51] if how in ("left", "anti") else [])


def test_rows_are_retried_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Given rows that wait, of many pieces,
    local = changing(retry="1 minute", policy={"piece": 2000}).start(str(tmp_path))
    for number in range(10):
        local.batch(rows(range(100 * number + 50, 100 * number + 150), 0))
    # when a newer version has some of their keys,
    taken, answer = [], EnrichStep._answer

    def noted(step: EnrichStep, piece: pa.RecordBatch) -> Any:
        taken.append((piece.nbytes, step.state.retried.rows))
        return answer(step, piece)

    monkeypatch.setattr(EnrichStep, "_answer", noted)
    local.refresh(prices(1, range(0, 2000, 2)))
    found = [local.batch(rows([], 0)) for _ in range(3)]
    # then they are taken piece by piece, while the others are where they were,
    assert len(taken) > 5
    assert max(size for size, _ in taken) < 4000
    assert taken[0][1] >= 800
    # and each is answered once, or waits again.
    assert [len(some) for some in found] == [0, 500, 0]
    assert local.counters.retried == 500


def test_a_row_is_given_up_when_its_time_is_over_and_not_before(tmp_path: Path) -> None:
    local = changing(retry="1 minute").start(str(tmp_path))
    local.batch(rows([50], 0))
    for second, left in ((59.999, 1), (60, 1), (60, 0)):
        local.batch(rows([1], second))
        assert local.counters.retried == left


def test_rows_that_are_retried_are_no_hits_of_the_cache(tmp_path: Path) -> None:
    # Given a key that no filter tells from those of the table, cached as one that is not there,
    keys = random.Random(3).sample(range(100_000), 4000)
    given = changing(retry="1 hour", master=prices(0, keys), policy={"partition": 1 << 20})
    local = given.start(str(tmp_path))
    passing = np.flatnonzero(local.staged.shard(Shard()).home(np.arange(100_000)) >= 0)
    key = np.setdiff1d(passing, keys)[0].item()
    for second in range(8):
        local.batch(rows([key] * 50, second))
    assert (local.counters.cached_keys, local.counters.retried) == (1, 400)
    # when rows of it are retried in a step with one new row,
    local.refresh(prices(1, keys))
    local.batch(rows([key], 9))
    local.batch(rows([key], 10))
    # then that one alone counts, out of one.
    assert (local.counters.streams[0].rows, local.counters.hits) == (1, 1)


@pytest.mark.parametrize("how", ENRICH_NAMES)
@pytest.mark.parametrize("further", [{"refresh": "1 minute"}, {"refresh": None, "max_wait": 2}])
def test_rows_are_given_up_if_a_query_starts_again_without_retrying_them(
    tmp_path: Path, how: str, further: dict[str, Any]
) -> None:
    # Given rows that are retried,
    local = changing(how, retry="1 hour").start(str(tmp_path))
    local.batch(rows([1, 50, 51], 0))
    assert local.counters.retried == 2
    # when the query starts again without `retry`,
    again = changing(how, **further).start(str(tmp_path), restart=local)
    found = again.batch(rows([2], 1))
    # then they leave as rows without a match do, in the first step, once;
    wanted = {"inner": [2], "left": [2, 50, 51], "semi": [2], "anti": [50, 51]}
    assert sorted(found["k"].to_pylist()) == wanted[how]
    assert (again.counters.retried, again.counters.given_up) == (0, 2)
    # and further rows without a match are not retried, nor given up.
    assert again.batch(rows([52], 2)).num_rows == (how in ("left", "anti"))
    assert (again.counters.retried, again.counters.given_up) == (0, 0)
    assert not again.run.state(0).waits


def test_a_row_with_a_null_key_is_not_retried(tmp_path: Path) -> None:
    local = changing(retry="1 minute").start(str(tmp_path))
    assert local.batch(rows([None], 0)).num_rows == 1
    assert local.counters.retried == 0


def test_a_row_that_was_retried_is_not_late_for_what_follows(tmp_path: Path) -> None:
    local = changing(retry="10 seconds").start(str(tmp_path))
    before, left = None, 0
    for second in range(40):
        now = local.run.watermark
        found = local.batch(rows([50, 1], second))
        left += found.num_rows
        if before is not None and found.num_rows:
            assert pa.compute.min(found["t"]).cast(pa.int64()).as_py() > before
        before = now
    assert left > 60


@pytest.mark.parametrize("as_of", [False, True], ids=["all versions", "as of"])
@pytest.mark.parametrize("disturbance", [Disturbance.RESTART, Disturbance.CRASH, Disturbance.TWICE])
@pytest.mark.parametrize("phase", [INCREMENTING, SWITCHING, PHASE_OUT])
def test_a_restart_in_any_phase_keeps_versions_and_retries(
    tmp_path: Path, phase: str, disturbance: Disturbance, as_of: bool
) -> None:
    # Given keys that become frequent one after the other, one that only the newer version has,
    # and one that none has; rows without a match are retried,
    def master(version: int, keys: Any) -> pa.Table:
        plain = prices(version, keys)
        if not as_of:
            return plain
        past, future = (
            plain.append_column("since", pa.array([at(second)] * len(plain), INSTANT))
            for second in (-100, 5000)
        )
        return pa.concat_tables([past, future]).combine_chunks()

    further: dict[str, Any] = {"retry": "30 seconds"} | ({"as_of": "since"} if as_of else {})
    given = changing(master=master(0, range(20)), **further)
    local = given.start(str(tmp_path))
    found, wanted, refreshed, times, hits = Counter[Any](), Counter[Any](), None, 0, 0
    for number in range(14):
        keys = [1, 1, 1, *[2 + number // 3] * 3, 50, 70]
        batch = table(STREAM, [(key, number, at(number)) for key in keys])
        # when the table changes in a phase, and the query is disturbed in it again and again,
        if number > 2 and local.run.state(0).progress.phase == phase:
            if refreshed is None:
                local.refresh(master(1, [*range(20), 50]))
                refreshed = number
            local = disturbed(local, given, batch, disturbance)
            times += 1
        for row in local.batch(batch).to_pylist():
            found[row["k"], row["n"], row["version"]] += 1
        hits += local.counters.hits
        # then each row is answered once: from the version of its step, or the first that has it,
        for key in keys:
            version = 0 if refreshed is None or number <= refreshed else 1
            wanted[key, number, {50: 1, 70: None}.get(key, version)] += 1
    assert refreshed is not None
    assert times > 1
    assert hits > 10
    assert local.counters.retried == 14
    # and those that no version has are given up.
    local.batch(rows([1], 1000))
    for row in local.batch(rows([], 1000)).to_pylist():
        found[row["k"], row["n"], row["version"]] += 1
    assert found == wanted


@dataclass
class Life:
    """A row of the stream: its key, the versions of the table that there were between its coming
    and its answer, and how often each version is among its results."""

    key: int
    first: int
    last: int
    results: Counter[int | None]

    def fits(self, how: str, tables: list[pa.Table]) -> bool:
        """Is this what one of those versions gives?"""
        return any(
            self.results == expected(how, self.key, tables[version])
            for version in range(max(0, self.first - 1), self.last + 1)
        )


def expected(how: str, key: int, master: pa.Table) -> Counter[int | None]:
    """What a row of a key gives that is answered from a table."""
    matches = versions(master.filter(pc.equal(master["k"], key)))
    if how in ("semi", "anti"):
        return Counter({None: 1} if bool(matches) == (how == "semi") else {})
    return Counter(matches or ([None] if how == "left" else []))


@pytest.mark.parametrize("how", ENRICH_NAMES)
def test_every_row_is_answered_from_one_version(how: str) -> None:
    shown: Counter[str] = Counter()

    @examples(20)
    @randomly(seed=st.integers(0, 2**32), shards=st.integers(1, 2), retry=st.booleans())
    def check(seed: int, shards: int, retry: bool) -> None:
        dice = random.Random(seed)
        tables = [prices(0, drawn_keys(dice))]
        for version in range(1, 4):
            added = prices(version, drawn_keys(dice))
            kept = [tables[-1]] if dice.random() < 0.5 else []
            tables.append(pa.concat_tables([*kept, added]).combine_chunks())
        given = changing(
            how,
            master=tables[0],
            policy={"queue": dice.choice([1, 1 << 20]), **UNHURRIED},
            max_wait=dice.choice([None, "3 batches"]),
            retry="5 seconds" if retry else None,
        )
        with tempfile.TemporaryDirectory() as folder:
            lives = lived(given, given.start(folder, shards=shards), tables, dice, shown)
        for life in lives:
            assert life.fits(how, tables), life

    wanted = ("hits", "waited", "retried", "newer", "layers")
    until_shown(check, lambda: all(shown[name] for name in wanted), str(wanted))


def drawn_keys(dice: random.Random) -> list[int]:
    return [dice.randrange(16) for _ in range(dice.randrange(30))]


def refresh(local: LocalEnrich, old: pa.Table, new: pa.Table, shown: Counter[str]) -> None:
    """Make a table the next version: in one layer, or, if it begins as the old one, in more."""
    if new.slice(0, old.num_rows).equals(old):
        shown["layers"] += 1
        local.append(new.slice(old.num_rows))
    else:
        local.refresh(new)


def lived(
    given: Enrichment,
    local: LocalEnrich,
    tables: list[pa.Table],
    dice: random.Random,
    shown: Counter[str],
) -> list[Life]:
    """What became of the rows of twelve batches, while versions came; and of two batches in which
    time passes."""
    lives: list[Life] = []
    newest = 0
    for step in range(14):
        if newest < 3 and dice.random() < 0.3:
            newest += 1
            refresh(local, tables[newest - 1], tables[newest], shown)
        count = dice.randrange(10) if step < 12 else 0
        new = [
            Life(min(dice.randrange(20), dice.randrange(20)), newest, newest, Counter())
            for _ in range(count)
        ]
        drawn: list[Any] = [(life.key, len(lives) + i, at(step)) for i, life in enumerate(new)]
        batch = table(STREAM, [(None, None, at(1000))] if step == 12 else drawn)
        lives += new
        if dice.random() < 0.2:
            local = disturbed(local, given, batch, dice.choice([*Disturbance]))
        for row in local.batch(batch).to_pylist():
            if row["n"] is not None:
                life = lives[row["n"]]
                life.results[row.get("version")] += 1
                life.last = newest
        for name in ("hits", "waited", "retried"):
            shown[name] += getattr(local.counters, name)
        shown["newer"] += newest
    assert not any(state.waits for state in map(local.run.state, range(len(local.run.stores))))
    for life in lives:
        if not life.results:
            life.last = newest
    return lives
