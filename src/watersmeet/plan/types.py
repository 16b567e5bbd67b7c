"""Key types: which Spark types may be keys, and in which type keys of different streams meet.

The common type of key columns is the narrowest type that holds them all, by Spark's own
rules for comparisons::

    equal types              that type
    integrals                the widest of them
    decimals and integrals   decimal(r + s, s), r and s the greatest counts of integral and
                             fractional digits; beyond 38 digits, fractional ones give way
    numbers and float/double double
    anything else            none: such keys do not compare
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from watersmeet.errors import UnsupportedTypeError

#: Decimal digits that hold every value of the type; the order is from narrow to wide.
_INTEGRAL_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_FLOATING = frozenset(("float", "double"))
_OTHER_ATOMIC = frozenset(("boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"))
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_COLLATED = re.compile(r"string collate (\w+)")
_MOST_DIGITS = 38


def check_key_type(type: str, *, column: str) -> None:
    """Refuse a type that cannot be a key; the message calls the column ``column``."""
    collated = _COLLATED.fullmatch(type)
    if collated:
        raise UnsupportedTypeError(
            f"on: {column} is of type {type!r}. Keys are compared byte by byte, which is not "
            f"what the collation {collated[1]} means. Join on a column without a collation: "
            'F.collate(column, "UTF8_BINARY"), or that of F.lower(column).'
        )
    if not may_be_key(type):
        raise UnsupportedTypeError(
            f"on: {column} is of type {type!r}, which cannot be a key. A key is a boolean, a "
            "number, a string, a binary, a date or a timestamp; of a struct, select the field "
            "as a column of its own."
        )


def may_be_key(type: str) -> bool:
    """May a column of the type be a key?

    >>> may_be_key("decimal(10,2)"), may_be_key("array<int>")
    (True, False)
    """
    return type in _OTHER_ATOMIC or _is_number(type)


def common_type(types: Sequence[str]) -> str | None:
    """The type in which keys of the given types are compared; None if they do not compare.

    >>> common_type(["int", "bigint"])
    'bigint'
    >>> common_type(["decimal(10,2)", "int"])
    'decimal(12,2)'
    >>> common_type(["string", "int"]) is None
    True
    """
    distinct = set(types)
    if len(distinct) == 1:
        return types[0]
    if not all(_is_number(type) for type in distinct):
        return None
    if distinct & _FLOATING:
        return "double"
    if distinct <= _INTEGRAL_DIGITS.keys():
        return max(distinct, key=lambda type: _INTEGRAL_DIGITS[type])
    return _wider_decimal(distinct)


def _wider_decimal(types: set[str]) -> str:
    shapes = [_digits(type) for type in types]
    integral = max(precision - scale for precision, scale in shapes)
    scale = max(scale for _, scale in shapes)
    excess = max(0, integral + scale - _MOST_DIGITS)
    return f"decimal({integral + scale - excess},{max(0, scale - excess)})"


def _digits(type: str) -> tuple[int, int]:
    """Precision and scale of a decimal, or of the decimal that holds an integral type."""
    if type in _INTEGRAL_DIGITS:
        return _INTEGRAL_DIGITS[type], 0
    decimal = _DECIMAL.fullmatch(type)
    assert decimal, f"not an exact number: {type}"
    return int(decimal[1]), int(decimal[2])


def _is_number(type: str) -> bool:
    return type in _INTEGRAL_DIGITS or type in _FLOATING or bool(_DECIMAL.fullmatch(type))
