"""Runs, as a program, the module of PySpark's that it is given: the worker beside the driver.

PySpark prints there that it starts, for its own developers, at any log level and before it reads
anything of ours. That one line is left out. The file is run by its path, in a Python that has not
imported our package, and the first micro-batch waits for it: only the standard library is used."""

from __future__ import annotations

import os
import runpy
import sys

#: The module that Spark starts beside the driver.
MODULE = "pyspark.sql.streaming.transform_with_state_driver_worker"
_NOISE = "Starting Streaming TransformWithStateInPandas Python worker.\n"


def _print(*values: object, **options: object) -> None:
    if values != (_NOISE,):
        print(*values, **options)  # type: ignore[call-overload]


if __name__ == "__main__":
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()  # as with -m, and not the folder of this file
    module = sys.argv.pop(1)
    runpy.run_module(module, init_globals={"print": _print}, run_name="__main__", alter_sys=True)
