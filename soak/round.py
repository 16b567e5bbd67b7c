"""One round: a few cases in one driver, which is killed and started again, among other faults,
until all input has been read; then the results are checked.

What happens follows from the seed, but for the moment at which it meets the queries.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from soak import cache_faults, history, tasks
from soak.case import Start
from soak.check import Verdict, check_all_read, micro_batches, verdict
from soak.inputs import Input
from soak.life import Life, RoundError
from soak.plan import Order, RoundPlan
from soak.sinks import SINKS
from soak.tally import Tally

#: The faults that can be left out.
FAULTS = ("executor", "delete", "damage", "full-disk")


class Round:
    """A round in a folder of its own, with such ``faults``; ``tell`` says what happens."""

    def __init__(
        self,
        plan: RoundPlan,
        folder: Path,
        tally: Tally,
        *,
        faults: frozenset[str],
        java_options: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        self.survived: Counter[str] = Counter()
        self._plan = plan
        self._folder = folder
        self._tally = tally
        self._faults = faults
        self._java_options = java_options
        self._tell = tell
        self._inputs = [Input(folder / str(n), trial.case) for n, trial in enumerate(plan.trials)]
        # For each case: from which micro-batch on which epoch was in force.
        self._epochs = [[(0, 0)] for _ in plan.trials]
        self._lives: list[Life] = []
        self._ready: Life | None = None
        self._started = 0

    def run(self) -> list[Verdict]:
        """Let it happen, and check the results."""
        for number, trial in enumerate(self._plan.trials):
            self._tell(f"  case {number}: {trial.title}")
        try:
            for number in range(self._plan.lives):
                self._live(random.Random(f"{self._plan.seed}, faults {number}"))
            self._end(random.Random(f"{self._plan.seed}, last faults"))
        finally:
            for life in [*self._lives, *([self._ready] if self._ready else [])]:
                life.clear()
        self.survived += tasks.faults(self._folder / "events")
        return [self._verdict(number) for number in self._cases]

    # --- lives

    def _live(self, dice: random.Random) -> None:
        """Let a driver work, and kill it."""
        life = self._next(dice)
        if dice.random() < 0.25:
            # The queries end, are changed, and go on in the same process.
            self._show(dice, most=4)
            self._run_to_end(life, dice)
        self._show(dice, most=3)
        self._start(life, dice)
        self._ready = self._born(dice)
        if dice.random() < 0.7:
            life.wait_for("batch")
        for _ in range(dice.randint(2, 5) + (6 if life.cluster else 0)):
            life.listen(dice.uniform(0, 3))
            self._disturb(life, dice)
        self._tally.sample(life.driver.processes())
        life.kill(all_at_once=dice.random() < 0.6)
        self.survived["micro-batches interrupted"] += sum(not self._clean(n) for n in self._cases)
        self._tell(f"  life {len(self._lives)}: {life.batches} micro-batches")

    def _end(self, dice: random.Random) -> None:
        """Let the queries read all there is, and then what closes the streams."""
        life = self._next(dice)
        for given in self._inputs:
            given.show_all()
        self._run_to_end(life, dice)
        for given in self._inputs:
            given.close()
            given.show_all()
        self._run_to_end(life, dice, last=True)
        self._tally.sample(life.driver.processes())
        life.driver.kill(all_at_once=True)
        self._tell(f"  last life: {life.batches} micro-batches")

    def _born(self, dice: random.Random) -> Life:
        """A new driver. It starts while the one before still works."""
        return Life(
            self._plan,
            self._folder,
            cluster="executor" in self._faults and dice.random() < 0.25,
            full_disk="full-disk" in self._faults and dice.random() < 0.15,
            java_options=self._java_options,
            survived=self.survived,
            tell=self._tell,
        )

    def _next(self, dice: random.Random) -> Life:
        """The driver that follows: at once, while executors of the one before may still be there,
        or when they are gone, and something has happened to the cache meanwhile."""
        life = self._ready or self._born(dice)
        self._ready = None
        for earlier in self._lives[-2:-1]:
            earlier.clear()
        if self._lives and dice.random() < 0.5:
            self._lives[-1].clear(patience=10)
            self._spoil_cache(dice, in_place=True)
        self._lives.append(life)
        return life

    def _start(
        self, life: Life, dice: random.Random, *, orderly: bool = False, last: bool = False
    ) -> None:
        """Start the queries, with changes."""
        for number in self._cases:
            if self._clean(number) and (last or dice.random() < 0.5):
                since = history.complete(self._checkpoint(number))
                self._epochs[number].append((since, self._epochs[number][-1][1] + 1))
                self.survived["changes of what matches, or when it is emitted"] += 1
        self._started += 1
        starts = [Start(self._started, epochs[-1][1], last) for epochs in self._epochs]
        life.start(Order(starts, orderly))

    def _run_to_end(self, life: Life, dice: random.Random, *, last: bool = False) -> None:
        """Let the queries read all there is to read, and end."""
        self._start(life, dice, orderly=True, last=last)
        for _ in range(6):
            if life.listen(dice.uniform(2, 6), until="ended"):
                break
            self._disturb(life, dice)
        else:
            # On a slow machine, executors that are killed for ever would never get anywhere.
            life.wait_for("ended")
        for number in self._cases:
            if not self._clean(number):
                raise RoundError(f"case {number} ended in the middle of a micro-batch")

    # --- what happens

    def _disturb(self, life: Life, dice: random.Random) -> None:
        """One thing happens to the queries."""
        if life.cluster and dice.random() < 0.6:
            life.kill_executor(dice)
        elif dice.random() < 0.3:
            self._spoil_cache(dice, in_place=False)
        else:
            self._show(dice, most=1)

    def _show(self, dice: random.Random, *, most: int) -> None:
        """More files come, of some streams."""
        for given in self._inputs:
            for stream in given.waiting:
                given.show(stream, dice.randint(0, most))

    def _spoil_cache(self, dice: random.Random, *, in_place: bool) -> None:
        cache = self._folder / "cache"
        if "delete" in self._faults and dice.random() < 0.5:
            self.survived["cache files deleted"] += cache_faults.delete(cache, dice)
        elif "damage" in self._faults:
            count = cache_faults.damage(cache, dice, in_place=in_place)
            self.survived["cache files damaged"] += count

    # --- results

    def _verdict(self, number: int) -> Verdict:
        trial, tables = self._plan.trials[number], self._inputs[number].tables
        batches = micro_batches(trial.case, self._checkpoint(number), tables, self._epochs[number])
        check_all_read(batches, tables)
        found = SINKS[trial.sink].read(self._folder / str(number) / "out")
        return verdict(found, trial.case.expected(batches))

    @property
    def _cases(self) -> range:
        return range(len(self._plan.trials))

    def _checkpoint(self, number: int) -> Path:
        return self._folder / str(number) / "checkpoint"

    def _clean(self, number: int) -> bool:
        """Is every micro-batch complete that was begun?"""
        checkpoint = self._checkpoint(number)
        return history.begun(checkpoint) == history.complete(checkpoint)
