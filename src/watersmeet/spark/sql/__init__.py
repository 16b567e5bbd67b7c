"""From the SQL text of ``where`` to terms that a Python worker evaluates.

::

    text ─► Spark's analyzer ─► typed Catalyst tree ─► its terms ─► Polars expressions ─► workers
            (analysis)                                 (terms)      (translation)
                                                          │
                                                          └─► what they say of keys, of times, and
                                                              of the order of values
                                                              (terms, gaps, comparisons)

A predicate means what Spark means: three-valued logic, NaN equal to itself and
greater than any number, decimals rounded half up, texts compared by bytes, times in
the session's zone. What cannot be computed exactly so is refused while the join is
planned.

One thing differs. Where Spark's ANSI mode stops the query (a division by zero, an
overflow, a string that is not a number, an index outside of an array), the expression
that fails is null, and what is computed from it goes on from there: one bad row must
not stop a stream. With ``spark.sql.ansi.enabled`` false it means the same: null there,
no wrapped integer. (A string is cast to a whole number as that setting says.)
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from watersmeet.conditions.terms import Term
from watersmeet.spark.sql.analysis import analyzed
from watersmeet.spark.sql.terms import terms_of


def translate(
    spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]
) -> tuple[Term, ...]:
    """The terms of a condition over the streams, given as (name, DataFrame)."""
    return terms_of(analyzed(spark, sql, streams))
