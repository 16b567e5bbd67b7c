"""What streams' promises about their keys do in a planned join: what leaves by them, what stays."""

from __future__ import annotations

from watersmeet import durations
from watersmeet.joins.equi.policy import EquiPolicy
from watersmeet.joins.equi.spec import EquiSpec
from watersmeet.plan.explain.shared import unbounded
from watersmeet.plan.explain.tree import Node


def grows(spec: EquiSpec) -> list[str]:
    """A warning, if nothing bounds the state, or not all of it."""
    if not any(stream.closes for stream in spec.streams):
        return unbounded(spec)
    return [f"WARNING: {text}." for text in lasting_rows(spec)]


def lasting_rows(spec: EquiSpec) -> list[str]:
    """Of a join that promises bound: which rows stay all the same."""
    if not spec.streaming or not any(stream.closes for stream in spec.streams):
        return []
    texts = []
    for position in spec.lasting:
        stream, other = spec.streams[position], spec.streams[1 - position]
        if not other.closes:
            texts.append(f"unbounded state: every row of {stream.name} is kept for ever")
            continue
        texts.append(
            f"unbounded state: a row of {stream.name} whose key never comes in {other.name} is "
            "kept for ever"
        )
    return texts


def closing(spec: EquiSpec, position: int) -> list[str]:
    """What the other of two streams says about its keys."""
    other = next(stream for i, stream in enumerate(spec.streams) if i != position)
    ways: list[str] = []
    if other.unique:
        ways.append(f"when it has found its only match in {other.name}, whose keys are unique")
    if other.arrival is not None:
        never = " (if the key ever comes there)" if other.arrival == "clustered" else ""
        ways.append(f"when {other.name}, which is {other.arrival}, has passed its key{never}")
    if other.punctuation is not None:
        ways.append(f"when a punctuation of {other.name} closes its key")
    return ways


def promises(spec: EquiSpec, policy: EquiPolicy) -> list[Node]:
    if not any(stream.closes for stream in spec.streams):
        return []
    purge = "at once, after every punctuation"
    if policy.purge_after > 1:
        purge = f"after {policy.purge_after} punctuations, or when no rows come"
    elif policy.schedule.rows == "value":
        purge += ", before other rows are processed"
    fate = {
        "fail": "stops the query",
        "drop": "is dropped and counted",
        "keep": "is kept",
    }[spec.violations]
    nodes = [
        Node(f"rows with a closed key are purged {purge}; new ones are not stored"),
        Node(f"a row that its stream had promised not to bring {fate}"),
    ]
    if any(stream.punctuation or stream.arrival == "clustered" for stream in spec.streams):
        nodes.append(Node(f"closed keys are remembered {_remembered(spec)}"))
    if spec.emit_punctuations:
        nodes.append(Node("punctuations are emitted when all results they cover have left"))
    return [Node("promises", nodes)]


def _remembered(spec: EquiSpec) -> str:
    if spec.remembered is None:
        return "for the life of the query"
    return f"until the watermark has moved by {durations.format(spec.remembered)}"
