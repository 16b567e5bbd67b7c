"""``python -m soak --minutes 10 --seed 1``: rounds of random joins under faults, until the time is
up. What is left of a round that fails is kept, and it is said how to run it again."""

from __future__ import annotations

import argparse
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from soak.cache_faults import can_fill_a_disk
from soak.families import FAMILIES
from soak.plan import RoundPlan
from soak.round import FAULTS, Round
from soak.tally import Tally
from soak.warm_up import warmed_up


class Soak:
    """Rounds of one seed, in a folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._began = time.monotonic()
        if options.folder is not None:
            os.makedirs(options.folder, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="watersmeet-soak-", dir=options.folder))
        self._faults = frozenset(FAULTS) - set(options.without)
        self._java_options: Sequence[str] = ()
        self.tally = Tally()

    def run(self) -> None:
        options = self._options
        self._tell(f"seed {options.seed}, in {self._folder}")
        if "full-disk" in self._faults and not can_fill_a_disk(self._folder / "disk"):
            self._tell("a full disk is left out: this user may not mount a small one")
            self._faults -= {"full-disk"}
        archive = options.classes or self._folder / "classes.jsa"
        self._java_options = warmed_up(archive, self._folder / "warm-up", self._tell)
        self._tell("warmed up")
        for number in options.round or itertools.count():
            if not options.round and time.monotonic() - self._began > 60 * options.minutes:
                break
            self._round(number)
            self._tell(self.tally.summary())
        if not self.tally.failures:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _round(self, number: int) -> None:
        """Run a round; keep its folder if it fails."""
        options, folder = self._options, self._folder / str(number)
        folder.mkdir()
        self._tell(f"round {number}")
        plan = RoundPlan.random(options.seed, number, options.family or list(FAMILIES))
        try:
            here = Round(
                plan,
                folder,
                self.tally,
                faults=self._faults,
                java_options=self._java_options,
                tell=self._tell,
            )
            wrong = self.tally.add(plan, here.run(), here.survived)
        except Exception:
            wrong = traceback.format_exc()
        if not wrong:
            shutil.rmtree(folder, ignore_errors=True)
            return
        command = f"python -m soak --seed {options.seed} --round {number}"
        command += "".join(f" --without {fault}" for fault in options.without)
        command += "".join(f" --family {family}" for family in options.family)
        report = f"round {number}: {wrong}\nrun it again: {command}\nits folder: {folder}"
        (folder / "failure.txt").write_text(report)
        self.tally.failures.append(report)
        self._tell(f"FAILED {report}")

    def _tell(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.0f} s  {text}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="no round begins after these")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument(
        "--round", type=int, action="append", default=[], help="only the round of this number"
    )
    parser.add_argument("--without", choices=FAULTS, action="append", default=[])
    parser.add_argument("--family", choices=sorted(FAMILIES), action="append", default=[])
    parser.add_argument("--folder", help="where to work; a temporary folder, by default")
    parser.add_argument(
        "--classes",
        type=Path,
        metavar="FILE",
        help="an archive of Java classes for a quick start; it is made if it is not there",
    )
    return parser.parse_args()


def main() -> None:
    # To be terminated is to stop in order: no driver is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    soak = Soak(_options())
    soak.run()
    print("\n".join(soak.tally.lines()))
    sys.exit(1 if soak.tally.failures else 0)


if __name__ == "__main__":
    main()
