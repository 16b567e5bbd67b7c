"""The order in which new rows are processed."""

from __future__ import annotations

from pathlib import Path

from tests.operators.equi.promises.news import access, joined, news
from watersmeet.spec.policy import Schedule


class TestScheduling:
    def test_what_a_punctuation_is_about_comes_out_first(self, tmp_path: Path) -> None:
        join = joined(tmp_path, goal="early", emit_punctuations=True)
        records = access(5, 6, 7, 5, ("end", 5))
        result = join.batch(news=news(5, 6, 7), access=records)
        assert result.column("sno").to_pylist() == [5, 5, 5, 6, 7]
        assert result.column("is_punctuation").to_pylist() == [False, False, True, False, False]

    def test_rows_of_the_many_side_wait_for_quotas_only(self, tmp_path: Path) -> None:
        """With the one side first nothing of the many side is stored; taken at random,
        some of it is."""
        dropped = {}
        for streams in ("priority", "random"):
            schedule = Schedule(streams, quota=1)
            join = joined(tmp_path / streams, schedule=schedule)
            join.batch(news=news(*range(30)), access=access(*reversed(range(30))))
            assert join.counters.results == 30
            dropped[streams] = join.counters.streams[1].dropped
        whole = joined(tmp_path / "whole")
        whole.batch(news=news(*range(30)), access=access(*reversed(range(30))))
        assert whole.counters.streams[1].dropped == 30
        assert dropped["random"] < 30
