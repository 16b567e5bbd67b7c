"""Joins without a key give what the oracle gives, whatever the predicates, the order of the hops,
the slices, the batches and the mishaps; and nothing is stored twice."""

from __future__ import annotations

from collections import Counter
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from tests.conformance.join import Join
from tests.conformance.rings import RingRun, contents, ring_runs, run_ring
from tests.conformance.strategies import examples, limited, until_shown
from tests.oracle import assert_same_rows
from watersmeet.joins.ring.search.blocks import TileBlock
from watersmeet.joins.ring.search.number_blocks import FormulaRuns, NumberBlock
from watersmeet.joins.ring.spec import RING_NAMES

JOINS = [*((how, "ab") for how in RING_NAMES), ("inner", "abc"), ("inner", "abcde")]


def own_watermarks(run: RingRun) -> bool:
    return any(stream.watermarked for stream in run.join.streams.values())


@pytest.mark.parametrize(("how", "streams"), JOINS)
def test_any_run_gives_what_the_oracle_gives(how: str, streams: str) -> None:
    shown: Counter[str] = Counter()

    @examples(40)
    @given(run=ring_runs(how, streams))
    def check(run: RingRun) -> None:
        strung, tiled = mock.Mock(wraps=NumberBlock.blocks), mock.Mock(wraps=TileBlock.blocks)
        crossed = mock.Mock(side_effect=FormulaRuns.blocks)
        with (
            limited(**run.limits),
            mock.patch.object(NumberBlock, "blocks", strung),
            mock.patch.object(TileBlock, "blocks", tiled),
            mock.patch.object(FormulaRuns, "blocks", lambda *given: crossed(*given)),
        ):
            outcome = run_ring(run)
        assert_same_rows(outcome.result, run.join.expected(run.batches))
        shown["runs"] += strung.call_count
        shown["tiles"] += tiled.call_count
        shown["crossed"] += crossed.call_count
        assert outcome.late == run.join.arrivals(run.batches).late_in_batch
        assert outcome.unproven == outcome.results[-1].num_rows, "what comes when time ends"
        shown["unproven"] += outcome.unproven
        in_sql = [bool(condition.terms) for condition in run.join.conditions]
        shown["searched"] += any(in_sql)
        shown["cases"] += 1
        if outcome.result.num_rows:
            shown["results"] += 1
            shown["results in SQL"] += all(in_sql)
            shown["results in Python"] += not any(in_sql)
        late = sum(sum(batch.values()) for batch in outcome.late)
        shown["late by its own watermark"] += late if own_watermarks(run) else 0

    claims = ["searched"] if how in ("semi", "anti") else ["searched", "runs", "tiles"]
    # Conditions of five streams are no formulas.
    claims += ["crossed"] if len(streams) < 4 else []
    claims += ["results in SQL", "results in Python"]
    # Of five streams, few rows are late by an own watermark.
    claims += ["late by its own watermark"] if len(streams) == 2 else []
    claims += ["unproven"] if how in ("left", "right", "anti") else []

    def all_shown() -> bool:
        often = 5 * shown["results"] >= shown["cases"]
        return often and all(shown[claim] for claim in claims)

    until_shown(check, all_shown, f"{', '.join(claims)}; results in a fifth of the cases")


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_every_batch_gives_exactly_what_it_proves(how: str) -> None:
    @examples(15)
    @given(run=ring_runs(how, "ab"))
    def check(run: RingRun) -> None:
        with limited(**run.limits):
            outcome = run_ring(run)
        for number in range(len(run.batches)):
            so_far = run.batches[: number + 1]
            actual = pa.concat_tables(outcome.results[: number + 1])
            if how == "anti":
                expected = run.join.proven_unmatched_in(so_far, "a")
            elif how == "left":
                matched, alone = (
                    run.join.matched_after(so_far),
                    run.join.proven_unmatched_in(so_far, "a"),
                )
                assert actual.num_rows == matched.num_rows + alone.num_rows, f"after {number}"
                continue
            else:
                expected = run.join.matched_after(so_far)
            assert_same_rows(actual, expected, note=f"after batch {number}")

    check()


def in_window(join: Join, name: str, rows: pa.Table, watermark: int | None) -> pa.Table:
    """The rows that a later one may match yet."""
    time, window = join.streams[name].time, join.window(name)
    if window is None or time is None:
        return rows
    times = rows.column(time).cast(pa.int64())
    return rows.filter(pc.greater(times, -(2**63) if watermark is None else watermark - window))


def test_all_rows_in_the_windows_are_stored_and_none_twice() -> None:
    shown: Counter[str] = Counter()

    @examples(30)
    @given(run=ring_runs("inner", "abc"))
    def check(run: RingRun) -> None:
        with limited(**run.limits):
            outcome = run_ring(run)
        for number, stored in enumerate(outcome.stored):
            arrivals = run.join.arrivals(run.batches[: number + 1])
            for name, segments in stored.items():
                accepted, held = arrivals.accepted[name], sum(segments, Counter[str]())
                in_windows = in_window(run.join, name, accepted, arrivals.watermarks[-2])
                needed = contents(in_windows)
                # All that is needed is stored, and no row more often than it came.
                assert needed <= held <= contents(accepted)
                # What is not needed any more is in a segment with something that is.
                assert all(segment & needed for segment in segments)
                shown["stored"] += held.total()
                shown["expired"] += accepted.num_rows - held.total()
                shown["expires with a segment"] += (held - needed).total()

    until_shown(check, lambda: len(+shown) == 3 and shown["stored"] > 20, "stored and expired rows")
