"""Spark's schemas as Arrow's, in canonical types."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from watersmeet.errors import UnsupportedTypeError
from watersmeet.rows.types import canonical_schema

#: Spark 4.1 and 4.2 use UTC without being told.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)


def arrow_schema(schema: T.StructType, stream: str) -> pa.Schema:
    """The canonical Arrow schema of a stream's rows."""
    fields = []
    for field in schema:
        try:
            fields.append(to_arrow_schema(T.StructType([field]), **_IN_UTC).field(0))
        except (PySparkException, TypeError) as error:
            raise UnsupportedTypeError(
                f"column {field.name!r} of stream {stream!r} is of type "
                f"{field.dataType.simpleString()}, which Spark cannot hand to Python: "
                "cast it, or leave it out with .drop()"
            ) from error
    return canonical_schema(pa.schema(fields))
