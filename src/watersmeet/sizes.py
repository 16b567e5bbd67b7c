"""Sizes of memory: from what users write to bytes, and back to readable text."""

from __future__ import annotations

import re

from watersmeet.errors import BudgetError

_UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
#: A size below it was not meant, if a user gave it; and a number without a unit not as bytes.
_LEAST, _LEAST_NUMBER = 1 << 10, 1_000_000
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
_EXAMPLE = "Give text like '2 GB' or '512 MiB', or whole bytes."


def parse(value: object, *, argument: str) -> int:
    """The bytes of a size; ``argument`` is how messages call it.

    >>> parse("1.5 GB", argument="memory"), parse("64 MiB", argument="memory")
    (1500000000, 67108864)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None or match[2].lower() not in _UNITS:
            raise BudgetError(f"{argument}={value!r} is not a size. {_EXAMPLE}")
        size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size <= 0:
        raise BudgetError(f"{argument}={value!r} must be above 0. {_EXAMPLE}")
    return size


def check_meant(value: object, *, argument: str) -> None:
    """Refuse a size that was hardly meant: a few bytes, or a small number without a unit, as one of
    megabytes would be."""
    size = parse(value, argument=argument)
    if size < (_LEAST_NUMBER if isinstance(value, int) else _LEAST):
        raise BudgetError(
            f"{argument}={value!r} is {size} bytes, which hold hardly any rows. {_EXAMPLE}"
        )


def format(size: float) -> str:
    """A size to read.

    >>> format(1_500_000_000), format(999), format(64_000_000)
    ('1.5 GB', '999 B', '64 MB')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if size >= _UNITS[unit.lower()]:
            return f"{size / _UNITS[unit.lower()]:.3g} {unit}"
    return f"{size:g} B"
