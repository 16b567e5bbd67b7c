"""One step: what it leaves behind is in its state, and nowhere else."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.conformance import join as conformance
from tests.conformance.join import at, table
from tests.conformance.strategies import INSTANT
from watersmeet.joins.equi import operator, step
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.spec.budget import Budget
from watersmeet.spec.stream import Punctuation
from watersmeet.testing import LocalJoin, LocalStream

START = int(conformance.START.timestamp()) * 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("t", INSTANT), ("n", pa.int64()), ("end", pa.bool_())])
TIMED: dict[str, Any] = {"time": "t", "delay": "1 second"}
PLAIN = LocalStream(SCHEMA, **TIMED)
ENDING = LocalStream(SCHEMA, punctuation=Punctuation(when='"end"'), **TIMED)
UNIQUE = LocalStream(SCHEMA, unique=True, **TIMED)
EARLY = {"goal": "early", "budget": Budget(memory=600)}

JOINS: dict[str, tuple[list[LocalStream], dict[str, Any]]] = {
    "pairs": ([PLAIN, PLAIN], {}),
    "outer": ([PLAIN, PLAIN], {"how": "full"}),
    "semi": ([PLAIN, PLAIN], {"how": "semi"}),
    "punctuated": ([ENDING, ENDING], {"how": "full", "emit_punctuations": True}),
    "unique": ([UNIQUE, ENDING], {"how": "left"}),
    "in stages": ([ENDING, ENDING], {"how": "full", "emit_punctuations": True, **EARLY}),
    "combinations": ([PLAIN, PLAIN, PLAIN], {}),
    "incomplete combinations": ([PLAIN, PLAIN, PLAIN], {"how": "left"}),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Workers hardly ever collect garbage: only what no reference keeps alive is freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def rows(second: int) -> pa.Table:
    """Rows of five keys; one key is closed."""
    data = [(second % 7 + key, at(second), key, False) for key in range(5)]
    return table(SCHEMA, [*data, (second % 7, at(second), None, True)])


def local(streams: list[LocalStream], folder: Path, **options: Any) -> LocalJoin:
    named = dict(zip("abc", streams, strict=False))
    options = {"within": "5 seconds", "violations": "keep", "goal": "memory", **options}
    return LocalJoin(named, on="k", folder=str(folder), **options)


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("name", JOINS)
def test_nothing_of_a_step_outlives_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams, options = JOINS[name]
    join = local(streams, tmp_path, **options)
    alive: list[weakref.ref[Any]] = []

    class Watched(StepContext):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            alive.append(weakref.ref(self))
            alive.append(weakref.ref(self.state))

    watched: list[int] = []

    class WatchedStep(step.EquiStep):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            promises = self.promises
            every: tuple[object, ...] = (self, self.matcher, promises, self.debts)
            if promises is not None:
                every += (promises._promised, promises._purge, promises._propagation)
            parts = [part for part in every if part is not None]
            alive.extend(weakref.ref(part) for part in parts)
            watched.append(len(parts))

    monkeypatch.setattr(step, "StepContext", Watched)
    monkeypatch.setattr(operator, "EquiStep", WatchedStep)
    # Given steps with rows, one without, and the end of time,
    results = 0
    for second in range(6):
        results += join.batch(**dict.fromkeys("abc"[: len(streams)], rows(second))).num_rows
        assert not any(ref() for ref in alive)
    results += join.batch().num_rows + join.finish().num_rows
    # then each left results, and nothing else.
    assert results > 10
    # Itself and the matcher; four parts for promises; one for deferred probes.
    parts = (
        2
        + 4 * any(stream.punctuation or stream.unique for stream in streams)
        + (options.get("goal") == "early")
    )
    assert watched == [parts] * 9, "eight steps, and the end of the last"
    assert len(alive) == 9 * (2 + watched[0]), "the parts of each, its context and its state"
    assert not any(ref() for ref in alive)


@pytest.mark.usefixtures("no_collection")
def test_a_step_whose_results_nobody_takes_is_freed_too(tmp_path: Path) -> None:
    join = local([PLAIN, PLAIN], tmp_path)
    join.batch(a=rows(0), b=rows(0))
    state = join.run.state(0)
    batch = [join.encoded(i, rows(1)) for i in range(2)]
    results = join.join.step([batch], None, state, EquiCounters.zero(2))
    assert next(results).num_rows > 0
    ref = weakref.ref(state)
    del state, results
    assert ref() is None


def test_a_shard_without_rows_keeps_up_with_the_watermark_of_a_stream(tmp_path: Path) -> None:
    """A stream with its own watermark is late by the watermark before: in every shard by the same
    one, also in those that a micro-batch without rows would not step."""
    join = local([PLAIN, PLAIN], tmp_path)
    assert not join.run.state(0).waits
    layout = join.join.layout
    first, second = layout.inputs
    own = replace(layout, inputs=(replace(first, own_watermark=True), second))
    join.run.operator = operator.EquiJoin(own)
    # Given a shard that stores nothing, and waits for the watermark all the same,
    join.batch()
    assert join.run.state(0).waits
    # when the watermark has moved to 10 and then to 20, and rows come in between,
    join.run.watermark = 10_000_000 + START
    join.batch()
    join.run.watermark = 20_000_000 + START
    data = [(key, at(second), key, False) for key, second in enumerate((9, 10, 11, 21))]
    join.batch(a=table(SCHEMA, data), b=table(SCHEMA, data))
    # then those of the stream are judged by the first, those of the other by the second.
    assert [count.late for count in join.counters.streams] == [2, 3]


def test_time_can_end_without_a_step(tmp_path: Path) -> None:
    """As at the end of a batch run."""
    join = local([PLAIN, PLAIN], tmp_path, how="left")
    join.batch(a=table(SCHEMA, [(1, at(0), 7, False)]))
    state, counters = join.run.state(0), EquiCounters.zero(2)
    [batch] = join.join.finish(state, counters)
    assert batch.to_pydict()["a_n"] == [7]
    assert (counters.results, state.windows[0].rows) == (1, 0)
