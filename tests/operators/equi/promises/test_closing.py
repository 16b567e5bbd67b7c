"""What closes a key: punctuations of a key, a range or a pattern; order and clusters."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.conformance.join import at, table
from tests.conformance.strategies import INSTANT
from tests.operators.equi.promises.news import ACCESS, END, NEWS, access, joined, news
from watersmeet.errors import ViolationError
from watersmeet.spec.stream import Punctuation
from watersmeet.testing import LocalJoin, LocalStream


class TestOrderAndClusters:
    def test_an_ordered_stream_closes_what_is_below_its_newest_key(self, tmp_path: Path) -> None:
        join = joined(tmp_path, access={"arrival": "ordered"})
        join.batch(news=news(1, 2, 3, 4), access=access(1, 1))
        assert join.state_rows() == [4, 0]
        assert len(join.batch(access=access(2, 3, 3))) == 3
        assert join.state_rows() == [2, 0]
        with pytest.raises(ViolationError, match="key 2: arrival='ordered' has closed it"):
            join.batch(access=access(2))

    def test_a_clustered_stream_closes_the_keys_it_has_left(self, tmp_path: Path) -> None:
        join = joined(tmp_path, access={"arrival": "clustered"})
        join.batch(news=news(1, 2, 7), access=access(7, 7, 2))
        assert join.state_rows() == [3, 0]
        join.batch(access=access(2, 1))
        assert join.state_rows() == [2, 0]
        with pytest.raises(ViolationError, match="arrival='clustered' has closed it"):
            join.batch(access=access(7))

    def test_a_key_whose_rows_were_late_has_arrived_all_the_same(self, tmp_path: Path) -> None:
        timed = pa.schema([("k", pa.int64()), ("t", INSTANT)])
        streams = {
            "a": LocalStream(timed, time="t", delay="0 seconds", arrival="clustered"),
            "b": LocalStream(timed, time="t", delay="0 seconds"),
        }
        join = LocalJoin(streams, on="k", within="1 hour", folder=str(tmp_path))
        join.batch(a=table(timed, [(1, at(10))]), b=table(timed, [(1, at(10))]))
        # Key 1 comes in every batch; in the second one it is late.
        late = join.batch(a=table(timed, [(1, at(5)), (2, at(11))]), b=table(timed, [(2, at(11))]))
        assert join.counters.streams[0].late == 1
        assert late.num_rows == 1
        assert join.batch(a=table(timed, [(1, at(12))])).num_rows == 1


class TestPunctuations:
    @pytest.mark.parametrize("violations", ["fail", "drop"])
    @pytest.mark.parametrize("pattern", [("x", None), (None, None)])
    def test_a_pattern_never_closes_a_null_key(
        self, tmp_path: Path, violations: str, pattern: tuple[str | None, str | None]
    ) -> None:
        schema = pa.schema([("k", pa.string()), ("l", pa.string()), ("end", pa.bool_())])
        ending = LocalStream(schema, punctuation=Punctuation(when='"end"'))
        join = LocalJoin(
            {"a": ending, "b": ending},
            on=["k", "l"],
            how="left",
            violations=violations,
            folder=str(tmp_path),
        )
        join.batch(a=table(schema, [(*pattern, True)]))
        # A null key matches nothing, and comes out at once.
        result = join.batch(a=table(schema, [("x", None, False)]))
        assert result.column("k").to_pylist() == ["x"]
        assert join.counters.streams[0].violations == 0

    def test_a_range_closes_its_keys_and_goes_to_every_shard(self, tmp_path: Path) -> None:
        ranged = Punctuation(when='"end"', low="sno_from", high="to")
        schema = pa.schema(
            [("sno", pa.int64()), ("sno_from", pa.int64()), ("to", pa.int64()), ("end", pa.bool_())]
        )
        join = LocalJoin(
            {
                "news": LocalStream(NEWS, unique=True),
                "access": LocalStream(schema, punctuation=ranged),
            },
            on="sno",
            goal="memory",
            shards=3,
            folder=str(tmp_path),
        )
        join.batch(news=news(*range(10)))
        join.batch(access=table(schema, [(None, 2, 5, True)]))
        assert join.state_rows() == [6, 0]
        join.batch(access=table(schema, [(None, 9, 8, True)]))  # covers nothing
        assert join.state_rows() == [6, 0]
        join.batch(access=table(schema, [(None, None, 0, True)]))  # without a lower bound
        assert join.state_rows() == [5, 0]
        join.batch(access=table(schema, [(None, None, None, True)]))  # everything
        assert join.state_rows() == [0, 0]

    @pytest.mark.parametrize(("bounds", "left"), [({"high": "to"}, 4), ({"low": "to"}, 5), ({}, 0)])
    def test_a_bound_that_is_not_named_leaves_that_side_open(
        self, tmp_path: Path, bounds: dict[str, str], left: int
    ) -> None:
        ranged = Punctuation(when='"end"', **bounds)
        join = joined(tmp_path, access={"punctuation": ranged}, shards=2)
        join.batch(news=news(*range(10)))
        join.batch(access=table(ACCESS, [(None, None, True, 5)]))
        assert join.state_rows() == [left, 0]

    def test_a_pattern_closes_the_keys_that_fit(self, tmp_path: Path) -> None:
        one = pa.schema([("site", pa.string()), ("n", pa.int64()), ("end", pa.bool_())])
        join = LocalJoin(
            {"a": LocalStream(one, punctuation=END), "b": LocalStream(one, punctuation=END)},
            on=["site", "n"],
            goal="memory",
            shards=2,
            folder=str(tmp_path),
        )
        rows = [("x", 1, False), ("x", 2, False), ("y", 1, False)]
        join.batch(a=table(one, rows))
        join.batch(b=table(one, [("x", None, True)]))
        assert join.state_rows() == [1, 0]
        join.batch(a=table(one, [("x", 9, False), ("z", 9, False)]))
        assert join.state_rows() == [2, 0], "of a closed site nothing is stored"
        join.batch(b=table(one, [("y", 1, True)]))
        assert join.state_rows() == [1, 0]
        with pytest.raises(ViolationError, match="'x', 5"):
            join.batch(b=table(one, [("x", 5, False)]))

    def test_one_for_a_key_never_seen_and_the_same_twice(self, tmp_path: Path) -> None:
        join = joined(tmp_path, emit_punctuations=True)
        join.batch(news=news(1), access=access(("end", 77), ("end", 1)))
        join.batch(access=access(("end", 1), ("end", 77)))
        assert join.state_rows() == [0, 0]
        result = join.batch(news=news(77))
        assert result.column("sno").to_pylist() == [77]
        assert result.column("is_punctuation").to_pylist() == [True]

    def test_a_batch_of_nothing_but_punctuations_under_a_watermark(self, tmp_path: Path) -> None:
        instant = pa.timestamp("us", "UTC")
        schema = pa.schema([("k", pa.int64()), ("t", instant), ("end", pa.bool_())])
        stream = LocalStream(schema, time="t", delay="0 seconds", punctuation=END)
        join = LocalJoin({"a": stream, "b": stream}, on="k", goal="memory", folder=str(tmp_path))
        for second in (1, 2):
            join.batch(**dict.fromkeys("ab", table(schema, [(second, at(second), False)])))
        assert join.watermark is not None
        join.batch(a=table(schema, [(2, at(3), True)]))
        assert join.state_rows() == [2, 1]

    def test_null_keys_are_never_unique_nor_closed(self, tmp_path: Path) -> None:
        join = joined(tmp_path)
        for _ in range(2):
            assert len(join.batch(news=news(None, None), access=access(None))) == 0
        assert join.state_rows() == [0, 0]
