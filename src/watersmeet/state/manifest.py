"""The manifest: which segments a shard's windows consist of, as one small value.

An entry describes a segment without its rows. Its *parts* name the values in
the store that hold the rows, in order: a segment that was merged from others
keeps their parts, so merging large segments writes nothing to the store.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.errors import StateError

#: Of the bytes in the store. A change that old state cannot be read with raises it.
FORMAT = 3


@dataclass
class Entry:
    """A segment as the manifest knows it. ``bytes`` is what it takes in the store,
    ``memory`` what it takes decoded; ``marked`` counts its marked rows and ``gone`` those
    that are done with; ``indexed`` says whether it is kept with an index."""

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
class Manifest:
    """What a shard remembers besides rows.

    ``fingerprint`` says which query the state belongs to; ``timer`` is the event-time timer
    that is set, in milliseconds; ``section`` is the operator's own; ``small`` are values that
    are not worth a place of their own in the store.
    """

    fingerprint: str
    windows: list[list[Entry]]
    timer: int | None = None
    section: dict[str, Any] = field(default_factory=dict)
    small: dict[str, bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        fields = {"format": FORMAT, **asdict(self)}
        fields["small"] = {name: b64encode(value).decode() for name, value in self.small.items()}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Manifest:
        fields = json.loads(value)
        found = fields.pop("format")
        if found != FORMAT:
            raise StateError(
                f"the checkpoint's state is of format {found}, this version of Watersmeet reads "
                f"format {FORMAT}: start the query with a new checkpointLocation"
            )
        windows = [[Entry(**entry) for entry in window] for window in fields.pop("windows")]
        small = {name: b64decode(value) for name, value in fields.pop("small").items()}
        return cls(windows=windows, small=small, **fields)


def total_rows(entries: Sequence[Entry]) -> int:
    return sum(entry.rows - entry.gone for entry in entries)


def total_bytes(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def total_memory(entries: Sequence[Entry]) -> int:
    return sum(entry.memory for entry in entries)
