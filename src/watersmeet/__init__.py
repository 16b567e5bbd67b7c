"""Watersmeet: stream joins for Apache Spark, from Python."""

from importlib.metadata import version

from watersmeet import errors
from watersmeet.api import Plan, Stream, join, plan, predicate, stream
from watersmeet.operators.base import Largest, StreamCounters
from watersmeet.operators.equi.counters import EquiStreamCounters
from watersmeet.spark.listener import Listener
from watersmeet.spark.metrics import EquiMetrics, StepMetrics, metrics
from watersmeet.spark.session import configure, local_session
from watersmeet.spec.budget import Budget
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning

__version__ = version("watersmeet")

__all__ = [
    "Budget",
    "EquiMetrics",
    "EquiStreamCounters",
    "Largest",
    "Listener",
    "Plan",
    "PredicateFunction",
    "Punctuation",
    "StepMetrics",
    "Stream",
    "StreamCounters",
    "Tuning",
    "configure",
    "errors",
    "join",
    "local_session",
    "metrics",
    "plan",
    "predicate",
    "stream",
]
