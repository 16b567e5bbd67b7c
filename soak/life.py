"""One life of a round's driver: from its start to its end, which is mostly a SIGKILL."""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark

from soak import cache_faults, sinks, tasks
from soak.driver import CLUSTER, LOCAL
from soak.plan import Order, RoundPlan
from soak.process import Driver, Event

#: A driver that says nothing for so many seconds is stuck.
PATIENCE = 300

_WORK = Path(pyspark.__file__).parent / "work"

#: A line of a traceback in our own code.
_OURS = r'File "[^"]*/watersmeet/'


class RoundError(Exception):
    """A round cannot go on."""


class Life:
    """A driver, and what it says: with executors of its own, a ``cluster``, or without; with a
    disk for its cache, or with one that is full. Faults are counted in ``survived``."""

    def __init__(
        self,
        plan: RoundPlan,
        folder: Path,
        *,
        cluster: bool = False,
        full_disk: bool = False,
        java_options: Sequence[str] = (),
        survived: Counter[str],
        tell: Callable[[str], None],
    ) -> None:
        self.cluster = cluster
        self.batches = 0
        self._cache = folder / "cache"
        self._cache.mkdir(exist_ok=True)
        self._full_disk = full_disk
        (folder / "events").mkdir(exist_ok=True)
        command = [sys.executable, "-m", "soak.driver", json.dumps(plan.told()), str(folder)]
        self.driver = Driver(
            [
                *(cache_faults.full_disk(self._cache) if full_disk else ()),
                *command,
                CLUSTER if cluster else LOCAL,
            ],
            folder,
            java_options=java_options,
        )
        self._folder = folder
        self._survived = survived
        self._tell = tell
        self._application: str | None = None
        self._heard = time.monotonic()

    def wait_for(self, event: str) -> None:
        """Until the driver says it."""
        while not self.listen(1, until=event):
            pass

    def listen(self, seconds: float, *, until: str | None = None) -> bool:
        """Take note of what the driver says, for so long; gives whether it said ``until``."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            event = self.driver.event(left)
            if event is None:
                break
            self._heard = time.monotonic()
            self._note(event)
            if event["event"] == until:
                return True
        if time.monotonic() - self._heard > PATIENCE:
            raise RoundError(f"the driver has said nothing for {PATIENCE} seconds")
        return False

    def start(self, order: Order) -> None:
        """Have the queries started."""
        if self._application is None:
            self.wait_for("ready")
        self.driver.tell(order.told())
        self.wait_for("started")

    def kill_executor(self, dice: random.Random) -> None:
        """Kill one of the executors, if there is any at the moment."""
        executors = self.driver.executors()
        if executors:
            dice.choice(executors).kill()
            self._survived["executors killed"] += 1

    def kill(self, *, all_at_once: bool) -> None:
        if self._full_disk and cache_faults.is_full(self.driver.pid, self._cache):
            self._survived["lives with a full cache disk"] += 1
        self.driver.kill(all_at_once=all_at_once)
        self._survived["drivers killed" + (" with all executors" if all_at_once else "")] += 1

    def clear(self, *, patience: float = 0) -> None:
        """End what is left of it."""
        self.driver.clear(patience=patience)
        # Executors of a local cluster leave their logs where Spark is installed.
        if self._application and (_WORK / self._application).exists():
            shutil.move(_WORK / self._application, self._folder / "executors" / self._application)

    def _note(self, event: Event) -> None:
        kind = event["event"]
        if kind == "ready":
            self._application = event["application"]
        elif kind == "batch":
            self.batches += 1
            self._survived["late rows"] += event["late"]
        elif kind == "failed":
            self._failed(event["case"], event["error"])
        elif kind == "gone":
            log = (self._folder / "driver.log").read_text(errors="replace").splitlines()
            raise RoundError("\n".join(["the driver ended by itself:", *log[-40:]]))

    def _failed(self, case: int, error: str) -> None:
        """A query stopped. That is survived, unless it is our own doing."""
        if sinks.ON_PURPOSE in error:
            self._survived["sinks that failed"] += 1
        elif tasks.ALL_ON_PURPOSE in error:
            self._survived["queries stopped by tasks that failed"] += 1
        elif re.search(_OURS, error):
            raise RoundError(f"case {case} stopped: {error}")
        else:
            self._survived["queries stopped by Spark, and started again"] += 1
            self._tell(f"  case {case} stopped: {error.splitlines()[0]}")
