"""Rows of Spark's *unsafe* format, in which state is stored, as bytes.

    null bits, 8 bytes │ a word for each field │ what is not of fixed length, in whole words
                         a number, or (length, offset)

No field is null here.
"""

from __future__ import annotations

import struct


def unsafe_row(*fields: int | bytes) -> bytes:
    """A row of Spark's unsafe format, with fields that are integers or bytes.

    >>> unsafe_row(7).hex(), unsafe_row(b"ab").hex()
    ('00000000000000000700000000000000', '000000000000000002000000100000006162000000000000')
    """
    words, rest = b"", b""
    for field in fields:
        if isinstance(field, int):
            words += struct.pack("<q", field)
        else:
            words += struct.pack("<II", len(field), 8 + 8 * len(fields) + len(rest))
            rest += field + bytes(-len(field) % 8)
    return bytes(8) + words + rest


def unsafe_key(shard: int, name: str) -> bytes:
    """The key of a value in the map of a shard."""
    return unsafe_row(unsafe_row(shard), unsafe_row(name.encode()))
