"""What the soak knows of a join: its input, its query, and what it must give.

A family of joins plugs in by a function from dice to a :class:`Case`, listed in
:mod:`soak.families`. A case is made again from its seed in the process that runs it, so nothing of
it may depend on anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Start:
    """How a query is started, the first time or again.

    ``life`` numbers the starts. From one to the next, anything may change that changes neither a
    result nor the micro-batch in which it is emitted. What changes that, as a condition or a goal,
    goes by the ``epoch``, which is counted up only when every micro-batch that was begun is
    complete: Spark runs another one again, and a sink that has its results already does not take
    those of the new query. ``last``: nothing comes after what is there.
    """

    life: int = 0
    epoch: int = 0
    last: bool = False


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch as Spark ran it: the rows that came, by stream; the watermark in force, in
    microseconds, if there was one; and the epoch."""

    rows: Mapping[str, pa.Table]
    watermark: int | None
    epoch: int = 0


class Case(Protocol):
    """A random join. ``schemas`` are those of its streams, in the order of the query's sources;
    ``title`` says what it is, for people."""

    @property
    def title(self) -> str: ...

    @property
    def schemas(self) -> Mapping[str, pa.Schema]: ...

    def files(self) -> Mapping[str, Sequence[pa.Table]]:
        """The rows of each stream, a table for each file. A micro-batch may bring any number of
        the files of any stream, in their order."""

    def closing(self) -> Mapping[str, pa.Table]:
        """A last file for each stream, after which every result is proven."""

    def query(self, frames: Mapping[str, DataFrame], start: Start) -> DataFrame:
        """The result, from the streams by name."""

    def expected(self, batches: Sequence[MicroBatch]) -> pa.Table:
        """All that the query must have given after these micro-batches."""
