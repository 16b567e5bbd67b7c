"""What the operators of a join know of it: how its rows are stored, the facts of the spec that they
need, and the policy that they follow. Each family adds its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, Self, TypeVar

from watersmeet import durations
from watersmeet.conditions.predicate import Predicate
from watersmeet.joins.policy import BudgetedPolicy, Policy
from watersmeet.rows.columns import Bools
from watersmeet.rows.input_layout import InputLayout
from watersmeet.rows.layout import RowLayout
from watersmeet.rows.output import Output, Side
from watersmeet.spec.join_type import JoinType
from watersmeet.spec.limits import Limits
from watersmeet.spec.windowed import WindowedSpec
from watersmeet.state.fingerprint import STREAMS, WINDOW
from watersmeet.state.memory import piece_of

P = TypeVar("P", bound=Policy)
B = TypeVar("B", bound=BudgetedPolicy)


@dataclass(frozen=True, kw_only=True)
class JoinLayout(Generic[P]):
    """The layout of any join: its type, the builder of its results, the fingerprint of its state,
    its policy."""

    how: JoinType
    output: Output
    fingerprint: str
    policy: P

    @cached_property
    def limits(self) -> Limits:
        """The sizes of the pieces in which it works."""
        return self.policy.limits


@dataclass(frozen=True, kw_only=True)
class KeyedLayout:
    """The layout of a join by key. ``exact``: is the key its own code? If not, it is stored in the
    ``key_columns``. The ``predicate`` is the further condition of the join."""

    inputs: Sequence[InputLayout]
    exact: bool
    key_columns: tuple[str, ...]
    predicate: Predicate | None

    def holds(self, sides: Mapping[int, Side]) -> Bools | None:
        """For which combinations of rows, given as positions in each input's rows, the predicate
        holds; None if there is none."""
        if self.predicate is None:
            return None
        return self.predicate.mask(
            [self.inputs[side].read_at(*sides[side], name) for side, name in self.predicate.columns]
        )


@dataclass(frozen=True, kw_only=True)
class WindowedLayout(JoinLayout[B]):
    """The layout of a join of streams. ``preserved[i]``: does an unmatched row of stream i appear
    in the result? ``delay`` is that of the watermark. ``timers``: does a shard that stores anything
    take a step when the watermark moves?"""

    preserved: tuple[bool, ...]
    delay: int
    timers: bool

    @cached_property
    def piece(self) -> int | None:
        """The bytes that are handled at a time, if a budget limits them."""
        return piece_of(self.policy.memory)

    def run_by(self, policy: B) -> Self:
        """The same join, run by another policy."""
        output = replace(self.output, limit=piece_of(policy.memory))
        return replace(self, policy=policy, output=output)


def stream_facts(spec: WindowedSpec, layouts: Sequence[RowLayout]) -> dict[str, str | list[str]]:
    """The facts about the streams of a query that must not change while its checkpoint lives.
    Columns that are not stored may change, and so may the order of all. Delays and conditions may
    change: they decide about rows to come. (But a condition that reads other columns needs rows
    that were stored with them.) Windows may change too, unless a row that was emitted as unmatched
    could match after all."""
    facts: dict[str, str | list[str]] = {STREAMS: ", ".join(each.name for each in spec.streams)}
    given = zip(spec.streams, spec.keys, spec.windows, layouts, strict=True)
    for stream, keys, window, layout in given:
        facts[f"time of {stream.name}"] = stream.time or "none"
        # Of a key, the type in which it is compared is stored.
        values = sorted(layout.stored.keys() - {*keys})
        facts[f"stored columns of {stream.name}"] = [
            f"{name} {stream.column(name).type}" for name in values
        ]
        if any(spec.preserved):
            length = "none" if window is None else durations.format(window)
            facts[f"{WINDOW} of {stream.name}"] = length
    if spec.hold:
        facts["Spark's watermark held back by"] = durations.format(spec.hold)
    return facts
