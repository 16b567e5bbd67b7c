"""The note in a checkpoint: which joins have used it, and how many slices they had.

Invariant: the note is a hint only, and the state itself has the last word. A note that is missing
or not readable says nothing. It is written anew while nothing is committed, and whenever a query
with other numbers starts.

It says how many slices of a join without a key may hold rows. It also says from which micro-batch
on the query has which number of slices: a micro-batch that was interrupted must deal its rows as it
did then.

**Example.** A query runs with eight slices, and is stopped in micro-batch 42. Its note says
``[[0, [8]]]``: eight from micro-batch 0 on. It starts again with four slices, and the note says
``[[0, [8]], [43, [4]]]``: micro-batch 42 is run again with eight, and 43 has four.
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
    """The state of an operator: its fingerprint, and the number of ``slices`` over which its rows
    are dealt, if they have no key. ``waits``: may rows wait for a micro-batch without data? (The
    state does not depend on that.)"""

    fingerprint: str
    slices: int | None = None
    waits: bool = field(default=False, compare=False)

    def reaching(self, checkpoint: Checkpoint) -> OperatorState:
        """The same, with at least as many slices as hold rows of it in a checkpoint."""
        if self.slices is None:
            return self
        return self.with_slices(checkpoint.slices(self.fingerprint))

    def with_slices(self, least: int) -> OperatorState:
        """The same, with at least so many slices, if it has slices."""
        return self if self.slices is None else replace(self, slices=max(self.slices, least))


#: The number of a micro-batch, and from it on, the slices of each operator whose rows have no key.
SlicesSince = tuple[int, tuple[int, ...]]


@dataclass(frozen=True)
class Note:
    """The note in a checkpoint: the joins that it belongs to, with the slices that may hold rows,
    how many slices there were when, and in how many shuffle ``partitions`` its state is (None: not
    noted). A note that is not readable says nothing."""

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
        """The note in a checkpoint; None, if there is none. A note that a crash has left half
        written says nothing."""
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
    """The numbers of slices, each from a micro-batch on; and the number for the micro-batch that
    was interrupted, if that was another one."""
    now = tuple(operator.slices for operator in operators if operator.slices is not None)
    only: tuple[SlicesSince, ...] = ((0, now),) if now else ()
    if note.history == only or not now:
        return only, None
    following = checkpoint.last + 1
    then = note.slices_at(following)
    if not checkpoint.interrupted or then is None or then == now or len(then) != len(now):
        return only, None
    return ((0, then), (following + 1, now)), then
