"""The contract of a family of joins: what all others know of it.

A family is a folder here. It has a *spec* (what was asked for), a *policy* (how that runs), a
*plan* that holds both, an operator with its layout, state, step and counters, and a *chain* of
such operators, which both backends run. Families know nothing of each other, and backends know
them by what is in this file. To add one: a folder, and a line in :mod:`.families`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.chain import Chain
from watersmeet.joins.metrics import StepMetrics
from watersmeet.joins.operator import StreamCounters
from watersmeet.joins.policy import Policy
from watersmeet.plan.backend import Backend
from watersmeet.plan.call import JoinCall
from watersmeet.plan.crowding import crowding
from watersmeet.plan.explain.tree import Node
from watersmeet.plan.where.matching import Matching
from watersmeet.spec.join import JoinSpec
from watersmeet.spec.stream import StreamSpec


@dataclass(frozen=True)
class JoinPlan(ABC):
    """A planned join: what was asked for, how it runs, and its further condition. ``reading`` says,
    for people to read, which parts of ``where`` became a key or windows."""

    spec: JoinSpec
    policy: Policy
    predicate: Predicate | None
    reading: tuple[str, ...] = ()

    @abstractmethod
    def chain(self, schemas: Sequence[pa.Schema], output: pa.Schema) -> Chain:
        """The operators, with their inputs. ``schemas`` are the inputs' own columns, ``output`` the
        result's, in canonical Arrow types."""

    @abstractmethod
    def branches(self) -> list[Node]:
        """The branches of ``explain``: which rows match, which are stored, what removes them, and
        when."""

    @property
    def title(self) -> str:
        """What it does, in a few words."""
        return f"{self.spec.how} join of {' and '.join(each.name for each in self.spec.streams)}"

    def warnings(self) -> list[str]:
        """Warnings: what the user should change."""
        crowded = crowding(self.policy.shards, self.policy.cores)
        return [f"{crowded}."] if crowded is not None and self.spec.streaming else []

    def headlines(self) -> list[str]:
        """What stands above the tree of ``explain``."""
        return []

    def explain(self) -> str:
        """The plan as a tree to read."""
        inputs = "streaming" if self.spec.streaming else "batch: one run, no watermark"
        called = "" if self.spec.name == self.title else f"{self.spec.name}: "
        tree = Node(f"{called}{self.title} ({inputs})", self.branches())
        return "\n".join([*self.headlines(), *tree.drawn()])


@dataclass(frozen=True)
class Family:
    """A family of joins, by the ``name`` that its counters have. The counters of a step are read
    back as its ``metrics``, with ``streams`` for each stream.

    ``takes`` and ``plan`` belong to families that ``wm.join`` may choose: does the family take a
    call, given its condition? And the plan of such a call."""

    name: str
    metrics: type[StepMetrics]
    streams: type[StreamCounters]
    takes: Callable[[JoinCall, Matching], bool] = lambda _asked, _matching: False
    plan: Callable[[Sequence[StreamSpec], Backend, JoinCall, Matching], JoinPlan] | None = None
