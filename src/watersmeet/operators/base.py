"""What all operators share: the counters of a step, and the end of time."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Later than any time: the watermark at the end of a batch run.
END_OF_TIME = 2**62


@dataclass
class StreamCounters:
    """What one step did with one stream's rows, and what is stored of it now."""

    rows: int = 0
    late: int = 0
    shed: int = 0
    unmatchable: int = 0
    violations: int = 0
    punctuations: int = 0
    propagated: int = 0
    dropped: int = 0
    purged: int = 0
    expired: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    segments: int = 0
    indexed: int = 0


@dataclass(frozen=True)
class Largest:
    """The most results that one new row has made: of which stream, with which key."""

    fanout: int = 0
    stream: str = ""
    key: str = ""


@dataclass
class Counters:
    """What one step did, in all and for each stream.

    ``full_results`` is an estimate of what the results would have been had nothing been
    shed; ``capped`` counts new rows whose results were cut short; ``notes`` say what was
    decided, and why. ``deferred`` counts the probes of stored segments that were put off,
    ``owed`` those that are still to be done."""

    streams: list[StreamCounters]
    notes: list[str] = field(default_factory=list)
    largest: Largest = Largest()
    results: int = 0
    full_results: int = 0
    capped: int = 0
    probes: int = 0
    deferred: int = 0
    owed: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    step_ms: int = 0
    steps: int = field(default=1)

    @classmethod
    def zero(cls, streams: int) -> Counters:
        return cls([StreamCounters() for _ in range(streams)])
