"""What became of the tasks of a round, by Spark's event logs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

#: What a task says that fails on purpose, alone or with all others.
ON_PURPOSE = "the soak makes this task fail"
ALL_ON_PURPOSE = "the soak makes all tasks fail"


def faults(events: Path) -> Counter[str]:
    """How many tasks were started twice, were made to fail, or were lost with their executor. The
    last events before a kill may be missing."""
    found: Counter[str] = Counter()
    for log in events.iterdir():
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith('{"Event":"SparkListenerTask'):
                found.update(_faults(line))
    return found


def _faults(line: str) -> list[str]:
    try:
        event = json.loads(line)
    except ValueError:
        return []  # the last line of a process that was killed
    if event["Event"] == "SparkListenerTaskStart":
        return ["tasks started twice"] if event["Task Info"]["Speculative"] else []
    reason = event.get("Task End Reason", {})
    if reason.get("Reason") == "ExecutorLostFailure":
        return ["tasks lost with their executor"]
    failed = ON_PURPOSE in reason.get("Full Stack Trace", "")
    return ["tasks failed after their state was committed"] if failed else []
