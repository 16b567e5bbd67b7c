"""A staged shard: rows in order, equal partitions, and which of them may hold a key."""

from __future__ import annotations

import errno
import mmap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import StagedTableError
from watersmeet.rows.columns import CODE, codes_of
from watersmeet.rows.shard import Shard
from watersmeet.table.files import MappedNumbers
from watersmeet.table.layer import Layer
from watersmeet.table.lookup import Visits, master_rows, master_sizes
from watersmeet.table.partitions import PartitionWriter
from watersmeet.table.shard import TableShard
from watersmeet.table.staged_table import StagedTable, stage


def written(folder: Path, codes: list[int], *, partition: int) -> Layer:
    rows = pa.RecordBatch.from_pydict(
        {CODE: pa.array(codes, pa.int64()), "#1": [f"row {i}" for i in range(len(codes))]}
    )
    writer = PartitionWriter(f"{folder}/", partition)
    writer.add(rows)
    writer.close()
    return Layer.open(f"{folder}/")


def test_partitions_are_about_equal_and_in_order(tmp_path: Path) -> None:
    codes = sorted(np.random.default_rng(1).integers(0, 5000, 10_000).tolist())
    table = written(tmp_path, codes, partition=20_000)
    sizes = table.memory[:-1]
    assert len(table) > 5
    assert sizes.max() <= 20_000
    assert sizes.min() >= 0.85 * 20_000
    read = [table.partition(number) for number in range(len(table))]
    assert np.concatenate([codes_of(part.rows) for part in read]).tolist() == codes
    assert table.least.tolist() == [int(codes_of(part.rows)[0]) for part in read]
    assert table.greatest.tolist() == [int(codes_of(part.rows)[-1]) for part in read]


def test_a_key_is_looked_for_only_where_it_may_be(tmp_path: Path) -> None:
    # Given even codes, of which 400 has rows in several partitions,
    codes = [*range(0, 400, 2), *[400] * 300, *range(402, 800, 2)]
    table = written(tmp_path, codes, partition=2000)
    everywhere = np.arange(-10, 810)
    first, last = table.homes(everywhere)
    # when all codes around them are looked for, then those that are there are not missed,
    there: dict[int, set[int]] = {code: set() for code in codes}
    for number in range(len(table)):
        for code in np.unique(codes_of(table.partition(number).rows)).tolist():
            there[code].add(number)
    for code, low, high in zip(everywhere.tolist(), first, last, strict=True):
        if code in there:
            assert set(range(low, high)) == there[code], code
    assert max(len(numbers) for numbers in there.values()) > 3
    # and of those that are not, few are looked for at all.
    odd = everywhere % 2 == 1
    assert (first[odd] < last[odd]).mean() < 0.15
    outside = (everywhere < 0) | (everywhere > 798)
    assert (first[outside] == last[outside]).all()


def test_visits_cover_what_is_wanted_and_count_keys(tmp_path: Path) -> None:
    codes = [*range(100), *[100] * 300, *range(101, 200)]
    table = written(tmp_path, codes, partition=2000)
    wanted = np.array([3, 7, 100, 150, 5000])
    visits = Visits.of(TableShard((table,)), wanted)
    looked = [
        (int(number), wanted[visits.wanted[low:high]].tolist())
        for number, low, high in zip(visits.partitions, visits.low, visits.high, strict=True)
    ]
    for number, codes_there in looked:
        present = np.intersect1d(codes_of(table.partition(number).rows), codes_there)
        assert len(present) == len(codes_there) == visits.keys[[*visits.partitions].index(number)]
    assert {code for _, some in looked for code in some} == {3, 7, 100, 150}
    assert sum(100 in some for _, some in looked) > 3


