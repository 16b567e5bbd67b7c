"""A checksum that is cheap enough for every file that is read.

Rule: the bytes are taken as words of 64 bits, and 512 of them make a block. The checksum is BLAKE2b
of a label, and of

    s_b = Σ w_i · x_bi   mod 2^64    for each block b, with a random odd weight for each place i
    t   = Σ of all half words        (32 bits each), which is never too large for 64 bits

and of the bytes behind the last block.

Invariant: it changes if one word of a block changes, because the weights are odd, and so 2^64 has
no divisor in common with them. It changes if anything is overwritten by zeros, because then t gets
smaller. For any other damage the chance that it stays the same is about 2^-64.

Why both: a product modulo 2^64 carries bits only upwards. Round floating-point numbers have only
their upper bits set: a block full of 2.0 has the same s as one of zeros, or nearly so. If one block
of such numbers takes the place of another, the chance that the checksum stays the same is still one
in some ten thousands.

It finds damage, not forgery: whoever may write the file can also write its checksum.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The length of a checksum, in bytes.
CHECKSUM_BYTES = 16

_WORDS = 512
_BLOCK_BYTES = 8 * _WORDS
#: Random, but the same in every process.
_RANDOM = hashlib.shake_256(b"watersmeet").digest(_BLOCK_BYTES)
_WEIGHTS = np.frombuffer(_RANDOM, np.uint64) | np.uint64(1)


def checksum(content: pa.Buffer, label: str) -> bytes:
    """The checksum of the bytes under that label."""
    count = content.size // _BLOCK_BYTES
    blocks = np.frombuffer(content, np.uint64, count * _WORDS).reshape(count, _WORDS)
    halves = pa.Array.from_buffers(pa.uint32(), 2 * count * _WORDS, [None, content])
    digest = hashlib.blake2b(label.encode(), digest_size=CHECKSUM_BYTES)
    digest.update(np.einsum("bw,w->b", blocks, _WEIGHTS))
    digest.update(str(pc.sum(halves, min_count=0).as_py()).encode())
    digest.update(content.slice(count * _BLOCK_BYTES))
    return digest.digest()
