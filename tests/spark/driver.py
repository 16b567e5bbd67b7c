"""Drivers in processes of their own, for tests that kill them."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE = 300


class Driver:
    """The query of ``recovery_query.py``, or of another such module, in a process group of its
    own."""

    def __init__(self, folder: Path, *options: str, query: str = "recovery_query") -> None:
        command = [sys.executable, "-m", f"tests.spark.{query}", str(folder), *options]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
        # The process group is the driver's, its JVM's, and their workers'.
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr").open("a"),
            text=True,
            start_new_session=True,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The next line of the query that matches."""
        until = time.monotonic() + PATIENCE
        while True:
            line = self.lines.get(timeout=max(0.0, until - time.monotonic()))
            assert line is not None, f"the query ended before it said {pattern!r}"
            found = re.fullmatch(pattern, line)
            if found:
                return found

    def processes(self) -> list[int]:
        """The processes of the driver's session: itself, JVMs, Python workers."""
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--sid", str(self.process.pid)], capture_output=True, text=True
        )
        return [int(pid) for pid in listed.stdout.split()]

    def kill(self) -> None:
        """End the whole process group at once, as a crash of the machine would."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE)


@contextmanager
def driver(folder: Path, *options: str, query: str = "recovery_query") -> Iterator[Driver]:
    running = Driver(folder, *options, query=query)
    try:
        yield running
    finally:
        running.kill()
