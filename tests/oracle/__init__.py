"""What a join must give, worked out with none of Watersmeet's code.

:func:`sql_join` is the join as one plain SQL statement in DuckDB, :func:`split_late`
is Spark's watermark in a few lines of Python, :func:`assert_same_rows` compares
two results as multisets of rows.
"""

from tests.oracle.compare import assert_same_rows, multiset
from tests.oracle.join import Stream, sql_join
from tests.oracle.watermark import Arrivals, split_late

__all__ = ["Arrivals", "Stream", "assert_same_rows", "multiset", "split_late", "sql_join"]
