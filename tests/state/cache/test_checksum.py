"""Damage is found wherever it is, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.state.cache.checksum import CHECKSUM_BYTES, checksum

#: Bytes of a page, and of the smallest unit that a disk writes.
PAGE, SECTOR = 4096, 512
SIZE = 40 * PAGE + 700

#: What columns are full of. Many have bits only at one end of a word, or sum up to nothing.
CONTENTS = {
    "random": np.random.default_rng(0).integers(0, 256, SIZE, dtype=np.uint8),
    "ones": np.ones(SIZE // 8, np.int64),
    "ascending": np.arange(SIZE // 8),
    "one and minus one": np.resize(np.array([1, -1]), SIZE // 8),
    "2.0": np.full(SIZE // 8, 2.0),
    "-0.0": np.full(SIZE // 8, -0.0),
    "round": np.resize(np.array([1.0, 2.0, 4.0, -2.0]), SIZE // 8),
    "2.0, of 32 bits": np.full(SIZE // 4, 2.0, np.float32),
    "true": np.full(SIZE, 255, np.uint8),
    "text": np.resize(np.frombuffer(b"campaign-7", np.uint8), SIZE),
    "zeros": np.zeros(SIZE, np.uint8),
}


def sum_of(content: bytes | bytearray, label: str = "label") -> bytes:
    return checksum(pa.py_buffer(bytes(content)), label)


def damages(content: bytes, random: np.random.Generator) -> Iterator[bytearray]:
    """The content, damaged in many ways. Some of them may change nothing."""

    def place(unit: int) -> slice:
        start = int(random.integers(0, len(content) // unit)) * unit
        return slice(start, start + unit)

    def edits() -> Iterator[Callable[[bytearray], None]]:
        for unit in (8, SECTOR, PAGE, 8 * PAGE):
            one, other = place(unit), place(unit)
            yield lambda c, one=one, unit=unit: c.__setitem__(one, bytes(unit))
            yield lambda c, one=one, unit=unit: c.__setitem__(one, random.bytes(unit))
            yield lambda c, one=one, other=other: c.__setitem__(one, content[other])
        yield lambda c: c.__setitem__(slice(-700, None), bytes(700))
        bit = int(random.integers(0, 8 * len(content)))
        yield lambda c: c.__setitem__(bit // 8, c[bit // 8] ^ (1 << bit % 8))
        yield lambda c: c.__delitem__(slice(-int(random.integers(1, len(content))), None))
        yield lambda c: c.extend(bytes(8))

    for edit in edits():
        damaged = bytearray(content)
        edit(damaged)
        yield damaged


@pytest.mark.parametrize("name", CONTENTS)
def test_every_damage_is_found(name: str) -> None:
    content, random = CONTENTS[name].tobytes(), np.random.default_rng(1)
    right = sum_of(content)
    assert len(right) == CHECKSUM_BYTES
    found = 0
    for _ in range(8):
        for damaged in damages(content, random):
            assert (sum_of(damaged) == right) == (damaged == content)
            found += damaged != content
    assert found >= 40


def test_it_depends_on_the_label() -> None:
    content = CONTENTS["random"].tobytes()
    assert sum_of(content, "one") != sum_of(content, "two")
    assert sum_of(b"", "one") != sum_of(b"", "two")


def test_it_is_the_same_in_every_process_and_version() -> None:
    """A golden value: another one means that files of another version are not read."""
    assert sum_of(np.arange(1000), "label").hex() == "49ce2be29c573e2c42914765f41e8347"
