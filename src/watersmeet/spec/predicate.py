"""A condition of the match that is a Python function, as the user gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PredicateFunction:
    """A vectorised function over rows of some streams; made by ``wm.predicate``.

    ``columns`` has, by the name of a stream, which of its columns the function reads; if the name
    is not there, all. ``cost`` is the time for a pair, in microseconds, if it is declared."""

    function: Callable[..., object]
    streams: tuple[str, ...]
    columns: Mapping[str, Sequence[str]]
    cost: int | None = None

    @property
    def text(self) -> str:
        """The predicate, for people to read."""
        name = getattr(self.function, "__name__", None) or type(self.function).__name__
        return f"{name}({', '.join(self.streams)})"
