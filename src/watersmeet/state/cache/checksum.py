"""A checksum that is cheap enough for every file that is read.

Rule: the bytes are cut into blocks of 512 words of 64 bits. A block becomes one number, the sum of
its words, each folded and multiplied by the odd weight of its place:

    s = Σ w_i · (x_i ⊕ (x_i >> 29))   mod 2^64

The checksum is BLAKE2b of these numbers, of the bytes behind the last block, and of a label.

Invariant: if one word of a block changes, its number changes, because folding can be undone and
the weights are odd. For any other damage the chance that nothing changes is about 2^-64.

Why words are folded: a product modulo 2^64 carries bits only upwards. Round floating-point numbers
have only their upper bits set. Without folding, a block full of 2.0 would look like one of zeros.

It finds damage, not forgery: whoever may write the file can also write its checksum.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

#: The length of a checksum, in bytes.
CHECKSUM_BYTES = 16

_WORDS = 512
_BLOCK_BYTES = 8 * _WORDS
#: Blocks that are folded at a time: few enough to stay in the processor's cache.
_AT_ONCE = 64
_FOLD = np.uint64(29)
#: Random, but the same in every process.
_RANDOM = hashlib.shake_256(b"watersmeet").digest(_BLOCK_BYTES)
_WEIGHTS = np.frombuffer(_RANDOM, np.uint64) | np.uint64(1)


def checksum(content: pa.Buffer, label: str) -> bytes:
    """The checksum of the bytes under that label."""
    count = content.size // _BLOCK_BYTES
    blocks = np.frombuffer(content, np.uint64, count * _WORDS).reshape(count, _WORDS)
    folded = np.empty_like(blocks[:_AT_ONCE])
    digest = hashlib.blake2b(label.encode(), digest_size=CHECKSUM_BYTES)
    for start in range(0, count, _AT_ONCE):
        some = blocks[start : start + _AT_ONCE]
        fold = folded[: len(some)]
        np.right_shift(some, _FOLD, out=fold)
        np.bitwise_xor(fold, some, out=fold)
        digest.update(np.einsum("bw,w->b", fold, _WEIGHTS))
    digest.update(content.slice(count * _BLOCK_BYTES))
    return digest.digest()
