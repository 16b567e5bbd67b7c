"""The order in which new rows are processed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.metadata.schedules import Runs
from tests.conformance.join import table
from tests.joins.equi.promises.news import ACCESS, access, joined, news
from watersmeet.spec.stream import Punctuation
from watersmeet.testing import LocalJoin, LocalStream


class TestScheduling:
    def test_what_a_punctuation_is_about_comes_out_first(self, tmp_path: Path) -> None:
        join = joined(tmp_path, goal="early", emit_punctuations=True)
        records = access(5, 6, 7, 5, ("end", 5))
        result = join.batch(news=news(5, 6, 7), access=records)
        assert result.column("sno").to_pylist() == [5, 5, 5, 6, 7]
        assert result.column("is_punctuation").to_pylist() == [False, False, True, False, False]

    def test_what_a_waiting_punctuation_is_about_comes_out_first(self, tmp_path: Path) -> None:
        join = joined(tmp_path / "one", goal="early", emit_punctuations=True)
        assert len(join.batch(access=access(5, ("end", 5)))) == 0
        result = join.batch(news=news(6, 5), access=access(6))
        assert result.column("sno").to_pylist() == [5, 5, 6]
        assert result.column("is_punctuation").to_pylist() == [False, True, False]

    def test_what_a_waiting_range_is_about_comes_out_first(self, tmp_path: Path) -> None:
        ranged = LocalStream(ACCESS, punctuation=Punctuation(when='"end"', high="to"))
        options: dict[str, Any] = {"goal": "early", "emit_punctuations": True}
        join = LocalJoin({"a": ranged, "b": ranged}, on="sno", folder=str(tmp_path), **options)
        join.batch(a=access(6))
        join.batch(a=table(ACCESS, [(5, "x", False, None), (None, None, True, 5)]))
        result = join.batch(b=access(6, 5))
        assert result.column("sno").to_pylist() == [5, 6]

    def test_rows_of_the_many_side_wait_for_quotas_only(self, tmp_path: Path) -> None:
        """With the one side first nothing of the many side is stored; taken at random,
        some of it is."""
        dropped = {}
        for streams in ("priority", "random"):
            schedule = Runs(streams, quota=1)
            join = joined(tmp_path / streams, schedule=schedule)
            join.batch(news=news(*range(30)), access=access(*reversed(range(30))))
            assert join.counters.results == 30
            dropped[streams] = join.counters.streams[1].dropped
        whole = joined(tmp_path / "whole")
        whole.batch(news=news(*range(30)), access=access(*reversed(range(30))))
        assert whole.counters.streams[1].dropped == 30
        assert dropped["random"] < 30
