"""What the rows of a layer are from: files. And which layers a newer version of the table can keep.

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
from typing import Any, NamedTuple, TypeVar

#: A layer that is at most this many times as large as the new one is staged together with it.
GROWTH = 2

Layer = TypeVar("Layer", bound=Hashable)


class File(NamedTuple):
    """A file of a table: where it is, its size in bytes, and when it was written, in
    milliseconds since 1970."""

    path: str
    size: int
    time: int


@dataclass(frozen=True)
class Source:
    """Rows are from these ``files``, each row from one of them. ``series`` is how they are read and
    staged: layers of one table have the same."""

    series: str
    files: frozenset[File]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Source:
        """The source that was written as plain data."""
        return cls(plain["series"], frozenset(File(*file) for file in plain["files"]))

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {"series": self.series, "files": sorted(self.files)}


def kept_layers(
    layers: Mapping[Layer, Source | None], now: Source
) -> tuple[list[Layer], frozenset[File]]:
    """Which of some layers a table keeps that is from ``now``, the largest first; and the
    files that are staged anew.

    >>> def source(*sizes): return Source("prices", frozenset(File(f"{n}", n, 0) for n in sizes))
    >>> layers = {"a": source(100, 50), "b": source(20)}
    >>> kept, anew = kept_layers(layers, source(100, 50, 20, 5))  # a file was added
    >>> kept, [file.path for file in anew]
    (['a', 'b'], ['5'])
    >>> kept, anew = kept_layers(layers, source(100, 50, 20, 10))  # ... half as large as one
    >>> kept, sorted(file.path for file in anew)
    (['a'], ['10', '20'])
    >>> kept_layers(layers, source(100, 50))  # a file was removed, with all of its layer
    (['a'], frozenset())
    >>> kept, anew = kept_layers(layers, source(100, 20))  # ... with a part of it
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
