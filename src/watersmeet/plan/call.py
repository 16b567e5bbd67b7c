"""What a call of ``wm.join`` asks for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class JoinCall:
    """The arguments of a call, as they were given: nothing has been checked yet. ``wm.join`` says
    what each of them means."""

    on: object = None
    within: object = None
    how: object = "inner"
    where: object = None
    name: object = None
    goal: object = "throughput"
    budget: object = None
    unbounded: object = False
    violations: object = "fail"
    emit_punctuations: object = False
    tuning: object = None
    event_time: object = None
    hold: object = None
