"""What a soak has seen: rows checked, faults survived, memory, and what failed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from soak.check import Verdict
from soak.plan import RoundPlan
from soak.process import Process


@dataclass
class Tally:
    """The sums over all rounds. Faults count when the results of their round were right."""

    faults: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    cases: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    memory: list[dict[str, int]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def sample(self, processes: Sequence[Process]) -> None:
        """Note the memory of the largest process of each kind."""
        largest: dict[str, int] = {}
        for process in processes:
            largest[process.kind] = max(process.memory, largest.get(process.kind, 0))
        self.memory.append(largest)

    def add(
        self, plan: RoundPlan, verdicts: Sequence[Verdict], survived: Mapping[str, int]
    ) -> str | None:
        """Count a round. Gives what is wrong with its results, if anything is."""
        self.rounds += 1
        wrong = []
        for trial, verdict in zip(plan.trials, verdicts, strict=True):
            self.cases[re.split(r";|,| on ", trial.case.title)[0]] += 1
            self.rows += verdict.rows
            self.lost += verdict.lost
            self.doubled += verdict.doubled
            self.wrong += verdict.wrong
            if not verdict.holds:
                wrong.append("\n".join([f"{trial.title}: {verdict}", *verdict.examples]))
        if not wrong:
            self.faults.update(survived)
        return "\n".join(wrong) or None

    def summary(self) -> str:
        """One line."""
        return (
            f"{self.rounds} rounds, {self.rows:,} rows checked, {self.lost:,} lost, "
            f"{self.doubled:,} doubled; {len(self.failures)} failures"
        )

    def lines(self) -> list[str]:
        """The report."""
        told = [f"rounds: {self.rounds}", f"rows checked: {self.rows:,}"]
        told += ["cases: " + ", ".join(f"{n} {name}" for name, n in sorted(self.cases.items()))]
        told += ["faults survived:"]
        told += [f"  {count:,} {kind}" for kind, count in sorted(self.faults.items())]
        told += [f"rows lost: {self.lost:,}", f"rows doubled: {self.doubled:,}"]
        told += [f"rows wrong: {self.wrong:,}"] if self.wrong else []
        told += ["memory of the largest process, at the start, at the end, and at most:"]
        for kind in ("driver", "driver JVM", "executor", "worker"):
            seen = [sample[kind] >> 20 for sample in self.memory if kind in sample]
            if seen:
                told.append(f"  {kind}: {seen[0]:,} MB, {seen[-1]:,} MB, {max(seen):,} MB")
        return [*told, *(f"FAILED {failure}" for failure in self.failures)]
