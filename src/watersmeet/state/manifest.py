"""The manifest: which segments a join's windows consist of, as one small value.

An entry describes a segment without its rows. Its *parts* name the values in
the store that hold the rows, in order: a segment that was merged from others
keeps their parts, so merging large segments writes nothing to the store.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from watersmeet.errors import StateError
from watersmeet.state.flow import Flow

#: Of the bytes in the store. A change that old state cannot be read with raises it.
FORMAT = 2
#: Format 1 had no small values in the manifest.
_READABLE = (1, FORMAT)


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


@dataclass(frozen=True)
class Debt:
    """Segments whose rows have yet to meet: the ``new`` one is of that ``stream``, the
    ``old`` one of the other. They are named by their ids."""

    stream: int
    new: str
    old: str


@dataclass
class Manifest:
    """What a bucket remembers besides rows.

    ``fingerprint`` says which query the state belongs to; ``settled[i]`` is the
    time up to which stream i's rows are useless, and its unmatched ones given out;
    ``watermark`` is that of the last step, in microseconds; ``timer`` is the
    event-time timer that is set, in milliseconds; ``flows[i]`` is what has been
    measured of stream i, and ``service`` the rows a second that steps have managed;
    ``closings`` names what is stored about closed keys; ``debts`` are the probes of stored
    segments that were put off, oldest first; ``small`` are values that are not worth a place
    of their own in the store.
    """

    fingerprint: str
    windows: list[list[Entry]]
    settled: list[int | None]
    watermark: int | None = None
    timer: int | None = None
    flows: list[Flow] = field(default_factory=list)
    service: float | None = None
    closings: list[str] = field(default_factory=list)
    debts: list[Debt] = field(default_factory=list)
    small: dict[str, bytes] = field(default_factory=dict)

    @property
    def owing(self) -> set[str]:
        """The ids of the segments that owe something, or are owed."""
        return {segment for debt in self.debts for segment in (debt.new, debt.old)}

    @classmethod
    def empty(cls, fingerprint: str, streams: int) -> Manifest:
        return cls(
            fingerprint,
            [[] for _ in range(streams)],
            [None] * streams,
            flows=[Flow() for _ in range(streams)],
        )

    def to_bytes(self) -> bytes:
        fields = {"format": FORMAT, **asdict(self)}
        fields["small"] = {name: b64encode(value).decode() for name, value in self.small.items()}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, value: bytes) -> Manifest:
        fields = json.loads(value)
        found = fields.pop("format")
        if found not in _READABLE:
            raise StateError(
                f"the checkpoint's state is of format {found}, this version of Watersmeet reads "
                f"format {FORMAT}: start the query with a new checkpointLocation"
            )
        windows = [[Entry(**entry) for entry in window] for window in fields.pop("windows")]
        # Checkpoints of version 0.1 know no flows.
        flows = [Flow(**flow) for flow in fields.pop("flows", ({},) * len(windows))]
        debts = [Debt(**debt) for debt in fields.pop("debts", ())]
        small = {name: b64decode(value) for name, value in fields.pop("small", {}).items()}
        return cls(windows=windows, flows=flows, debts=debts, small=small, **fields)


def total_rows(entries: Sequence[Entry]) -> int:
    return sum(entry.rows - entry.gone for entry in entries)


def total_bytes(entries: Sequence[Entry]) -> int:
    return sum(entry.bytes for entry in entries)


def total_memory(entries: Sequence[Entry]) -> int:
    return sum(entry.memory for entry in entries)
