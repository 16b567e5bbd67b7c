"""Policies: how a join runs. Each is made once, when the join is planned. The operator follows it,
``explain`` prints it, and nothing computes it again."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.spec.budget import ShardBudget
from watersmeet.spec.limits import LIMITS, Limits


@dataclass(frozen=True)
class Policy:
    """How a join runs: over so many ``shards``, of which ``cores`` are stepped side by side (None:
    not known). ``limits`` are the sizes of the pieces in which it works."""

    shards: int
    cores: int | None = field(default=None, kw_only=True)
    limits: Limits = field(default=LIMITS, kw_only=True)


@dataclass(frozen=True)
class BudgetedPolicy(Policy):
    """How a join of streams runs, with a ``budget`` as shards share it, if there is one."""

    budget: ShardBudget | None = field(default=None, kw_only=True)

    @property
    def memory(self) -> int | None:
        """The bytes that a step may take, if a budget says so."""
        return None if self.budget is None else self.budget.memory