@pytest.mark.parametrize("partitions", [1, 3, 100])
def test_filters_that_take_too_much_are_asked_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    # Given two layers, and room for the filters of a few partitions,
    layers = tuple(
        written(tmp_path / str(step), [*range(0, 9000, step)], partition=5000) for step in (3, 5)
    )
    assert min(map(len, layers)) > 3
    room = partitions * int(np.diff(layers[0].filter_at).max())
    whole, pieces = TableShard(layers), TableShard(layers, room=room)
    asked, given_back, asking = [], [], Layer._in_filter

    def in_filter(layer: Layer, codes: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        sizes = np.diff(layer.filter_at, append=len(layer.filter.numbers))
        asked.append(sizes[np.unique(numbers)].sum())
        return asking(layer, codes, numbers)

    # when codes are looked up, then it is as if there was room for all,
    codes = np.random.default_rng(1).permutation(np.arange(-10, 9010))
    expected, visits = whole.home(codes), Visits.of(whole, np.sort(codes))
    monkeypatch.setattr(Layer, "_in_filter", in_filter)
    monkeypatch.setattr(MappedNumbers, "give_back", lambda mapped: given_back.append(mapped))
    assert (pieces.home(codes) == expected).all()
    found = Visits.of(pieces, np.sort(codes))
    for name in ("wanted", "partitions", "low", "high"):
        assert (getattr(found, name) == getattr(visits, name)).all()
    for number in range(len(whole)):
        assert (pieces.fences_of(number) == whole.fences_of(number)).all()
    # but no more filters are in memory at a time than there is room for.
    assert max(asked) <= room
    fits = sum(layer.shared for layer in layers) <= room
    every = {id(mapped) for layer in layers for mapped in (layer.filter, layer.fences)}
    assert {*map(id, given_back)} == (set() if fits else every)


def test_master_rows_are_found_and_counted(tmp_path: Path) -> None:
    codes = sorted([*range(0, 300, 3), *[150] * 200])
    table = written(tmp_path, codes, partition=1000)
    wanted = np.array([-5, 0, 1, 3, 150, 297, 298])
    counts, sizes = master_sizes(TableShard((table,)), wanted)
    assert counts.tolist() == [0, 1, 0, 1, 201, 1, 0]
    rows = [*master_rows(TableShard((table,)), wanted, piece=500)]
    assert np.concatenate([codes_of(batch) for batch in rows]).tolist() == [0, 3, *[150] * 201, 297]
    assert len(rows) >= 10
    assert sizes.sum() <= sum(batch.nbytes for batch in rows) <= sizes.sum() + 16 * len(rows)


def test_master_rows_of_several_layers_are_found_together(tmp_path: Path) -> None:
    # Given three layers with some keys in common, of which one has no rows,
    given = [[*range(0, 300, 3)], [], [150, *[297] * 200, 298, 1000]]
    layers = [written(tmp_path / str(i), codes, partition=500) for i, codes in enumerate(given)]
    table = TableShard(tuple(layers))
    assert len(table) == sum(map(len, layers))
    assert [len(table.partition(n)) for n in range(len(table))] == [
        rows for layer in layers for rows in layer.rows
    ]
    # when keys are looked up, then those of all layers are found,
    wanted = np.array([-5, 0, 1, 150, 297, 298, 1000])
    assert master_sizes(table, wanted)[0].tolist() == [0, 1, 0, 2, 201, 1, 1]
    rows = [*master_rows(table, wanted, piece=500)]
    found = np.concatenate([codes_of(batch) for batch in rows])
    assert sorted(found.tolist()) == [0, 150, 150, *[297] * 201, 298, 1000]
    # and the home of a key is the first partition that may hold it.
    home = table.home(wanted)
    assert home[0] == -1
    assert 0 <= home[1] <= home[3] <= home[4] < len(layers[0]) <= home[5] <= home[6] < len(table)
    # Partitions hold codes between their bounds, and the codes of neighbours in a layer are one
    # span; a layer begins another one.
    for code in (0, 150, 297, 1000):
        holding = table.holding(np.array([code]))
        assert {*holding.tolist()} >= {*table.home(np.array([code])).tolist()} - {-1}
        assert all(low <= code <= high for n in holding for low, high in table.spans(np.array([n])))
    assert table.spans(np.arange(len(table))) == [(0, 297), (150, 1000)]
    assert len(table.spans(np.array([0, 2]))) == 2
    assert table.spans(np.array([], np.int64)) == []


@pytest.mark.parametrize("refused", [(), ("populate",), ("huge", "populate")])
def test_a_partition_is_read_as_a_whole_on_any_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...]
) -> None:
    # Given a kernel that does not know how to read a file by mapping it,
    options = {"huge": getattr(mmap, "MADV_HUGEPAGE", -1), "populate": 22}
    unknown = {options[name] for name in refused}

    class Mapped(mmap.mmap):
        def madvise(self, option: int, *rest: int) -> None:
            if option in unknown:
                raise OSError(errno.EINVAL, "Invalid argument")

    table = written(tmp_path, [*range(1000)], partition=1 << 20)
    monkeypatch.setattr(mmap, "mmap", Mapped)
    # when the whole of a partition is wanted, then it is there.
    assert codes_of(table.partition(0, "all").rows).tolist() == [*range(1000)]


