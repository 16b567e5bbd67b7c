"""The simulations count and time what they say."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from experiments.ring.figures import BUSY, busy, fitting_rate
from experiments.ring.images import difference, images
from experiments.ring.routing import first_and_last
from experiments.ring.simulation import Load, atr, ctr, psp
from experiments.ring.workers import aligned
from watersmeet.cost.ring import Times

TIMES = Times(T_j=1e-4, T_s=1e-5, T_n=1e-4)
LOAD = Load(streams=3, rate=4, window=5, selectivity=0.1, seconds=60)


def expected_results(load: Load, arrivals: list[float]) -> float:
    steps = load.streams - 1
    return sum((load.stored(time) * load.selectivity) ** steps for time in arrivals)


@pytest.mark.parametrize("nodes", [1, 5])
def test_every_way_makes_as_many_results(nodes: int) -> None:
    expected = expected_results(LOAD, LOAD.arrivals(np.random.default_rng(0)))
    runs = [
        psp(LOAD, TIMES, nodes, seed=0),
        atr(LOAD, TIMES, nodes, 10, seed=0),
        ctr(LOAD, TIMES, nodes, 1, seed=0),
    ]
    assert [run.results.sum() for run in runs] == pytest.approx([expected] * 3, rel=0.15)


@pytest.mark.parametrize("segment", [3, 5, 7, 50])
def test_each_pair_within_a_window_meets_once_in_the_segment_of_its_master(segment: int) -> None:
    window, times = 5, range(60)

    def segments(time: int, reach: int) -> range:
        first, last = first_and_last(time, reach, segment)
        return range(first, last + 1)

    met = [
        (master, slave)
        for number in range(-5, 60)
        for master in times
        for slave in times
        if number in segments(master, 0)
        and number in segments(slave, window)
        and abs(master - slave) <= window
    ]
    close = [(one, other) for one in times for other in times if abs(one - other) <= window]
    assert sorted(met) == close


def test_aligned_routing_stores_each_row_of_the_master_once_and_copies_of_the_others() -> None:
    # Rows so rare that they never wait: each is stored for a window, at each node that has it.
    load = Load(streams=2, rate=2, window=5, selectivity=0.5, seconds=4000)
    for segment in (10, 50):
        stored = atr(load, Times(0, 0, 0), 4, segment, seed=1).stored
        assert stored == pytest.approx(2 * 5 * (1 + 1 + 2 * 5 / segment), rel=0.03)


def test_within_a_segment_aligned_routing_gives_one_node_all_the_work_and_beyond_it_shares() -> (
    None
):
    # Far more than nodes can do at once, in one segment and in forty.
    def seconds(nodes: int, segment: float) -> float:
        load = Load(streams=2, rate=1e6, window=1e-4, selectivity=0.1, seconds=4e-3)
        run = atr(load, Times(1e-4, 0, 0), nodes, segment, seed=1)
        return float((run.arrived + run.response).max())

    assert seconds(1, 1) == pytest.approx(seconds(2, 1))
    assert seconds(1, 1e-4) / seconds(2, 1e-4) == pytest.approx(2, rel=0.05)


def test_on_one_idle_node_a_result_takes_the_work_for_it() -> None:
    # Two streams, rows so rare that none waits for another: each is taken in and compared.
    load = Load(streams=2, rate=0.5, window=40, selectivity=0.5, seconds=400)
    times = Times(T_j=1e-6, T_s=1e-6, T_n=0)
    run = psp(load, times, 1, seed=1)
    assert run.response == pytest.approx(
        [1e-6 * (1 + load.stored(time)) for time in run.arrived], rel=1e-6
    )


def test_nodes_share_the_work_but_for_sending() -> None:
    alone, shared = (psp(LOAD, Times(1e-4, 0, 0), nodes, seed=3).mean for nodes in (1, 4))
    assert shared < alone / 3


def test_an_overloaded_ring_recovers_with_more_nodes() -> None:
    rate = fitting_rate(TIMES, nodes=8, selectivity=0.1)
    assert busy(rate, TIMES, 8, 0.1) == pytest.approx(BUSY)
    load = Load(3, rate / 2, 10, 0.1, 60, later=rate)
    adapted = psp(load, TIMES, 2, seed=5, later_nodes=8).mean_between(50, 60)
    fixed = psp(load, TIMES, 2, seed=5).mean_between(50, 60)
    assert adapted < fixed / 10


def test_the_difference_of_images_is_the_mean_over_their_bytes() -> None:
    random = np.random.default_rng(0)
    one, two = (pa.Table.from_batches([images(4, 10, random)]) for _ in range(2))
    expected = [
        np.abs(np.frombuffer(a, np.uint8).astype(int) - np.frombuffer(b, np.uint8)).mean()
        for a, b in zip(one["image"].to_pylist(), two["image"].to_pylist(), strict=True)
    ]
    assert difference(one, two) == pytest.approx(expected)
    assert difference(one.slice(1, 2), two.slice(1, 2)) == pytest.approx(expected[1:3])


@pytest.mark.spark
def test_aligned_routing_on_spark_finds_each_pair_once_and_copies_no_row_of_the_master(
    spark: SparkSession,
) -> None:
    # Segments of 10 s, windows of 4 s: rows before, at and behind the ends of segments.
    seconds = {"left": [0, 8, 9.5, 10, 19, 25], "right": [0.5, 6, 10, 13.9, 20.5, 29]}
    streams = {
        name: spark.createDataFrame(
            [(dt.datetime.fromtimestamp(1_700_000_000 + at, dt.UTC), float(at)) for at in times],
            f"{name}_time timestamp, {name}_value double",
        )
        for name, times in seconds.items()
    }
    joined = aligned("left.left_value + right.right_value >= 0", window=4, segment=10)(streams, "")
    found = [(row.left_value, row.right_value, row.segment) for row in joined.collect()]
    assert sorted(found) == [
        (left, right, 170_000_000 + left // 10)
        for left in seconds["left"]
        for right in seconds["right"]
        if abs(left - right) <= 4
    ]
