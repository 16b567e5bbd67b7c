"""The note in a checkpoint: which joins have used it, and how many slices they had.

Invariant: the note is a hint only, and the state itself has the last word. One that is missing or
not readable says nothing. It is written anew while nothing is committed, and whenever a query with
other numbers starts.

It says how many slices of a join without a key may hold rows, and from which micro-batch on which
number of slices holds: a micro-batch that was interrupted must deal its rows as it did then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from watersmeet.spark.checkpoint.checkpoint import Checkpoint
from watersmeet.spark.jvm.objects import JvmError
from watersmeet.state.manifest import FORMAT

#: The note's name in the folder of the checkpoint.
NOTE = "watersmeet.json"


@dataclass(frozen=True)
class OperatorState:
    """The state of an operator: its fingerprint, and over how many shards, the first ones, its rows
    are dealt, if they have no key. ``waits``: may rows wait for a micro-batch without data? That
    is no part of what the state is of."""

    fingerprint: str
    slices: int | None = None
    waits: bool = field(default=False, compare=False)

    def reaching(self, checkpoint: Checkpoint) -> OperatorState:
        """The same, with all shards that hold rows of it in a checkpoint."""
        if self.slices is None:
            return self
        return self.with_slices(checkpoint.slices(self.fingerprint))

    def with_slices(self, least: int) -> OperatorState:
        """The same, with so many slices at least, if it has slices."""
        return self if self.slices is None else replace(self, slices=max(self.slices, least))


#: From a micro-batch on, the slices of each operator whose rows have no key.
SlicesSince = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Note:
    """What is said in a checkpoint: which joins it belongs to, with the slices that may hold rows,
    how many slices there were when, and in how many shuffle ``partitions`` its state is; None: not
    said. A note that is not readable says nothing."""

    joins: tuple[OperatorState, ...] = ()
    history: tuple[SlicesSince, ...] = ()
    partitions: int | None = None

    @classmethod
    def read(cls, text: str) -> Note:
        try:
            said = json.loads(text)
            if said["format"] != FORMAT:
                return cls()
            joins = tuple(OperatorState(*join) for join in said["joins"])
            history = tuple((since, tuple(n)) for since, n in said.get("slices", ()))
            return cls(joins, history, said.get("partitions"))
        except (ValueError, TypeError, KeyError):
            return cls()

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Note | None:
        """The note in a checkpoint; None, if there is none. One that a crash has left half written
        says nothing."""
        try:
            text = checkpoint.files.read(f"{checkpoint.folder}/{NOTE}")
        except JvmError:
            return cls()
        return None if text is None else cls.read(text)

    def text(self) -> str:
        joins = [(join.fingerprint, join.slices) for join in self.joins]
        said = {"joins": joins, "slices": self.history, "partitions": self.partitions}
        return json.dumps({"format": FORMAT, **said})

    def write(self, checkpoint: Checkpoint) -> None:
        """Make it the note in a checkpoint."""
        checkpoint.files.write(f"{checkpoint.folder}/{NOTE}", self.text())

    def slices_at(self, batch: int) -> tuple[int, ...] | None:
        """How many slices there were in a micro-batch, as far as is known."""
        return next((n for since, n in reversed(self.history) if since <= batch), None)


def slice_history(
    note: Note, operators: Sequence[OperatorState], checkpoint: Checkpoint
) -> tuple[tuple[SlicesSince, ...], tuple[int, ...] | None]:
    """From which micro-batch on how many slices hold, and how many held for the micro-batch that
    was interrupted, if those were others."""
    now = tuple(operator.slices for operator in operators if operator.slices is not None)
    only: tuple[SlicesSince, ...] = ((0, now),) if now else ()
    if note.history == only or not now:
        return only, None
    following = checkpoint.last + 1
    then = note.slices_at(following)
    if not checkpoint.interrupted or then is None or then == now or len(then) != len(now):
        return only, None
    return ((0, then), (following + 1, now)), then
