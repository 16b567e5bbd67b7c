"""A hash that is kept in the state: equal for equal keys, and the same for ever."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.conformance.strategies import KEY_KINDS
from watersmeet.rows.codes import canonical_key
from watersmeet.rows.stable_hash import stable_hash

INSTANT = pa.timestamp("us", "UTC")

#: Part of the state's format: with other values, patterns that are stored would fit no row.
GOLDEN = {
    "bigint": (
        pa.array([0, 1, -1]),
        [5197578548964807871, -2529857523242969672, 4922461756044938104],
    ),
    "double": (
        pa.array([0.0, 1.5, float("nan")]),
        [5197578548964807871, 152925022897520223, 166802585970163097],
    ),
    "string": (
        pa.array(["", "a", "eight by", "a longer one"]),
        [0, -1229325667352275874, -7609956940637825658, -7871461933456254448],
    ),
    "binary": (pa.array([b"\x00", b"\xff\x00"]), [-1547715641947990325, -4771844013701300673]),
    "decimal": (
        pa.array([Decimal("1.10"), Decimal("-0.01")], pa.decimal128(10, 2)),
        [1278575624778645983, -3672963794842660658],
    ),
    "date": (
        pa.array([dt.date(1969, 12, 31), dt.date(2024, 1, 1)]),
        [4922461756044938104, -3724228420010795321],
    ),
    "timestamp": (pa.array([1, 2], INSTANT), [-2529857523242969672, -1870194551616352452]),
    "boolean": (pa.array([True, False]), [-2529857523242969672, 5197578548964807871]),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_it_does_not_change(kind: str) -> None:
    values, expected = GOLDEN[kind]
    assert stable_hash([values], len(values)).tolist() == expected


def test_it_is_of_all_columns_in_their_order() -> None:
    columns = [pa.array(["a", "a", "b"]), pa.array(["b", "a", "a"])]
    one, other = stable_hash(columns, 3), stable_hash(columns[::-1], 3)
    assert one.tolist() == [
        -3527911204138141012,
        -4874898467370238450,
        -3211082984651854818,
    ]
    assert other.tolist() == one.tolist()[::-1]
    assert stable_hash([], 2).tolist() == [0, 0]
    assert stable_hash([pa.array([], pa.string())], 0).tolist() == []


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_equal_keys_have_equal_hashes_wherever_they_stand(kind: str) -> None:
    types, values = KEY_KINDS[kind].types[0], KEY_KINDS[kind].values
    for one, pool in zip(types, values, strict=True):
        keys = canonical_key(pa.array([value for value in pool if value is not None], one))
        hashes = stable_hash([keys], len(keys)).tolist()
        again = pa.concat_arrays([keys[1:], keys, pa.nulls(3, one)])[len(keys) - 1 :]
        assert stable_hash([again], len(again)).tolist()[: len(keys)] == hashes
        assert len(set(hashes)) == len(set(map(repr, keys.to_pylist())))


def test_what_differs_in_one_byte_or_in_length_differs() -> None:
    texts = ["x" * length for length in range(40)]
    texts += ["x" * 20 + "\0" * zeros for zeros in range(1, 20)]
    texts += [text[:at] + "y" + text[at + 1 :] for text in texts[8:40:8] for at in range(len(text))]
    assert len(set(stable_hash([pa.array(texts)], len(texts)).tolist())) == len(texts)
    numbers = pa.array([sign << bit for bit in range(62) for sign in (1, -1)])
    assert len(set(stable_hash([numbers], len(numbers)).tolist())) == len(numbers)


def test_text_has_one_hash_in_any_form() -> None:
    texts = pa.array(["", "a", "a longer one"])
    hashes = stable_hash([texts], 3).tolist()
    for kind in (pa.large_string(), pa.binary(), pa.large_binary()):
        assert stable_hash([texts.cast(kind)], 3).tolist() == hashes
