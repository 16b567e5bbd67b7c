"""Join types: what becomes of rows that match, and of rows that do not.

============  =========================================  ==============================
type          of rows that match, the result has         of rows without a match
============  =========================================  ==============================
``inner``     each combination                           nothing
``left``      each combination                           those of the first stream
``right``     each combination                           those of the others
``full``      each combination                           those of every stream
``semi``      a row of the first stream, once            nothing
``anti``      nothing                                    those of the first stream
============  =========================================  ==============================

Everything else follows from these columns: of which rows a join must know whether they have matched
(these are *marked*), and which rows are useless as soon as they have matched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: The join types, and Spark's other spellings of them.
How = Literal[
    "inner",
    "left",
    "right",
    "full",
    "semi",
    "anti",
    "leftouter",
    "left_outer",
    "rightouter",
    "right_outer",
    "outer",
    "fullouter",
    "full_outer",
    "leftsemi",
    "left_semi",
    "leftanti",
    "left_anti",
]
#: What Spark calls these joins, without underscores, and what they are called here.
_SPARK_NAMES = {
    "leftouter": "left",
    "rightouter": "right",
    "outer": "full",
    "fullouter": "full",
    "leftsemi": "semi",
    "leftanti": "anti",
}


@dataclass(frozen=True)
class JoinType:
    """A join type, by its ``name``.

    ``combines``: does each match add a combination of rows to the result? If not, the result has
    columns and rows of the first stream alone. ``preserves_first`` and ``preserves_others``: do
    unmatched rows of the first stream, and of the others, appear in the result?"""

    name: str
    combines: bool = True
    preserves_first: bool = False
    preserves_others: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def emits_first_match(self) -> bool:
        """Does a row of the first stream appear as soon as it has a match, and only then?"""
        return not self.combines and not self.preserves_first

    @property
    def emits_unmatched(self) -> bool:
        """Do unmatched rows appear in the result, once it is proven that they match nothing?"""
        return self.preserves_first or self.preserves_others

    @property
    def star(self) -> bool:
        """A join of many streams is a star if each is matched with the first one alone. Is this?"""
        return self.combines and self.preserves_first and not self.preserves_others

    def preserves(self, stream: int) -> bool:
        """Do unmatched rows of a stream appear in the result?"""
        return self.preserves_others if stream else self.preserves_first

    def preserved(self, streams: int) -> tuple[bool, ...]:
        """The same, for each of so many streams.

        >>> [join_type.preserved(2) for join_type in (LEFT, RIGHT, SEMI)]
        [(True, False), (False, True), (False, False)]
        """
        return tuple(self.preserves(stream) for stream in range(streams))

    def marks(self, stream: int) -> bool:
        """Must the join know whether a stored row of a stream has matched?

        >>> [join_type.name for join_type in JOIN_TYPES if join_type.marks(0)]
        ['left', 'full', 'semi', 'anti']
        """
        return self.preserves(stream) or self.useless_once_matched(stream)

    def useless_once_matched(self, stream: int) -> bool:
        """Is a row of a stream useless as soon as it has matched?"""
        return not self.combines and stream == 0


INNER = JoinType("inner")
LEFT = JoinType("left", preserves_first=True)
RIGHT = JoinType("right", preserves_others=True)
FULL = JoinType("full", preserves_first=True, preserves_others=True)
SEMI = JoinType("semi", combines=False)
ANTI = JoinType("anti", combines=False, preserves_first=True)
#: The join types of two streams, in the order in which the documentation lists them.
JOIN_TYPES = (INNER, LEFT, RIGHT, FULL, SEMI, ANTI)
JOIN_NAMES = tuple(each.name for each in JOIN_TYPES)


def join_type_of(how: str) -> JoinType | None:
    """The join type of a name, ours or one of Spark's; None if there is none.

    >>> join_type_of("LEFT_ANTI") is ANTI, join_type_of("cross")
    (True, None)
    """
    plain = re.sub(r"[\s_-]", "", how.lower())
    known = _SPARK_NAMES.get(plain, plain)
    return next((each for each in JOIN_TYPES if each.name == known), None)
