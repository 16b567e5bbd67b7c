"""Watersmeet: stream joins for Apache Spark, from Python."""

from importlib.metadata import version

from watersmeet import errors
from watersmeet.api import (
    Enrichment,
    Plan,
    Stream,
    enrich,
    join,
    plan,
    plan_enrich,
    predicate,
    stream,
)
from watersmeet.operators.base import JoinStreamCounters, Largest, StreamCounters
from watersmeet.operators.equi.counters import EquiStreamCounters
from watersmeet.spark.listener import Listener
from watersmeet.spark.metrics import (
    EnrichMetrics,
    EquiMetrics,
    JoinMetrics,
    RingMetrics,
    StepMetrics,
    metrics,
)
from watersmeet.spark.relocation import relocate
from watersmeet.spark.session import configure, local_session
from watersmeet.spec.budget import Budget
from watersmeet.spec.enrich import EnrichTuning
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning

__version__ = version("watersmeet")

__all__ = [
    "Budget",
    "EnrichMetrics",
    "EnrichTuning",
    "Enrichment",
    "EquiMetrics",
    "EquiStreamCounters",
    "JoinMetrics",
    "JoinStreamCounters",
    "Largest",
    "Listener",
    "Plan",
    "PredicateFunction",
    "Punctuation",
    "RingMetrics",
    "StepMetrics",
    "Stream",
    "StreamCounters",
    "Tuning",
    "configure",
    "enrich",
    "errors",
    "join",
    "local_session",
    "metrics",
    "plan",
    "plan_enrich",
    "predicate",
    "relocate",
    "stream",
]
