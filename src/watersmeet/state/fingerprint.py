"""A query's fingerprint: the facts about it that must not change while its checkpoint is in use.

Invariant: two queries may share state if and only if their fingerprints are equal. A fingerprint is
text, kept in the manifest: facts by name, as JSON. So the differences between two of them can be
told in words.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

#: The name of the fact that lists the names of the streams. A fact about one stream is named
#: "... of <stream>".
STREAMS = "streams"
#: Some facts about windows are named so, followed by "of <stream>": those that only some join types
#: have. If only one of two queries has such a fact, their types differ, and nothing is said of it.
WINDOW = "window"
#: The facts about a query: each by its name, as text or as a list of texts.
Facts = Mapping[str, str | Sequence[str]]


def fingerprint_of(facts: Facts) -> str:
    """The facts as a fingerprint."""
    return json.dumps(facts, separators=(",", ":"))


def differences(before: str, now: str) -> list[str]:
    """The differences, in words. If a stream was added or removed, only that is said about it.

    >>> differences(
    ...     fingerprint_of({"window of views": "5 min", "columns of views": ["a int", "b int"]}),
    ...     fingerprint_of({"window of views": "1 h", "columns of views": ["a int", "c int"]}),
    ... )
    ['window of views: was 5 min, now 1 h', 'columns of views: c int is new, b int is missing']
    """
    old, new = facts_of(before), facts_of(now)
    renamed = _streams(old) ^ _streams(new)
    found = []
    for name in changed(before, now):
        if name.startswith(f"{WINDOW} of ") and not (name in old and name in new):
            continue
        was, is_now = old.get(name, "none"), new.get(name, "none")
        if name.rpartition(" of ")[2] not in renamed:
            found.append(f"{name}: {_change(was, is_now)}")
    return found


def changed(before: str, now: str) -> list[str]:
    """The names of all facts that are different now."""
    old, new = facts_of(before), facts_of(now)
    names = [*old, *(name for name in new if name not in old)]
    return [name for name in names if old.get(name) != new.get(name)]


def _streams(facts: Facts) -> set[str]:
    names = facts.get(STREAMS, "")
    return set(names.split(", ")) if isinstance(names, str) and names else set()


def facts_of(fingerprint: str) -> Facts:
    """The facts of a fingerprint."""
    try:
        facts = json.loads(fingerprint)
    except ValueError:
        facts = None
    return facts if isinstance(facts, dict) else {"query": fingerprint}


def _change(old: str | Sequence[str], new: str | Sequence[str]) -> str:
    if isinstance(old, str) or isinstance(new, str):
        return f"was {_text(old)}, now {_text(new)}"
    added = [f"{item} is new" for item in new if item not in old]
    removed = [f"{item} is missing" for item in old if item not in new]
    return ", ".join(added + removed) or f"was {_text(old)}, now in the order {_text(new)}"


def _text(fact: str | Sequence[str]) -> str:
    return fact if isinstance(fact, str) else ", ".join(fact)
