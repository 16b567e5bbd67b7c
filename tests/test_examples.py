"""Every example runs as it is; all in one process, as starting a JVM takes the longest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))

RUN_ALL = """
import runpy, sys
from pyspark import SparkContext
from pyspark.sql import SparkSession
SparkSession.stop = lambda self: None
SparkContext.setLogLevel = lambda self, level: None  # all is shown that Spark shows by default
for script in sys.argv[1:]:
    print("example:", script, flush=True)
    runpy.run_path(script, run_name="__main__")
"""


@pytest.mark.spark
@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL, *map(str, EXAMPLES)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("example:") == len(EXAMPLES) > 0
    shown = (done.stdout + done.stderr).splitlines()
    assert not [line for line in shown if "doesn't contain key" in line]
    assert not [line for line in shown if "TransformWithState" in line]
