"""Watersmeet: stream joins for Apache Spark, from Python."""

from watersmeet import errors
from watersmeet.api.enrich import Enrichment, enrich, plan_enrich
from watersmeet.api.joins import Plan, join, plan
from watersmeet.api.streams import Stream, predicate, stream
from watersmeet.joins.enrich.counters import EnrichMetrics
from watersmeet.joins.enrich.spec import EnrichTuning
from watersmeet.joins.equi.counters import EquiMetrics, EquiStreamCounters
from watersmeet.joins.metrics import JoinMetrics, StepMetrics
from watersmeet.joins.operator import JoinStreamCounters, Largest, StreamCounters
from watersmeet.joins.ring.counters import RingMetrics
from watersmeet.spark.checkpoint.relocation import relocate
from watersmeet.spark.query.metrics import Listener, metrics
from watersmeet.spark.session.session import configure, local_session
from watersmeet.spec.budget import Budget
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import Punctuation
from watersmeet.spec.tuning import Tuning

# It is written here, not asked of an installed package: in a zip for --py-files there is none.
__version__ = "0.1.0"

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
