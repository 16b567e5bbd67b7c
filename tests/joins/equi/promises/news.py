"""News and the records of who has read them: a stream with unique keys, and one with many rows of
each key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from experiments.metadata.schedules import ScheduledJoin
from tests.conformance.join import table
from watersmeet.spec.stream import Punctuation
from watersmeet.testing import LocalJoin, LocalStream

NEWS = pa.schema([("sno", pa.int64()), ("title", pa.string())])
ACCESS = pa.schema(
    [("sno", pa.int64()), ("ip", pa.string()), ("end", pa.bool_()), ("to", pa.int64())]
)
END = Punctuation(when='"end"')


def news(*numbers: int | None) -> pa.Table:
    return table(NEWS, [(number, f"news {number}") for number in numbers])


def access(*numbers: int | tuple[str, Any] | None) -> pa.Table:
    """Access records by number; ("end", number) is a punctuation."""
    rows: list[tuple[Any, ...]] = []
    for position, number in enumerate(numbers):
        if isinstance(number, tuple):
            rows.append((number[1], None, True, None))
        else:
            rows.append((number, f"ip {position}", False, None))
    return table(ACCESS, rows)


def joined(tmp_path: Path, **options: Any) -> LocalJoin:
    general = options.pop("news", {"unique": True})
    records = options.pop("access", {"punctuation": END})
    options = {"goal": "memory", **options}
    return ScheduledJoin(
        {"news": LocalStream(NEWS, **general), "access": LocalStream(ACCESS, **records)},
        on="sno",
        folder=str(tmp_path),
        **options,
    )


def pairs(result: pa.Table) -> list[tuple[int, str]]:
    return sorted(
        zip(result.column("sno").to_pylist(), result.column("ip").to_pylist(), strict=True)
    )


def data(rows: pa.Table) -> pa.Table:
    """The rows that are no punctuations."""
    return rows.filter(pa.compute.invert(rows.column("end")))