def test_an_empty_shard_holds_nothing(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({CODE: pa.array([], pa.int64())})
    staged = stage(rows, str(tmp_path), shards=2, partition=1000)
    table = staged.shard(Shard(0, 2))
    assert table.home(np.array([1, 2])).tolist() == [-1, -1]
    assert not len(Visits.of(table, np.array([1, 2])).partitions)
    size = staged.size()
    assert size is not None
    assert (size.rows, size.partitions) == (0, 0)


def test_a_key_is_staged_in_its_shard_and_a_null_nowhere(tmp_path: Path) -> None:
    codes = pa.array([*range(1000), None, None], pa.int64())
    staged = stage(
        pa.RecordBatch.from_pydict({CODE: codes}), str(tmp_path), shards=3, partition=1000
    )
    for number in range(3):
        table = staged.shard(Shard(number, 3))
        found = np.concatenate([codes_of(table.partition(p).rows) for p in range(len(table))])
        assert Shard(number, 3).has(found).all()
        assert len(found) == Shard(number, 3).has(np.arange(1000)).sum()
    size = staged.size()
    assert size is not None
    assert size.rows == 1000


def test_a_table_that_is_not_complete_has_no_size(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pydict({CODE: [1, 2]})
    staged = stage(rows, str(tmp_path), shards=1, partition=1000)
    (tmp_path / "table.json").write_text('{"format": 0}')
    assert staged.size() is None
    (tmp_path / "table.json").unlink()
    assert StagedTable(str(tmp_path)).size() is None


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux")
def test_an_index_that_is_not_opened_any_more_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two tables that were opened, of which one is opened again and again,
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    kept = written(tmp_path / "kept", [*range(1000)], partition=2000)
    written(tmp_path / "gone", [*range(1000)], partition=2000)

    def mapped() -> set[str]:
        maps = Path("/proc/self/maps").read_text()
        return {name for name in ("kept", "gone") if f"{tmp_path}/{name}/filter" in maps}

    for _ in range(2):
        assert mapped() == {"kept", "gone"}
        now += 40
        assert Layer.open(f"{tmp_path}/kept/") is kept
    # when the other one was not opened for a minute, then it is not mapped any more,
    assert mapped() == {"kept"}
    # and is read again if it is wanted after all.
    assert len(Layer.open(f"{tmp_path}/gone/")) > 1
    assert mapped() == {"kept", "gone"}


@pytest.mark.parametrize("mishap", ["gone", "cut", "another"])
def test_a_damaged_partition_is_noticed(tmp_path: Path, mishap: str) -> None:
    table = written(tmp_path, [*range(100)], partition=500)
    file = tmp_path / "1.arrow"
    if mishap == "gone":
        file.unlink()
    elif mishap == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        file.write_bytes(b"\x5a" * file.stat().st_size)
    table.partition(0)
    with pytest.raises(StagedTableError, match="1.arrow"):
        table.partition(1)
