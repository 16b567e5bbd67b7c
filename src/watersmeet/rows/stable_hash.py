"""A hash of key columns that is kept in the state.

Invariant: equal keys have equal hashes, in every version of every library and on every machine.
This is part of the state's format.

Rule: a value is cut into words of 64 bits. Each word is mixed with its place, the words of a value
are added up, and so are, mixed again, the columns of a key. The mixing is the finalizer of
SplitMix64: every bit of the result depends on every bit of the word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.rows.columns import Ints

_Words = npt.NDArray[np.uint64]

#: 2**64 divided by the golden ratio: the step from one place to the next.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)

#: The types of values of any length. Spark has two forms of them in Arrow.
_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
)


def stable_hash(keys: Sequence[pa.Array], rows: int) -> Ints:
    """For each of the rows, the hash of its canonical keys. A null is hashed as some value.

    >>> stable_hash([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])], 3).tolist()
    [4922001585047004430, 8388227811424666355, 4922001585047004430]
    """
    hashes = np.zeros(rows, dtype=np.uint64)
    for key in keys if rows else ():
        hashes = _mixed(hashes + _of_column(key))
    return hashes.view(np.int64)


def _mixed(words: _Words) -> _Words:
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * _FIRST
        words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


def _placed(words: _Words, places: Ints) -> _Words:
    """Each word, mixed with its place in the value."""
    with np.errstate(over="ignore"):
        return _mixed(words + (places + 1).astype(np.uint64) * _STEP)


def _of_column(key: pa.Array) -> _Words:
    kind = key.type
    if any(is_bytes(kind) for is_bytes in _BYTES):
        return _of_bytes(key.cast(pa.large_binary()))
    if pa.types.is_decimal(kind):
        both = np.frombuffer(key.buffers()[1], np.uint64).reshape(-1, 2)
        both = both[key.offset : key.offset + len(key)]
        with np.errstate(over="ignore"):
            return _placed(both[:, 0], np.array(0)) + _placed(both[:, 1], np.array(1))
    if pa.types.is_floating(kind):
        words = key.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    else:
        number = key.view(pa.int32()) if pa.types.is_date32(kind) else key
        whole = number.view(pa.int64()) if pa.types.is_timestamp(kind) else number.cast(pa.int64())
        words = whole.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    return _placed(words, np.array(0))


def _of_bytes(key: pa.Array) -> _Words:
    """Of values of any length, the words added up; the last one is filled with zeros."""
    _, offsets, content = key.buffers()
    bounds = np.frombuffer(offsets, np.int64)[key.offset : key.offset + len(key) + 1]
    data = np.frombuffer(content or b"", np.uint8)
    sizes = np.diff(bounds)
    counts = -(-sizes // 8)
    ends = np.cumsum(counts)
    places = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    starts, limits = np.repeat(bounds[:-1], counts) + 8 * places, np.repeat(bounds[1:], counts)
    words = np.zeros(len(places), dtype=np.uint64)
    for byte in range(8):
        inside = np.flatnonzero(starts + byte < limits)
        words[inside] |= data[starts[inside] + byte].astype(np.uint64) << np.uint64(8 * byte)
    hashes = sizes.astype(np.uint64)  # so that a zero at the end counts
    filled = np.flatnonzero(counts)
    if len(filled):
        with np.errstate(over="ignore"):
            hashes[filled] += np.add.reduceat(_placed(words, places), (ends - counts)[filled])
    return hashes
