"""An archive of the classes that the JVMs of a soak load (Java's class data sharing): with it, a
driver takes about half of the CPU time to start, so that more of them can be killed."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from soak.case import Start
from soak.inputs import Input
from soak.life import Life, RoundError
from soak.plan import Order, RoundPlan


def warmed_up(archive: Path, folder: Path, tell: Callable[[str], None]) -> Sequence[str]:
    """The Java options by which JVMs use the archive; none, if there is no such thing. An archive
    that is not there is made, by a query without faults in the folder."""
    if not archive.exists():
        try:
            _make(archive, folder, tell)
        except RoundError as failure:
            tell(f"no archive of classes: {failure}")
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def _make(archive: Path, folder: Path, tell: Callable[[str], None]) -> None:
    folder.mkdir()
    plan = RoundPlan("warm-up", ("windows",), lives=0, cases=1)
    [trial] = plan.trials
    Input(folder / "0", trial.case).show_all()
    # Every JVM writes it when it ends: first a small one that only starts the driver's.
    written = folder / "classes.jsa"
    life = Life(
        plan,
        folder,
        java_options=[f"-XX:ArchiveClassesAtExit={written}"],
        survived=Counter(),
        tell=tell,
    )
    try:
        life.start(Order([Start()], orderly=True))
        life.wait_for("ended")
        life.driver.finish()
        life.clear(patience=120)
        if written.exists():
            shutil.move(written, archive)
    finally:
        life.clear()
