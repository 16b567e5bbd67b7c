"""Arrow rows as the pandas DataFrames that Spark's stateful operator must return.

Spark turns a returned DataFrame into Arrow, column by column: it applies converters
to the values (in Python, value by value, where a type is nested) and then asks the
column for its Arrow array. Our columns are Arrow arrays already, in their final
types. An :class:`ArrowColumn` says so: nothing is there to convert, and the array is
handed over as it is. So results leave the operator without a copy, and without a
second Python worker behind it to open them.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.extensions import ExtensionArray, ExtensionDtype

from watersmeet.rows.types import in_type

if TYPE_CHECKING:
    from pyspark.sql.pandas._typing import DataFrameLike


def to_frame(rows: pa.RecordBatch) -> DataFrameLike:
    """The same rows as a DataFrame that Spark's conversion leaves untouched."""
    columns = {name: ArrowColumn(rows.column(name)) for name in rows.schema.names}
    return pd.DataFrame(columns, copy=False)


class ArrowDtype(ExtensionDtype):  # type: ignore[misc]
    """The type of an :class:`ArrowColumn`: whatever Arrow's type is."""

    name = "watersmeet.arrow"
    type = object
    kind = "O"

    @classmethod
    def construct_array_type(cls) -> builtins.type[ArrowColumn]:
        return ArrowColumn


class ArrowColumn(ExtensionArray):  # type: ignore[misc]
    """An Arrow array on its way through a DataFrame to Spark."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """The array, in Spark's type: its own but for a time zone's name, and for nested fields
        that are NOT NULL."""
        return self._array if type is None else in_type(self._array, type)

    def map(self, mapper: Any, na_action: Any = None) -> ArrowColumn:
        """The column itself: Spark maps its converters over columns of nested types,
        and these values have been converted."""
        return self

    @property
    def dtype(self) -> ArrowDtype:
        return ArrowDtype()

    @property
    def nbytes(self) -> int:
        size: int = self._array.nbytes
        return size

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return ArrowColumn(self._array[item])
        return self._array[int(item)].as_py()

    def isna(self) -> np.ndarray:
        missing: np.ndarray = self._array.is_null().to_numpy(zero_copy_only=False)
        return missing

    def copy(self) -> ArrowColumn:
        return self
