"""The further condition of a join, as the operators see it.

A :class:`Predicate` holds for a combination of rows if its condition is true. As in SQL,
null is not true: rows for which the condition is unknown do not match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from watersmeet.conditions.cascade import Cascade, PredicateStatistics
from watersmeet.conditions.formula import Formula
from watersmeet.errors import PredicateFunctionError
from watersmeet.rows.columns import Bools, Positions

#: Messages give this many characters of a row.
_LONG = 1000


class Predicate(Protocol):
    """A condition over columns of a pair (or more) of rows."""

    @property
    def text(self) -> str:
        """The condition, for people to read."""

    @property
    def columns(self) -> tuple[tuple[int, str], ...]:
        """Its inputs, each a stream's position and a column's name."""

    @property
    def forgets(self) -> bool:
        """Does it drop the arrays that it was given, once it has answered? Then their memory may be
        used again."""

    @property
    def formula(self) -> Formula | None:
        """The same condition for numpy, if it is simple enough."""

    @property
    def cost(self) -> float | None:
        """The seconds that it takes for a pair, if they are declared."""

    def mask(self, columns: Sequence[pa.Array]) -> Bools:
        """For which rows does it hold? ``columns`` has an array for each input."""

    def satisfying(self, columns: Sequence[pa.Array]) -> Positions:
        """The positions of the rows for which it holds."""


def streams_of(predicate: Predicate) -> frozenset[int]:
    """The streams whose rows a predicate compares."""
    return frozenset(stream for stream, _ in predicate.columns)


def input_name(stream: int, column: str) -> str:
    """What a Polars expression calls a stream's column.

    >>> input_name(1, "price")
    '1.price'
    """
    return f"{stream}.{column}"


@dataclass(frozen=True)
class SqlPredicate:
    """A condition that was given in SQL, as a Polars expression, and as a formula, if it is one.

    The ``expression`` calls its inputs by :func:`input_name`.

    >>> bigger = SqlPredicate("a.x > b.y", ((0, "x"), (1, "y")), pl.col("0.x") > pl.col("1.y"))
    >>> bigger.mask([pa.array([1, 5, None]), pa.array([2, 2, 2])]).tolist()
    [False, True, False]
    """

    text: str
    columns: tuple[tuple[int, str], ...]
    # `==` of two Polars expressions is an expression, not a truth value.
    expression: pl.Expr = field(compare=False)
    formula: Formula | None = None
    forgets = True
    cost = None

    @cached_property
    def computed(self) -> bytes:
        """The whole computation, as bytes."""
        return self.expression.meta.serialize()

    def mask(self, columns: Sequence[pa.Array]) -> Bools:
        return self._evaluated(columns, self.expression.fill_null(False))

    def satisfying(self, columns: Sequence[pa.Array]) -> Positions:
        return self._evaluated(columns, pl.arg_where(self.expression))

    def _evaluated(self, columns: Sequence[pa.Array], wanted: pl.Expr) -> np.ndarray:
        assert len(columns) == len(self.columns), (
            f"{self.text!r} needs {len(self.columns)} columns, not {len(columns)}"
        )
        table = pa.Table.from_arrays(list(columns), [input_name(*each) for each in self.columns])
        frame = pl.DataFrame(pl.from_arrow(table, rechunk=False))
        return frame.select(wanted).to_series().to_numpy()


@dataclass(frozen=True)
class AllOf:
    """Holds where several predicates do. They are applied in the order that costs least
    (:mod:`.cascade`), as ``measured`` since this object was made: on Spark, in a task. Each sees
    only the rows that the ones before it let through.

    >>> x, y = pl.col("0.x"), pl.col("1.y")
    >>> less = SqlPredicate("a.x < b.y", ((0, "x"), (1, "y")), x < y)
    >>> even = SqlPredicate("b.y % 2 = 0", ((1, "y"),), y % 2 == 0)
    >>> both = AllOf((less, even))
    >>> both.columns
    ((0, 'x'), (1, 'y'))
    >>> both.mask([pa.array([1, 1, 9]), pa.array([2, 3, 4])]).tolist()
    [True, False, False]
    """

    predicates: tuple[Predicate, ...]
    measured: list[PredicateStatistics] = field(
        default_factory=list, init=False, compare=False, repr=False
    )
    forgets = False
    formula = None
    cost = None

    def __post_init__(self) -> None:
        self.measured.extend(PredicateStatistics() for _ in self.predicates)

    @property
    def text(self) -> str:
        return " AND ".join(f"({predicate.text})" for predicate in self.predicates)

    @property
    def columns(self) -> tuple[tuple[int, str], ...]:
        return tuple(dict.fromkeys(c for predicate in self.predicates for c in predicate.columns))

    def mask(self, columns: Sequence[pa.Array]) -> Bools:
        mask = np.zeros(len(columns[0]), dtype=np.bool_)
        mask[self.satisfying(columns)] = True
        return mask

    def satisfying(self, columns: Sequence[pa.Array]) -> Positions:
        named = dict(zip(self.columns, columns, strict=True))

        def holding(number: int, left: Positions | None) -> Positions:
            predicate = self.predicates[number]
            given = [named[column] for column in predicate.columns]
            if left is not None:
                given = [column.take(pa.array(left)) for column in given]
            return predicate.satisfying(given)

        every = range(len(self.predicates))
        return Cascade(self.measured).satisfying(every, len(columns[0]), holding)


@dataclass(frozen=True)
class FunctionPredicate:
    """A vectorised Python function of Arrow tables of equal length, one for each of its
    streams, to booleans. ``sides`` are the positions of those streams.

    Invariant: the function cannot change what it gets. The memory may be that of stored rows, which
    are compared again.

    >>> import pyarrow.compute as pc
    >>> def bigger(a, b): return pc.greater(a["x"], b["y"])
    >>> predicate = FunctionPredicate("bigger(a, b)", ((0, "x"), (1, "y")), bigger, (0, 1))
    >>> predicate.mask([pa.array([1, 5, None]), pa.array([2, 2, 2])]).tolist()
    [False, True, False]
    """

    text: str
    columns: tuple[tuple[int, str], ...]
    function: Callable[..., object]
    sides: tuple[int, ...]
    cost: float | None = None
    forgets = False
    formula = None

    def satisfying(self, columns: Sequence[pa.Array]) -> Positions:
        return np.flatnonzero(self.mask(columns))

    def mask(self, columns: Sequence[pa.Array]) -> Bools:
        named = list(zip(self.columns, columns, strict=True))
        tables = [
            _read_only(pa.table({name: values for (of, name), values in named if of == side}))
            for side in self.sides
        ]
        count = len(columns[0]) if columns else 0
        try:
            given = self.function(*tables)
        except Exception as error:
            raise self._failure(f"it raised {type(error).__name__}: {error}", tables) from error
        # A plain array is used as it is: turning it into Arrow and back may take longer than the
        # comparison.
        if type(given) is np.ndarray and given.dtype == np.bool_ and given.shape == (count,):
            return given
        try:
            holds = given if isinstance(given, pa.Array | pa.ChunkedArray) else pa.array(given)
        except Exception as error:  # what is computed when it is read may fail with anything
            what = f"a {type(given).__name__}: {type(error).__name__}: {error}"
            raise self._failure(f"it returned {what}", tables) from error
        if pa.types.is_null(holds.type):
            holds = holds.cast(pa.bool_())
        if not pa.types.is_boolean(holds.type):
            raise self._failure(f"it returned values of type {holds.type}", tables)
        if len(holds) != count:
            raise self._failure(f"it returned {len(holds)} values for {count} rows", tables)
        mask: Bools = np.asarray(holds.fill_null(False) if holds.null_count else holds)
        return mask

    def _failure(self, what: str, tables: Sequence[pa.Table]) -> PredicateFunctionError:
        rows = (str(table.slice(0, 1).to_pylist()) for table in tables)
        sample = ", ".join(row if len(row) <= _LONG else f"{row[:_LONG]}..." for row in rows)
        return PredicateFunctionError(
            f"where: {self.text}: {what}. It must return as many booleans as it gets rows (an "
            f"Arrow or numpy array; null means no match). The first rows it got: {sample}. After a "
            "correction the query goes on from its checkpoint; nothing is lost."
        )


@dataclass(frozen=True)
class _Lent:
    """A table as Arrow's C interface hands it on."""

    table: pa.Table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def _read_only(table: pa.Table) -> pa.Table:
    """The same table, in the same memory, which is not to be written to. That is so of all that
    comes through Arrow's C interface.

    >>> numbers = _read_only(pa.table({"x": [1, 2]}))["x"].chunk(0)
    >>> np.frombuffer(numbers.buffers()[1], np.int64).flags.writeable
    False
    """
    return pa.table(_Lent(table))
