"""Places: a wide row takes up several, so that a limit on rows is a limit on bytes.

Spark hands rows to Python in batches of so many rows (``maxRecordsPerBatch``). It can limit their
bytes too, but then it measures the batch after every row, which takes longer than the rest of its
work on the row. And without a limit, rows of a megabyte make batches that do not fit into memory,
nor into the 2 GiB of an Arrow column.

**The rule.** A row that takes n times :data:`PLACE_BYTES` is followed by n empty rows, which are
dropped where the batch arrives. So a batch of r rows holds at most r times :data:`PLACE_BYTES`, and
one row more, whatever the widths. For a narrow row, Spark only adds the lengths of its columns,
which it knows without looking at their content, and a number that says which rows are empty.

**Example.** Batches have four rows. The row y takes 100 KB, three times 32 KB and some more; x and
z are narrow::

    row       x   y   -   -   │   -   z
    #place    0   0   1   2   │   3   0

The first batch holds x and y, and the second one only z.

Capsules do the same: see :class:`watersmeet.spark.query.capsule.Pack`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from watersmeet.spark.query.inputs import quoted

#: The bytes of a place.
PLACE_BYTES = 32 << 10
#: The column that numbers the places of a row. The row is in place 0.
PLACE = "#place"


def with_places(df: DataFrame) -> DataFrame:
    """The rows, each followed by as many empty ones as it takes places beyond the first. If no row
    can be wide, they are as they were."""
    lengths = {
        field.name: length
        for field in df.schema
        if (length := _length(F.col(quoted(field.name)), field.dataType)) is not None
    }
    if not lengths:
        return df
    total = _sum(lengths.values())
    one, many = F.array(F.lit(0)), F.sequence(F.lit(0), (total / PLACE_BYTES).cast("int"))
    places = F.explode(F.when(total < PLACE_BYTES, one).otherwise(many))
    is_row = F.col(quoted(PLACE)) == 0
    return df.select("*", places.alias(PLACE)).select(
        *(
            F.when(is_row, F.col(quoted(name))).alias(name) if name in lengths else quoted(name)
            for name in df.columns
        ),
        quoted(PLACE),
    )


def without_places(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows themselves."""
    if PLACE not in rows.schema.names:
        return rows
    places = rows.column(PLACE)
    if pc.max(places).as_py():
        rows = rows.filter(pc.equal(places, 0))
    return rows.select([name for name in rows.schema.names if name != PLACE])


def _length(column: Column, kind: T.DataType) -> Column | None:
    """The bytes of a value, about; None if every value of the type is small."""
    if isinstance(kind, T.StringType | T.BinaryType | T.CharType | T.VarcharType):
        return _or_zero(F.octet_length(column))
    if isinstance(kind, T.StructType):
        fields = [_length(column.getField(field.name), field.dataType) for field in kind]
        lengths = [length for length in fields if length is not None]
        return _sum(lengths) if lengths else None
    if isinstance(kind, T.ArrayType):
        return _elements_length(column, kind.elementType)
    if isinstance(kind, T.MapType):
        keys = _elements_length(F.map_keys(column), kind.keyType)
        return keys + _elements_length(F.map_values(column), kind.valueType)
    if isinstance(kind, T.VariantType):
        return _or_zero(F.octet_length(F.to_json(column)))
    return None


def _elements_length(array: Column, kind: T.DataType) -> Column:
    """The bytes of an array's elements."""
    fixed = _or_zero(F.array_size(array)) * _fixed(kind)
    if _length(F.lit(None), kind) is None:
        return fixed

    def add(total: Column, element: Column) -> Column:
        length = _length(element, kind)
        assert length is not None, "the type decides whether there is a length"
        return total + length

    return fixed + _or_zero(F.aggregate(array, F.lit(0).cast("bigint"), add))


def _fixed(kind: T.DataType) -> int:
    """The bytes that every value of a type takes, at most."""
    return sum(_fixed(field.dataType) for field in kind) if isinstance(kind, T.StructType) else 16


def _or_zero(length: Column) -> Column:
    return F.coalesce(length.cast("bigint"), F.lit(0).cast("bigint"))


def _sum(lengths: Iterable[Column]) -> Column:
    return reduce(Column.__add__, lengths)
