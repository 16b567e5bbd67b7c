"""Watersmeet: stream joins for Apache Spark, from Python."""

from importlib.metadata import version

from watersmeet import errors
from watersmeet.api import Plan, Stream, join, plan, stream
from watersmeet.spark.metrics import StepMetrics, metrics
from watersmeet.spark.session import configure, local_session
from watersmeet.spec import Budget, Punctuation

__version__ = version("watersmeet")

__all__ = [
    "Budget",
    "Plan",
    "Punctuation",
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
