"""A driver process with all that belongs to it: its JVM, executors, and Python workers.

The driver is started in a session of its own (as of `setsid`), and whatever it starts stays in it.
So they are found, and killed, by id.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

#: The JVMs live too short for the optimising compiler to pay, and verify no code.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)

Event = dict[str, Any]


@dataclass(frozen=True)
class Process:
    """A process of a driver's session; ``kind`` is driver, driver JVM, executor or worker."""

    pid: int
    kind: str
    memory: int

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


class Driver:
    """A process that takes orders and says what happens, a JSON object a line. It logs, and has
    its temporary files, in the folder."""

    def __init__(
        self, command: Sequence[str], folder: Path, *, java_options: Sequence[str] = ()
    ) -> None:
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        java = (*_JAVA_OPTIONS, f"-Djava.io.tmpdir={temporary}", *java_options)
        with (folder / "driver.log").open("a") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": path,
                    "PYSPARK_PYTHON": sys.executable,
                    "TMPDIR": str(temporary),
                    "JDK_JAVA_OPTIONS": " ".join(java),
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._events: queue.Queue[Event | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._events.put(json.loads(line))
        self._events.put(None)

    def tell(self, order: dict[str, Any]) -> None:
        """Give the driver an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def event(self, seconds: float) -> Event | None:
        """What the driver says next, if it says anything in so many seconds. That it has ended
        is an event too."""
        with suppress(queue.Empty):
            return self._events.get(timeout=max(0.0, seconds)) or {"event": "gone"}
        return None

    @property
    def pid(self) -> int:
        return self._process.pid

    def processes(self) -> list[Process]:
        """All processes of the session."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                # Any of them may end while it is looked at.
                with suppress(OSError, ValueError):
                    process = self._seen(entry)
                    found += [process] if process else []
        return found

    def _seen(self, entry: Path) -> Process | None:
        status = (entry / "stat").read_text().rpartition(")")[2].split()
        state, session, pages = status[0], int(status[3]), int(status[21])
        if session != self.pid or state == "Z":
            return None
        command = (entry / "cmdline").read_text().replace("\0", " ")
        if "CoarseGrainedExecutorBackend" in command:
            kind = "executor"
        elif "SparkSubmit" in command:
            kind = "driver JVM"
        else:
            kind = "worker" if "pyspark.daemon" in command else "driver"
        return Process(int(entry.name), kind, pages * os.sysconf("SC_PAGE_SIZE"))

    def executors(self) -> list[Process]:
        return [process for process in self.processes() if process.kind == "executor"]

    def finish(self) -> None:
        """Let the driver end by itself: there are no more orders."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def kill(self, *, all_at_once: bool) -> None:
        """End the driver and its JVM; and all others with it, as a crash of the machine does, or
        not: then executors find out by themselves, a moment later, that their driver is gone."""
        for process in self.processes():
            if all_at_once or process.kind in ("driver", "driver JVM"):
                process.kill()
        self._process.wait()

    def clear(self, *, patience: float = 0) -> None:
        """Wait for what is left of a killed driver, so long, and end it then."""
        until = time.monotonic() + patience
        while left := self.processes():
            if time.monotonic() > until:
                for process in left:
                    process.kill()
            time.sleep(0.05)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
