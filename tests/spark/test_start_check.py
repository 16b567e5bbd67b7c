"""What a query is compared with when it starts, without Spark. (What follows from that:
test_recovery.py.)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.errors import StateError
from watersmeet.rows.shard import Shard
from watersmeet.spark.checkpoint import start_check
from watersmeet.spark.checkpoint.checkpoint import Checkpoint, check
from watersmeet.spark.checkpoint.note import Note, OperatorState
from watersmeet.state.cache import SegmentCache
from watersmeet.state.fingerprint import fingerprint_of
from watersmeet.state.manifest import Manifest
from watersmeet.state.shard import ShardState
from watersmeet.state.store import MemoryStore


def test_the_joins_of_a_plan_are_found_by_the_names_of_their_observations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given joins of which one's name begins with another's, and with what follows a name,
    names = ["watersmeet: a", "watersmeet: a (2)", "watersmeet: a, [b", "watersmeet: c"]
    monkeypatch.setattr(
        start_check, "_operators", {name: OperatorState(f"<{name}>") for name in names}
    )
    plan = """WriteToMicroBatchDataSource
+- Project [id#1]
   +- CollectMetrics watersmeet: a (2), [transform(x)[0] AS step#1], 16
      +- ~CollectMetrics watersmeet: a, [b, [transform(x)[0] AS step#2], 17
         +- CollectMetrics of the user, [count(1) AS n#3L], 18"""
    # when a plan has two of them, then these are found, and no others.
    found = [operator.fingerprint for operator in start_check.operators_in(plan)]
    assert found == ["<watersmeet: a (2)>", "<watersmeet: a, [b>"]
    assert start_check.operators_in("Project [id#1]") == []
    assert start_check.named_in(plan) == "a (2); a, [b"


def test_the_jobs_of_a_query_are_called_by_its_joins_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a join of two operators, when the query is named, then the join is named once.
    hops = [f"watersmeet: near, hop {number} of 2" for number in (1, 2)]
    monkeypatch.setattr(start_check, "_operators", {name: OperatorState(name) for name in hops})
    plan = "\n".join(f"CollectMetrics {name}, [transform(x)[0] AS step#1], 1" for name in hops)
    assert start_check.named_in(plan) == "near"


def checkpoint_of(
    names: Mapping[str, Sequence[str]],
    fingerprint: str = "",
    *,
    version: str = "4.3.0",
    partitions: int = 2,
) -> Checkpoint:
    """A checkpoint with files of these names in its folders, state of that fingerprint, and what
    Spark logs of the partitions."""
    spark: Any = SimpleNamespace(version=version)
    checkpoint = Checkpoint(spark, "ck")
    offsets = f'v1\n{{"conf":{{"spark.sql.shuffle.partitions":"{partitions}"}}}}\n{{"logOffset":0}}'
    files = SimpleNamespace(
        names=lambda folder: list(names.get(folder, ())), read={"ck/offsets/0": offsets}.get
    )
    vars(checkpoint).update(files=files, states=[[Manifest(fingerprint, [])]])
    return checkpoint


def test_the_micro_batches_of_a_checkpoint_are_those_that_spark_has_logged() -> None:
    # Given logs as Spark leaves them, with a file that was being written,
    logs = {"ck/offsets": ["9", "10", "11"], "ck/commits": ["9", ".11.tmp", "10", ".10.crc"]}
    checkpoint = checkpoint_of(logs)
    # when they are read, then the last micro-batch was begun, and the one before was finished;
    assert (checkpoint.begun, checkpoint.committed, checkpoint.interrupted) == (11, 10, True)
    # and where nothing has run, there is none.
    new = checkpoint_of({})
    assert (new.begun, new.committed, new.last, new.interrupted) == (None, None, -1, False)


@pytest.mark.parametrize("version", ["4.1.4", "4.3.0"])
def test_every_spark_that_we_support_refuses_a_changed_join(version: str) -> None:
    was, now = (fingerprint_of({"window of views": length}) for length in ("5 min", "10 min"))
    checkpoint = checkpoint_of({"ck/commits": ["0"]}, was, version=version)
    check(checkpoint, [was])
    with pytest.raises(StateError, match="window of views: was 5 min, now 10 min"):
        check(checkpoint, [now])


def test_a_checkpoint_that_was_repartitioned_is_refused(tmp_path: Path) -> None:
    # Given the note of a join in two partitions, when the checkpoint has four by now,
    checkpoint = checkpoint_of({"ck/offsets": ["0"], "ck/commits": ["0"]}, "q", partitions=4)
    noted = Note((OperatorState("q"),), partitions=2).text()
    read = checkpoint.files.read
    files: Any = checkpoint.files
    files.read = lambda path: noted if path == "ck/watersmeet.json" else read(path)
    reasons: list[str] = []
    query: Any = SimpleNamespace(fail=reasons.append)
    start_check._compare_operators(query, [OperatorState("q")], checkpoint)
    # then the query ends at its start.
    assert (
        "StateError: the checkpoint was repartitioned: its state was written in 2 shuffle"
        in reasons[0]
    )
    # Without the note, the state itself says so.
    store, cache = MemoryStore(), SegmentCache(str(tmp_path), 1 << 20)
    ShardState(store, cache, shard=Shard(0, 2), fingerprint="q").commit()
    ShardState(store, cache, shard=Shard(0, 2), fingerprint="q").commit()
    with pytest.raises(StateError, match="written in 2 shuffle partitions, and is in 4"):
        ShardState(store, cache, shard=Shard(0, 4), fingerprint="q")


def test_a_checkpoint_with_another_number_of_partitions_is_told_of_and_what_fits() -> None:
    def told(kept: int, session: int, cores: int | None) -> str | None:
        checkpoint = checkpoint_of({"ck/offsets": ["0"]}, partitions=kept)
        return start_check.other_partitions(checkpoint, session, cores)

    # Given a checkpoint with as many as the session, or none, then there is nothing to tell.
    assert told(200, 200, 2) is None
    assert start_check.other_partitions(checkpoint_of({}), 2, 2) is None
    # Given another number, then both are told;
    differs = (
        "ck: the query goes on with the 8 shuffle partitions that its checkpoint was begun with"
    )
    assert told(8, 2, 2) == f"{differs}, not with the session's 2."
    assert told(8, 2, None) == told(8, 2, 2)
    # and if these are far too many, then also what to do.
    assert str(told(200, 2, 2)).endswith(
        "not with the session's 2; these are far too many for 2 cores, as every micro-batch takes "
        "a step of each: 2 fit, and need a new checkpointLocation."
    )
