"""One shard of a table, as it was staged: its layers, and which partitions of them may hold a key.

A shard is one or more *layers* (:mod:`.layer`). A table to which rows were added has a further
layer for them (:mod:`.origin`), so a key's rows may be in several layers. And if the table was
staged in more shards than it is read by, each of its shards is a layer: a key is then asked for
only in the layers of its own shard. The partitions of all layers are numbered through, layer after
layer. Say that a table was staged in two shards, then got further rows, and is read by one shard:

    layer           of shard   hashes of its keys   partitions
    <table>/0/      0 of 2     even                 0, 1
    <table>/1/      1 of 2     odd                  2
    <further>/0/    0 of 2     even                 3
    <further>/1/    1 of 2     odd                  4, 5

A key with an even hash is asked for in the first and in the third layer: its rows can only be in
partitions 0, 1 and 3. The bounds and filters of these say in which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from watersmeet.rows.columns import Ints
from watersmeet.rows.shard import Shard, numbers_of
from watersmeet.segments.segment import Segment
from watersmeet.table.files import Extent
from watersmeet.table.layer import Layer


@dataclass(frozen=True)
class TableShard:
    """The layers of one shard. ``staged`` says of which shard each layer was staged; a code is
    asked for in the layers of its own. Without it, in all. Filters and fences stay in memory if
    they take no more than ``room`` bytes, over all layers; otherwise they are given back as soon
    as they have been used. None: they stay in any case."""

    layers: tuple[Layer, ...]
    staged: tuple[Shard, ...] = ()
    room: int | None = None

    @classmethod
    def open(cls, bases: Sequence[str], staged: Sequence[Shard], room: int | None) -> TableShard:
        """The shard of the layers whose files begin so, and which were staged for those."""
        several = len(set(staged)) > 1
        return cls(tuple(map(Layer.open, bases)), tuple(staged) if several else (), room)

    def __len__(self) -> int:
        """The number of partitions."""
        return sum(map(len, self.layers))

    def whole(self) -> bool:
        """Are the files of all layers there, as long as they were?"""
        return all(layer.whole() for layer in self.layers)

    @cached_property
    def starts(self) -> Ints:
        """The number of the first partition of each layer."""
        counts = [len(layer) for layer in self.layers]
        return np.cumsum([0, *counts[:-1]])

    @cached_property
    def bytes(self) -> Ints:
        """The bytes of the file of each partition."""
        return np.concatenate([layer.bytes for layer in self.layers])

    @property
    def nbytes(self) -> int:
        """What all partitions take in memory."""
        return sum(int(layer.memory.sum()) for layer in self.layers)

    @cached_property
    def _at_a_time(self) -> int | None:
        """How many bytes of filters are in memory at a time; None: all of them stay there."""
        fits = self.room is None or sum(layer.shared for layer in self.layers) <= self.room
        return None if fits else self.room

    @property
    def width(self) -> float:
        """The mean bytes of a row: the paper's v_R."""
        return self.nbytes / max(sum(int(layer.rows.sum()) for layer in self.layers), 1)

    def home(self, codes: Ints) -> Ints:
        """The first partition that may hold each code; -1 if none may."""
        home = np.full(len(codes), -1)
        for start, layer, asked in self.asked(codes):
            first, last = self.homes(layer, codes[asked])
            here = (home[asked] < 0) & (first < last)
            home[asked[here]] = start + first[here]
        return home

    def homes(self, layer: Layer, codes: Ints) -> tuple[Ints, Ints]:
        """The partitions of a layer that may hold each code: from the first to before the last."""
        return layer.homes(codes, self._at_a_time)

    def asked(self, codes: Ints) -> Iterator[tuple[int, Layer, Ints]]:
        """Each layer that may have some of the codes: the number of its first partition, itself,
        and the positions of these codes."""
        everything = np.arange(len(codes))
        numbers = numbers_of(codes, self.staged[0].count) if self.staged else None
        for at, (start, layer) in enumerate(zip(self.starts.tolist(), self.layers, strict=True)):
            if numbers is None:
                yield start, layer, everything
            else:
                yield start, layer, np.flatnonzero(numbers == self.staged[at].number)

    def holding(self, codes: Ints) -> Ints:
        """The partitions between whose bounds any of some codes is, which ascend."""
        low = np.searchsorted(codes, self._least, side="left")
        return np.flatnonzero(low < np.searchsorted(codes, self._greatest, side="right"))

    def spans(self, partitions: Ints) -> list[tuple[int, int]]:
        """The codes of partitions, which ascend: of neighbours, from the least to the
        greatest."""
        if not len(partitions):
            return []
        apart = (np.diff(partitions) > 1) | np.isin(partitions[1:], self.starts)
        low = self._least[partitions[np.append(True, apart)]]
        high = self._greatest[partitions[np.append(apart, True)]]
        return [*zip(low.tolist(), high.tolist(), strict=True)]

    @cached_property
    def _least(self) -> Ints:
        return np.concatenate([layer.least for layer in self.layers])

    @cached_property
    def _greatest(self) -> Ints:
        return np.concatenate([layer.greatest for layer in self.layers])

    def locate(self, number: int) -> tuple[Layer, int]:
        """The layer of a partition, and its number there."""
        at = int(np.searchsorted(self.starts, number, side="right")) - 1
        return self.layers[at], number - int(self.starts[at])

    def partition(self, number: int, extent: Extent = "some") -> Segment:
        """A partition's rows, mapped into memory, in the order of their codes."""
        layer, local = self.locate(number)
        return layer.partition(local, extent)

    def fences_of(self, number: int) -> Ints:
        """The fences of a partition."""
        layer, local = self.locate(number)
        fences = layer.fences_of(local)
        if self._at_a_time is not None:
            fences = fences.copy()
            layer.fences.give_back()
        return fences
