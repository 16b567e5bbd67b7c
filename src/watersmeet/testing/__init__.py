"""Drive a join by hand, batch by batch, with no Spark.

:class:`LocalJoin` runs the very operator that runs on Spark, over Arrow tables,
with the watermark that Spark would have. Use it to test what a join gives you
for data of your own, late rows and silences included, in milliseconds. :class:`LocalRun` does so
for any operator, or a chain of them.

>>> import datetime, pyarrow as pa
>>> def at(second): return datetime.datetime(2024, 1, 1, 0, 0, second, tzinfo=datetime.UTC)
>>> views = pa.table({"ad": [1, 2], "seen": [at(0), at(1)]})
>>> clicks = pa.table({"ad": [1], "clicked": [at(5)]})
>>> join = LocalJoin(
...     {"views": LocalStream(views.schema, time="seen", delay="0 seconds"),
...      "clicks": LocalStream(clicks.schema, time="clicked", delay="0 seconds")},
...     on="ad", within="10 seconds", how="left")
>>> join.batch(views=views).num_rows
0
>>> join.batch(clicks=clicks).column("ad").to_pylist()
[1]
>>> join.finish().column("ad").to_pylist()
[2]
"""

from watersmeet.testing.backend import LocalBackend
from watersmeet.testing.enrich import LocalEnrich
from watersmeet.testing.joins import LocalJoin
from watersmeet.testing.run import LocalInput, LocalRun
from watersmeet.testing.streams import LocalStream

__all__ = ["LocalBackend", "LocalEnrich", "LocalInput", "LocalJoin", "LocalRun", "LocalStream"]
