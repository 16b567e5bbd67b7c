"""From the SQL text of ``where`` to a predicate that a Python worker evaluates.

::

    text ─► Spark's analyzer ─► typed Catalyst tree ─► Polars expression ─► workers
            (analysis)                                 (translation)

The predicate means what Spark means: three-valued logic, NaN equal to itself and
greater than any number, decimals rounded half up, texts compared by bytes, times in
the session's zone. What cannot be computed exactly so is refused while the join is
planned.

One thing differs. Where Spark's ANSI mode stops the query (a division by zero, an
overflow, a string that is not a number, an index outside of an array), the predicate is
null, so that the pair does not match: one bad row must not stop a stream. With
``spark.sql.ansi.enabled`` false it means the same: null there, no wrapped integer.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from watersmeet.rows.predicate import SqlPredicate
from watersmeet.spark.sql.analysis import analyzed, fail
from watersmeet.spark.sql.translation import Translation


def translate(
    spark: SparkSession, sql: str, streams: Sequence[tuple[str, DataFrame]]
) -> SqlPredicate:
    """The predicate of a condition over the streams, given as (name, DataFrame)."""
    condition = analyzed(spark, sql, streams)
    translation = Translation(condition)
    expression = translation(condition.root)
    if not translation.inputs:
        fail(sql, "the condition mentions no column", "Compare columns, as in 'a.x < b.y'.")
    return SqlPredicate(sql, tuple(translation.inputs), expression)
