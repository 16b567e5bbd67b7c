r"""Regular expressions of Java's, which Spark has, as Polars has them, which are Rust's.

Both differ in what ``.``, ``$``, ``\d``, ``\w`` and ``\s`` mean, in what may be in a set, and in
much that is rare. So a pattern is translated piece by piece, and refused if any of its pieces is
not known to mean the same. Only whether a text has a match is kept, not which one.

**The end.** In Java ``$`` stands at the end of a text, or before the line break that ends it, but
not inside of ``\r\n``. Rust cannot look back. So what stands before ``$`` must not match a ``\r``.
"""

from __future__ import annotations

import re

import polars as pl

_BREAKS = r"\n\r\x{85}\x{2028}\x{2029}"
#: What these stand for in Java, unless it is told to mind Unicode; to be put into a set.
_CLASSES = {"d": "0-9", "w": "A-Za-z_0-9", "s": r" \t\n\x0B\f\r"}
_ESCAPED = r"\\[.+*?()|\[\]{}^$\\/-]"
_PIECE = re.compile(
    rf"""
    (?P<set>\[\^?(?:[A-Za-z0-9_](?:-[A-Za-z0-9])?|[\ .,:;@/+]|\\[dws])+-?\])
    | (?P<class>\\[dwsDWS]) | (?P<any>\.) | (?P<character>{_ESCAPED}|[^\\.+*?()|\[\]{{}}^$])
    | (?P<close>\)) | (?P<end>\$\Z) | (?P<other>\A\^|\||\((?:\?:|(?!\?)))
    """,
    re.VERBOSE,
)
#: That a match is to be short changes nothing about whether there is one.
_TIMES = re.compile(r"(?:[*+?]|\{\d{1,3}(?:,(?:\d{1,3})?)?\})\??")
_MAY_MATCH_RETURN = re.compile(r"\\[sDW]|\[\^|\r")


def java_to_rust(pattern: str) -> str | None:
    r"""The pattern of Rust's that is found in the same texts; None if none is known.

    >>> java_to_rust(r"^(ad|promo)-\d{2,}")
    '^(ad|promo)-[0-9]{2,}'
    >>> java_to_rust("(?i)ad"), java_to_rust("(ad"), java_to_rust(r"a\b"), java_to_rust("a++")
    (None, None, None, None)
    """
    pieces, position, last = [], 0, ""
    while position < len(pattern):
        found = _PIECE.match(pattern, position)
        if found is None or (found["end"] and _may_follow_return(pattern[:-1], last)):
            return None
        position, last = found.end(), found[0]
        pieces.append(_translated(str(found.lastgroup), found[0]))
        times = _TIMES.match(pattern, position) if not (found["end"] or found["other"]) else None
        if times is not None:
            position, last = times.end(), last if times[0] == "+" else ""
            pieces.append(times[0])
        if found["close"] or found["other"]:
            last = ""
    return _well_formed("".join(pieces))


def plain_text(pattern: str) -> str | None:
    r"""The text that a pattern stands for, if it stands for one only.

    >>> plain_text(r"\|"), plain_text("[.]"), plain_text(", "), plain_text(",+"), plain_text("")
    ('|', '.', ', ', None, None)
    """
    one = r"[^\\.+*?()|\[\]{}^$]|\\[.+*?()|\[\]{}^$\\/-]|\[[ .,:;@/+|]\]"
    if not re.fullmatch(f"(?:{one})+", pattern):
        return None
    return "".join(piece.strip("[]\\") or piece[-1] for piece in re.findall(one, pattern))


def _may_follow_return(before: str, last: str) -> bool:
    r"""May the end stand inside of ``\r\n``? ``last`` is the piece before it, if there must be
    one."""
    return bool(_MAY_MATCH_RETURN.search(last or before))


def _translated(kind: str, piece: str) -> str:
    if kind == "any":
        return f"[^{_BREAKS}]"
    if kind == "end":
        return rf"(?:\r\n|[{_BREAKS}])?\z"
    if kind == "class":
        letter = piece[1]
        return f"[{'^' if letter.isupper() else ''}{_CLASSES[letter.lower()]}]"
    if kind == "set":
        return re.sub(r"\\([dws])", lambda one: _CLASSES[one[1]], piece)
    return piece


def _well_formed(pattern: str) -> str | None:
    """The pattern, if it can be used: its groups are closed, and it is not too large."""
    try:
        pl.select(pl.lit("").str.contains(pattern))
    except pl.exceptions.ComputeError:
        return None
    return pattern
