"""The plan of a round: its cases, by its seed alone. The soak and the process it kills make the
same plan, so that no case has to travel."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from soak.case import Case, Start
from soak.families import FAMILIES
from soak.sinks import SINKS


@dataclass(frozen=True)
class Trial:
    """A case and how it is run: into which sink, over how many shards, and whether the tasks that
    join are disturbed."""

    seed: str
    case: Case
    sink: str
    shards: int
    disturbed: bool

    @property
    def title(self) -> str:
        told = f"{self.case.title}; {self.sink}, {self.shards} shards"
        return f"{told}, tasks disturbed" if self.disturbed else told


@dataclass(frozen=True)
class RoundPlan:
    """A round: ``lives`` is how often its driver is killed, or stopped, before the end."""

    seed: str
    families: Sequence[str]
    lives: int
    cases: int

    @classmethod
    def random(cls, seed: int, number: int, families: Sequence[str]) -> RoundPlan:
        """The round of that number, of all that have this seed."""
        dice = random.Random(f"{seed}, round {number}")
        lives, cases = dice.randint(4, 10), dice.choice([2, 2, 3])
        return cls(f"{seed}, round {number}", tuple(families), lives, cases)

    @classmethod
    def of(cls, told: dict[str, Any]) -> RoundPlan:
        return cls(**told)

    def told(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def trials(self) -> list[Trial]:
        return [self._trial(number) for number in range(self.cases)]

    def _trial(self, number: int) -> Trial:
        seed = f"{self.seed}, case {number}"
        dice = random.Random(seed)
        family = FAMILIES[dice.choice(sorted(self.families))]
        return Trial(
            seed,
            # A few files for each life, and for the end.
            case=family(dice, 4 * self.lives + 4),
            sink=dice.choice(sorted(SINKS)),
            shards=dice.choice([1, 2, 2, 3]),
            disturbed=dice.random() < 0.5,
        )


@dataclass(frozen=True)
class Order:
    """What a driver is told: how to start the queries, whether they end by themselves, and how
    many failures of queries it may answer by starting them again."""

    starts: Sequence[Start]
    orderly: bool
    patience: int = 20

    @classmethod
    def of(cls, told: dict[str, Any]) -> Order:
        return cls(**{**told, "starts": [Start(**start) for start in told["starts"]]})

    def told(self) -> dict[str, Any]:
        return asdict(self)
