"""Names for the parts of segments: the same whenever the step is run again.

Invariant: a name holds the number of the part, counted over the life of the shard, and a digest of
its bytes. So two parts of a shard never have the same name, and two parts with the same name, of
whatever shard or query, have the same bytes.

Why not a random name: Spark may execute a micro-batch twice, on two executors. Then it may read the
state that one of them has left, with changes that a later micro-batch has made to the state of the
other. Both executions begin with the same state and get the same rows, in the same order. So with
such names both leave the same state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

#: Hexadecimal digits of a digest: 128 bits.
_DIGITS = 32


@dataclass
class PartNames:
    """Makes the names of one shard's parts; ``made`` of them so far.

    >>> names = PartNames()
    >>> first, second = names.next(b"rows"), names.next(b"rows")
    >>> first == second, first == PartNames().next(b"rows")
    (False, True)
    """

    made: int = 0

    def next(self, value: bytes) -> str:
        """The name of a new part with these bytes."""
        self.made += 1
        return f"part/{self.made}-{_digest(value)}"


def segment_id(parts: Sequence[str], *, indexed: bool) -> str:
    """The id of a segment of these parts, with or without an index. Its file in the cache is found
    by it, so equal ids mean equal segments."""
    return _digest(" ".join([*parts, str(indexed)]).encode())


def _digest(value: bytes) -> str:
    # Most processors have instructions for SHA-256: it is faster than BLAKE2b there.
    return hashlib.sha256(value).hexdigest()[:_DIGITS]
