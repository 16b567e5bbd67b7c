"""What the Python workers of a Spark session take, while something runs."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

#: What each worker has taken, again and again.
Taken = Mapping[int, Sequence[int]]


def workers(spark: SparkSession) -> dict[int, int]:
    """The Python processes that the session's JVM has started, and their memory in bytes: their
    own, and the files that they have mapped and touched."""
    parents, memory = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            lines = (folder / "status").read_text().splitlines()
            status = dict(line.split(":", 1) for line in lines)
            parents[int(folder.name)] = int(status["PPid"])
            program, *arguments = (folder / "cmdline").read_text().split("\0")
            if "python" in program and any("pyspark" in given for given in arguments):
                kib = sum(int(status[name].split()[0]) for name in ("RssAnon", "RssFile"))
                memory[int(folder.name)] = 1024 * kib
        except (OSError, KeyError):
            continue  # it has ended
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid

    def started_by_it(pid: int) -> bool:
        while pid in parents and pid != jvm:
            pid = parents[pid]
        return pid == jvm

    return {pid: used for pid, used in memory.items() if started_by_it(pid)}


@contextmanager
def watched(spark: SparkSession) -> Iterator[Taken]:
    """What each worker takes while something runs, again and again."""
    taken: dict[int, list[int]] = defaultdict(list)
    done = threading.Event()

    def watch() -> None:
        moment = 0
        while not done.wait(0.05):
            for pid, used in workers(spark).items():
                taken[pid] += [0] * (moment - len(taken[pid])) + [used]
            moment += 1

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield taken
    finally:
        done.set()
        thread.join()


def grown(before: Taken, after: Taken) -> int:
    """By how many bytes all workers together have grown at most, beyond the most that each of them
    had taken before; a new one beyond what the others had."""
    base = {pid: max(used) for pid, used in before.items()}
    usual = max(base.values())
    moments = max(map(len, after.values()))
    total = np.zeros(moments)
    for pid, used in after.items():
        padded = np.array([*used, *[0] * (moments - len(used))])
        total += np.maximum(padded - base.get(pid, usual), 0)
    return int(total.max())
