"""A relocation in a process of its own, for the test that kills it.

It relocates ``<folder>/checkpoint`` to ``<folder>/relocated``, says when it has come to a moment,
and waits there for its end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.spark.checkpoint.relocation import NewState
from watersmeet.spark.jvm.hadoop import HadoopFiles

#: What is called at a moment: of whom, and the how manieth call it is.
MOMENTS: dict[str, tuple[type, str, int]] = {
    "a hop is written": (NewState, "of_next", 2),
    "all is written": (HadoopFiles, "rename", 1),
}


def waiting(wrapped: Callable[..., Any], moment: str, call: int) -> Callable[..., Any]:
    """The same function, that does not come to an end in that call."""
    calls = 0

    def called(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            print(moment, flush=True)
            time.sleep(3600)
        return wrapped(*arguments)

    return called


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--moment", choices=MOMENTS, required=True)
    options = parser.parse_args()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = wm.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    of, name, call = MOMENTS[options.moment]
    wrapped = waiting(getattr(of, name), options.moment, call)
    with mock.patch.object(of, name, wrapped):
        wm.relocate(str(options.folder / "checkpoint"), str(options.folder / "relocated"), slices=2)
    print("done", flush=True)


if __name__ == "__main__":
    main()
