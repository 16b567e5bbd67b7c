"""What a step knows about keys: collected while rows come, in effect when it is told so."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from tests.joins.equi.promises.news import joined
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.counters import EquiCounters
from watersmeet.joins.equi.promises.promised_keys import PromisedKeys
from watersmeet.segments.segment import Segment


def begun(folder: Path, **options: object) -> tuple[PromisedKeys, StepContext]:
    join = joined(folder, **options)
    layout, state = join.join.layout, join.run.state(0)
    context = StepContext(layout, state, EquiCounters.zero(2))
    return PromisedKeys(context), context


def codes(*values: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], ["#code"])


def ends(*values: int) -> pa.RecordBatch:
    nothing = pa.nulls(len(values), pa.int64())
    arrays = [pa.array(values, pa.int64()), nothing, nothing]
    return pa.RecordBatch.from_arrays(arrays, ["#code", "#low", "#high"])


def test_punctuations_close_keys_when_they_take_effect(tmp_path: Path) -> None:
    promised, context = begun(tmp_path)
    news = Segment.of(codes(1, 2, 3))
    promised.punctuate(1, ends(2, 3))
    assert promised.is_punctuated(0, codes(1, 2, None)).tolist() == [False, True, False]
    assert promised.closed_in_other(0, news).tolist() == [False, False, False]
    promised.close_punctuated()
    assert promised.closed_in_other(0, news).tolist() == [False, True, True]
    assert context.counters.streams[1].punctuations == 2


def test_the_order_of_arrival_closes_keys_at_the_end(tmp_path: Path) -> None:
    promised, context = begun(tmp_path, access={"arrival": "ordered"})
    promised.arrive(1, codes(5, None, 7))
    assert not promised.closed_in_other(0, Segment.of(codes(6, 7))).any()
    promised.close_arrived()
    assert promised.closed_in_other(0, Segment.of(codes(6, 7))).tolist() == [True, False]
    promised.save(None)
    again = PromisedKeys(context)
    assert again.closed_in_other(0, Segment.of(codes(6, 7))).tolist() == [True, False]
