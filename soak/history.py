"""What a query has read, by Spark's own logs in its checkpoint: which files came in which
micro-batch, and under which watermark.

The offset log has an entry for each micro-batch, written before it runs. A micro-batch that is run
again, after a kill, reads the same. Each entry has the watermark and, for each source, the number
of the last entry of the source's own log that belongs to it. A source's log names its files. Spark
adds a file there before it writes the offset. So, after a kill between the two, one micro-batch
reads more files of one stream: how many is not known before, but it is written down.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any


@dataclass(frozen=True)
class Entry:
    """A micro-batch: the names of the files that came with it, for each source, and the
    watermark in microseconds, if there is one."""

    files: Sequence[Sequence[str]]
    watermark: int | None


def begun(checkpoint: Path) -> int:
    """How many micro-batches were begun."""
    return len(_numbered(checkpoint / "offsets"))


def complete(checkpoint: Path) -> int:
    """How many micro-batches are complete: their state and their results are committed."""
    return len(_numbered(checkpoint / "commits"))


def entries(checkpoint: Path, sources: int) -> list[Entry]:
    """All micro-batches, in order; there are so many sources."""
    logs = [_source_log(checkpoint / "sources" / str(number)) for number in range(sources)]
    read = [-1] * sources
    found = []
    for batch in _numbered(checkpoint / "offsets"):
        _, metadata, *offsets = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
        milliseconds = json.loads(metadata)["batchWatermarkMs"]
        upto = [
            json.loads(offset)["logOffset"] if offset != "-" else before
            for offset, before in zip(offsets, read, strict=True)
        ]
        files = [
            [name for number, name in log if before < number <= last]
            for log, before, last in zip(logs, read, upto, strict=True)
        ]
        found.append(Entry(files, milliseconds * 1000 if milliseconds > 0 else None))
        read = upto
    return found


def written(sink: Path) -> list[Path]:
    """The files that are in the result of a file sink, by its own log."""
    files: dict[str, None] = {}
    for entry in _log(sink / "_spark_metadata"):
        assert entry["action"] == "add", f"{sink}: {entry}"
        files[entry["path"]] = None
    return [Path(path.removeprefix("file://")) for path in files]


def _source_log(folder: Path) -> list[tuple[int, str]]:
    """The entries of a file source: the number of each, and the name of the file."""
    named = {entry["path"]: entry["batchId"] for entry in _log(folder)}
    return [(number, PurePosixPath(path).name) for path, number in named.items()]


def _log(folder: Path) -> Iterator[dict[str, Any]]:
    """The entries of a log. Now and then Spark writes all there are into one file again."""
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    compacted = [int(name.removesuffix(".compact")) for name in names if name.endswith(".compact")]
    last = max(compacted, default=-1)
    later = [number for number in _numbered(folder) if number > last]
    for name in [*([f"{last}.compact"] if compacted else []), *map(str, later)]:
        version, *lines = (folder / name).read_text().splitlines()
        assert version == "v1", f"{folder / name} is of version {version}"
        yield from (json.loads(line) for line in lines)


def _numbered(folder: Path) -> list[int]:
    """The files whose names are numbers."""
    if not folder.exists():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
