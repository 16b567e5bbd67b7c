"""The records of a query as a table: in a notebook, and as a DataFrame of pandas."""

from __future__ import annotations

import pandas as pd

from watersmeet.joins.metrics import StepMetrics

#: A notebook shows so many records, the last ones.
_SHOWN = 20


class MetricsTable(list[StepMetrics]):
    """Records, oldest first: a list that a notebook shows as a table."""

    def to_pandas(self) -> pd.DataFrame:
        """A row for each record, with a column for each number. Those of a stream are called
        ``views.rows``, and so on; what a record does not count is missing."""
        frame = pd.DataFrame([record.flat() for record in self])
        for name in ("timestamp", "watermark"):
            if name in frame:
                frame[name] = pd.to_datetime(frame[name], utc=True)
        return frame

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        """The last records, with the columns in which any has a number."""
        frame = self.to_pandas()
        said = [name for name in frame if any(map(_says, frame[name]))]
        shown = frame[said].tail(_SHOWN).to_html(index=False, na_rep="")
        left = len(self) - _SHOWN
        return f"{shown}\n<p>and {left:,} before</p>" if left > 0 else shown


def _says(value: object) -> bool:
    """Is there anything to show?"""
    return not pd.isna(value) and value not in (0, "")
