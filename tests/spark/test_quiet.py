"""A query says nothing on the standard error that is only noise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

#: What the JVM and Spark say before a session's log level counts.
AT_THE_START = (
    r"(NOTE: Picked up|WARNING:) .*",
    r"Using Spark's default log4j profile: .*",
    r"Setting default log level to .*",
    r"To adjust logging level use .*",
    r".* WARN (NativeCodeLoader|Utils): .*",
)

PROGRAM = """
import sys
import watersmeet as wm

spark = wm.local_session(cores=2)
spark.sparkContext.setLogLevel("ERROR")
rows = spark.range(4).selectExpr("id k", "timestamp_seconds(id) t").coalesce(1)
rows.write.parquet(f"{sys.argv[1]}/rows")
read = spark.readStream.schema("k bigint, t timestamp")
streams = [
    wm.stream(read.parquet(f"{sys.argv[1]}/rows"), name, time="t", delay="0 seconds")
    for name in ("a", "b")
]
joined = wm.join(streams, on="k", within="1 second", how="left")
query = joined.writeStream.format("noop").option("checkpointLocation", f"{sys.argv[1]}/ck")
query = query.trigger(availableNow=True).start()
query.awaitTermination()
assert sum(step.results for step in wm.metrics(query)) == 4
spark.stop()
"""


def test_a_query_at_level_error_says_nothing_that_is_only_noise(tmp_path: Path) -> None:
    # Given a small query in a process of its own, when it has run,
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    # then every line that it has said is one that nobody here can help.
    known = re.compile("|".join(AT_THE_START))
    assert [line for line in done.stderr.splitlines() if not known.fullmatch(line)] == []
