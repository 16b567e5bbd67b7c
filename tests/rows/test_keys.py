"""Keys that share a code are told apart by their values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.rows.columns import key_name
from watersmeet.rows.stored_keys import same_keys
from watersmeet.spec.limits import LIMITS, Limits


@dataclass(frozen=True)
class Hashed:
    exact: bool = False
    key_columns: tuple[str, ...] = (key_name(0),)
    limits: Limits = LIMITS


@pytest.mark.parametrize(
    ("kind", "values"),
    [(pa.float64(), [1.5, math.nan, 2.5]), (pa.float32(), [0.0, math.nan]), (pa.string(), "ab")],
    ids=str,
)
def test_keys_are_the_same_if_their_values_are(kind: pa.DataType, values: Any) -> None:
    # Given every pair of some keys, as if all had one code,
    rows = pa.record_batch([pa.array([*values], kind)], [key_name(0)])
    mine, theirs = np.divmod(np.arange(len(values) ** 2), len(values))
    # then only a key and itself are the same; so is NaN.
    same = same_keys(Hashed(), rows, rows, mine, theirs)
    assert same.tolist() == (mine == theirs).tolist()
