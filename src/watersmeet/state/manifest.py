"""The manifest: which segments the windows of a shard have, as one small value.

Invariant: an entry describes one segment, without its rows. Its *parts* name the values in the
store that hold the rows, in order. Every part belongs to exactly one entry.

Rule: a segment that was merged from others may keep their parts. So a merge of large segments
writes no rows to the store.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from watersmeet.errors import StateError

#: The format of the bytes in the store. It is raised when old state cannot be read any more.
FORMAT = 5


@dataclass
class Entry:
    """A segment as the manifest knows it.

    Invariant: ``marked`` and ``gone`` count the set bits of the segment's bitmaps (see
    :mod:`watersmeet.state.bitmaps`). ``rows`` includes the gone ones.

    ``bytes`` is what the segment takes in the store, ``memory`` what it takes in memory.
    ``indexed`` says whether it has an index."""

    id: str
    parts: list[str]
    rows: int
    bytes: int
    memory: int
    min_time: int
    max_time: int
    marked: int = 0
    indexed: bool = True
    gone: int = 0


@dataclass
class StoredWindow:
    """A window as the manifest knows it: the ``entries`` of its segments. Rows with a time up to
    ``useless_until`` can match nothing any more. If the join emits unmatched rows, those up to that
    time have been emitted."""

    entries: list[Entry] = field(default_factory=list)
    useless_until: int | None = None

    def to_fields(self) -> dict[str, Any]:
        """Its form in JSON."""
        return {**vars(self), "entries": [vars(entry) for entry in self.entries]}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> StoredWindow:
        """The inverse of :meth:`to_fields`."""
        entries = [Entry(**entry) for entry in fields["entries"]]
        return cls(**{**fields, "entries": entries})


@dataclass
class Manifest:
    """What a shard keeps besides rows.

    Invariant: it is plain data. Written as bytes and read again, it is the same.

    ``fingerprint`` says which query the state belongs to, and ``shards`` out of how many this shard
    is one; None: that was not noted. ``windows`` hold the streams' rows, ``named`` windows anything
    else that grows, and ``values`` names single values in the store. ``timer`` is the event-time
    timer that is set, in milliseconds. ``section`` belongs to the operator. ``parts`` counts the
    parts that were made so far. ``small`` are values that are too small to be single values in the
    store (see :class:`watersmeet.state.store.InlineStore`).
    """

    fingerprint: str
    windows: list[StoredWindow]
    named: dict[str, StoredWindow] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    timer: int | None = None
    section: dict[str, Any] = field(default_factory=dict)
    parts: int = 0
    shards: int | None = None
    small: dict[str, bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The form kept in the store: JSON."""
        fields = {
            "format": FORMAT,
            "fingerprint": self.fingerprint,
            "windows": [window.to_fields() for window in self.windows],
            "named": {
                name: window.to_fields() for name, window in self.named.items() if window.entries
            },
            "values": self.values,
            "timer": self.timer,
            "section": self.section,
            "parts": self.parts,
            "shards": self.shards,
            "small": {name: b64encode(value).decode() for name, value in self.small.items()},
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Manifest:
        """The inverse of :meth:`to_bytes`; bytes of another format raise a StateError."""
        fields = json.loads(value)
        found = fields.pop("format")
        if found != FORMAT:
            raise StateError(
                f"the checkpoint's state is of format {found}, this version of Watersmeet reads "
                f"format {FORMAT}: start the query with a new checkpointLocation"
            )
        windows = [StoredWindow.from_fields(window) for window in fields.pop("windows")]
        named = {
            name: StoredWindow.from_fields(window) for name, window in fields.pop("named").items()
        }
        small = {name: b64decode(value) for name, value in fields.pop("small").items()}
        return cls(windows=windows, named=named, small=small, **fields)


def total_rows(entries: Sequence[Entry]) -> int:
    """The rows of all entries that are not gone."""
    return sum(entry.rows - entry.gone for entry in entries)


def total_bytes(entries: Sequence[Entry]) -> int:
    """The bytes of all entries in the store."""
    return sum(entry.bytes for entry in entries)


def total_memory(entries: Sequence[Entry]) -> int:
    """The bytes of all entries in memory."""
    return sum(entry.memory for entry in entries)
