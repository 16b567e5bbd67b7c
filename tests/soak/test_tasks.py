"""What became of tasks, by Spark's event log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from soak import tasks


def start(*, again: bool) -> dict[str, Any]:
    return {"Event": "SparkListenerTaskStart", "Task Info": {"Speculative": again}}


def end(reason: str, **details: str) -> dict[str, Any]:
    return {"Event": "SparkListenerTaskEnd", "Task End Reason": {"Reason": reason, **details}}


def test_faults_are_counted_also_in_a_log_that_breaks_off(tmp_path: Path) -> None:
    failed = end("ExceptionFailure", **{"Full Stack Trace": f"RuntimeError: {tasks.ON_PURPOSE}"})
    events = [start(again=False), start(again=True), end("Success"), failed, end("Resubmitted")]
    events += [end("ExecutorLostFailure"), {"Event": "SparkListenerJobEnd"}]
    lines = [json.dumps(event, separators=(",", ":")) for event in events]
    (tmp_path / "app-1").write_text("\n".join([*lines, lines[1][:40]]))
    (tmp_path / "app-2.inprogress").write_text(lines[1])
    assert tasks.faults(tmp_path) == {
        "tasks started twice": 2,
        "tasks failed after their state was committed": 1,
        "tasks lost with their executor": 1,
    }
