"""The semi-stream join as a family. It has a call of its own, ``wm.enrich``."""

from __future__ import annotations

from watersmeet.joins.enrich.counters import EnrichCounters, EnrichMetrics
from watersmeet.joins.family import Family
from watersmeet.joins.operator import StreamCounters

ENRICH = Family(EnrichCounters.family, EnrichMetrics, StreamCounters)
