"""Watersmeet: stream joins for Apache Spark, from Python."""

from importlib.metadata import version

from watersmeet import errors
from watersmeet.api import Plan, Stream, join, plan, stream
from watersmeet.spark.metrics import StepMetrics, metrics
from watersmeet.spark.session import configure, local_session

__version__ = version("watersmeet")

__all__ = [
    "Plan",
    "StepMetrics",
    "Stream",
    "configure",
    "errors",
    "join",
    "local_session",
    "metrics",
    "plan",
    "stream",
]
