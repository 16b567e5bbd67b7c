"""Damage is found wherever it is, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.state.cache.checksum import CHECKSUM_BYTES, checksum

#: Bytes of a page, and of the smallest unit that a disk writes.
PAGE, SECTOR = 4096, 512
SIZE = 40 * PAGE + 700

#: What columns are full of. Many have bits only at one end of a word, or sum up to nothing.
CONTENTS: dict[str, np.ndarray] = {
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


def sum_of(content: bytes, label: str = "label") -> bytes:
    return checksum(pa.py_buffer(content), label)


def damages(content: bytes, random: np.random.Generator) -> Iterator[bytes]:
    """The content, damaged in many ways. Some of them may change nothing."""

    def place(unit: int) -> slice:
        start = int(random.integers(0, len(content) // unit)) * unit
        return slice(start, start + unit)

    def put(where: slice, filling: bytes) -> bytes:
        return content[: where.start] + filling + content[where.stop :]

    for unit in (8, SECTOR, PAGE, 8 * PAGE):
        here, there = place(unit), place(unit)
        for filling in (bytes(unit), random.bytes(unit), content[there]):
            yield put(here, filling)
    page, byte, bit = place(PAGE), place(1), int(random.integers(0, 8))
    yield put(page, random.permutation(np.frombuffer(content[page], np.uint64)).tobytes())
    yield put(byte, bytes([content[byte.start] ^ 1 << bit]))
    yield content[:-700] + bytes(700)
    yield content[: int(random.integers(0, len(content)))]
    yield content + bytes(8)


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
    assert sum_of(np.arange(1000).tobytes()).hex() == "4d2db89c2fa6922ef136fa8f17da48fc"
