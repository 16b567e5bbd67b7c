"""The origin of a layer: the files that its rows are from. And which layers a newer version of the
table can keep.

A file that has the same path, size and time as before has the same rows. So a layer whose files are
all still there is still right. Files that are new are staged together, as a further layer; so are
those that remain of a layer that has lost a file.

**Few layers.** A layer that is at most :data:`GROWTH` times as large as the new one is staged
together with it. So each layer is more than that many times as large as the next smaller one: their
number grows with the logarithm of the table's size, and what is staged in all, over many additions,
stays a small multiple of what is added.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypedDict, TypeVar

#: A layer that is at most this many times as large as the new one is staged together with it.
GROWTH = 2

Layer = TypeVar("Layer", bound=Hashable)


class File(NamedTuple):
    """A file of a table: where it is, its size in bytes, and when it was written, in
    milliseconds since 1970. Versions are named by a digest of their files as they are printed: with
    another name of this class or of a field, every table would be staged anew."""

    path: str
    size: int
    time: int


class OriginFacts(TypedDict):
    """An origin as plain data."""

    series: str
    files: list[File]


@dataclass(frozen=True)
class Origin:
    """Rows are from these ``files``, each row from one of them. ``series`` is how they are read and
    staged: layers of one table have the same."""

    series: str
    files: frozenset[File]

    @classmethod
    def of(cls, facts: OriginFacts) -> Origin:
        """The origin that was written as plain data, in which files are lists."""
        return cls(facts["series"], frozenset(File(*file) for file in facts["files"]))

    def facts(self) -> OriginFacts:
        """As plain data."""
        return {"series": self.series, "files": sorted(self.files)}


def kept_layers(
    layers: Mapping[Layer, Origin | None], now: Origin
) -> tuple[list[Layer], frozenset[File]]:
    """Which of some layers a table keeps that is from ``now``, the largest first; and the
    files that are staged anew.

    >>> def origin(*sizes): return Origin("prices", frozenset(File(f"{n}", n, 0) for n in sizes))
    >>> layers = {"a": origin(100, 50), "b": origin(20)}
    >>> kept, anew = kept_layers(layers, origin(100, 50, 20, 5))  # a file was added
    >>> kept, [file.path for file in anew]
    (['a', 'b'], ['5'])
    >>> kept, anew = kept_layers(layers, origin(100, 50, 20, 10))  # ... half as large as one
    >>> kept, sorted(file.path for file in anew)
    (['a'], ['10', '20'])
    >>> kept_layers(layers, origin(100, 50))  # a file was removed, with all of its layer
    (['a'], frozenset())
    >>> kept, anew = kept_layers(layers, origin(100, 20))  # ... with a part of it
    >>> kept, sorted(file.path for file in anew)
    ([], ['100', '20'])
    """
    intact = {
        name: layer.files
        for name, layer in layers.items()
        if layer is not None and layer.series == now.series and layer.files <= now.files
    }
    largest_first = sorted(intact, key=lambda name: _bytes(intact[name]), reverse=True)
    anew = now.files.difference(*intact.values())
    while anew and largest_first and _bytes(intact[largest_first[-1]]) <= GROWTH * _bytes(anew):
        anew |= intact[largest_first.pop()]
    return largest_first, anew


def _bytes(files: frozenset[File]) -> int:
    return sum(file.size for file in files)
