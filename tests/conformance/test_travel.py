"""The operator and its layout are pickled on the driver and work in another process."""

from __future__ import annotations

import pickle
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.conformance.join import Join, at
from tests.conformance.strategies import INSTANT, LESS
from tests.oracle import assert_same_rows
from watersmeet.spec.join_type import JOIN_NAMES
from watersmeet.testing import LocalJoin, LocalStream

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("t", INSTANT)])
STREAM = LocalStream(SCHEMA, time="t", delay=timedelta(0))


@pytest.mark.parametrize("how", JOIN_NAMES)
@pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
def test_a_copy_goes_on_where_the_original_stopped(
    tmp_path: Path, pickler: ModuleType, how: str
) -> None:
    within = timedelta(seconds=5)
    join = Join({"a": STREAM, "b": STREAM}, on="k", within=within, how=how, where=LESS)
    local = LocalJoin(join.streams, folder=str(tmp_path), **join.options)
    batches = [
        join.batch(a=[("x", 1, at(0)), ("y", 1, at(0))]),
        join.batch(b=[("x", 2, at(1)), ("z", 2, at(1))]),
        *join.closing(),
    ]
    results = [local.batch(**batches[0])]
    local.run.operator = pickler.loads(pickler.dumps(local.join))
    layout = pickler.loads(pickler.dumps(local.join.layout))
    assert layout.fingerprint == local.join.layout.fingerprint
    results += [local.batch(**batch) for batch in batches[1:]]
    assert_same_rows(pa.concat_tables(results), join.expected(batches))
