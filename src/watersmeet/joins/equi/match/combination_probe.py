"""Rows of one stream probe the windows of all others, and find where their matches are.

In each segment a row finds a range of the index: so the number of its matches is known before any
of them is touched. Probing rows are numbered in the order of their own index: so the codes and
times that they search for are in order too.

**Probe order.** A row without a match in one window makes no result, and probes no further window.
So the most selective window comes first: the one in which the smallest share of rows finds a match
(multiway paper, section 3.1). These *match rates* are measured: every few micro-batches, a sample
of a stream's new rows probes all windows. A probe order changes when another one is clearly
cheaper.

**Example.** 1,000 new rows of stream a come. Half of them find a match in the window of b, and a
hundredth in that of c::

    b, then c    1,000 rows probe b, the 500 with a match there probe c    1,500 probes
    c, then b    1,000 rows probe c, the 10 with a match there probe b     1,010 probes

The second order takes less than nine tenths of the first: new rows of a probe c first from now on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.cost.multiway import most_selective_first, probes
from watersmeet.joins.equi.context import StepContext
from watersmeet.joins.equi.flow import Flow
from watersmeet.rows.columns import Ints
from watersmeet.segments.index import Index
from watersmeet.segments.probe import Searchers, search
from watersmeet.state.manifest import Entry
from watersmeet.state.window import Window

#: A stream's rows are sampled in its first micro-batch, and in every EVERY-th after that.
EVERY = 8
#: How many rows a sample has.
SAMPLE = 512
#: Another probe order must cost less than this share of the present one's cost.
CLEARLY = 0.9


@dataclass(frozen=True)
class SegmentMatches:
    """Where new rows have matches in one segment: row ``rows[j]`` has them at the places ``low[j]``
    to before ``high[j]`` of the segment's index. If the segment is plain, ``built`` is the index
    that was built for the search."""

    entry: Entry
    built: Index | None
    rows: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True)
class WindowMatches:
    """Where new rows have matches in one stream's window, and ``counts``: how many each has."""

    stream: int
    window: Window
    segments: list[SegmentMatches]
    counts: Ints


class CombinationProbe:
    """Probes the windows of three and more streams; lives for a step.

    ``through``: in a left join, every stream is matched with this one."""

    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._lengths = [stream.window for stream in context.layout.inputs]
        self.through = 0 if context.layout.how.star else None

    def search(self, driver: int, index: Index) -> tuple[list[WindowMatches], Ints]:
        """The matches of new rows in the other windows, and which rows have a match in each."""
        count = len(index.codes)
        every = Searchers(index.codes, index.times, None)
        matching, windows = np.arange(count), []
        for stream in self._probe_order(driver, index):
            searchers = every if len(matching) == count else every.only(matching)
            found = self._search_window(driver, stream, searchers, count)
            windows.append(found)
            matching = matching[found.counts[matching] > 0]
            if not len(matching):
                break
        return windows, matching

    def search_all(self, driver: int, index: Index) -> list[WindowMatches]:
        """The matches of all rows in every other window, also of rows that lack one somewhere."""
        every = Searchers(index.codes, index.times, None)
        others = [stream for stream in range(len(self._lengths)) if stream != driver]
        return [self._search_window(driver, other, every, len(index.codes)) for other in others]

    def _probe_order(self, driver: int, index: Index) -> Sequence[int]:
        """In which order to probe the other windows. Match rates are measured now and then."""
        state = self._context.state
        flow = state.flows[driver]
        stored = [bool(window.entries) for window in state.windows]
        if is_due(flow) and all(stored[:driver] + stored[driver + 1 :]):
            flow.sample_match_rates(self._match_rates(driver, index))
            notes = revise(driver, flow, self._context.names, through=self.through)
            self._context.counters.notes += notes
        return flow.probe_order or self._context.layout.policy.probe_orders[driver]

    def _match_rates(self, driver: int, index: Index) -> list[float]:
        """The share of new rows that have a match in each stream, from a sample of them."""
        count = len(index.codes)
        chosen = np.arange(0, count, max(1, count // SAMPLE))
        sample = Searchers(index.codes[chosen], index.times[chosen], None)
        matched = [
            np.ones(1)
            if stream == driver
            else self._search_window(driver, stream, sample, len(chosen)).counts > 0
            for stream in range(len(self._lengths))
        ]
        return [float(some.mean()) for some in matched]

    def _search_window(
        self, driver: int, stream: int, searchers: Searchers, count: int
    ) -> WindowMatches:
        """The matches of some of ``count`` new rows in one window."""
        window = self._context.state.windows[stream]
        before, after = self._reach(driver, stream)
        counts = np.zeros(count, dtype=np.int64)
        segments: list[SegmentMatches] = []
        if not len(searchers.codes):
            return WindowMatches(stream, window, segments, counts)
        earliest = None if before is None else int(searchers.times.min()) - before
        latest = None if after is None else int(searchers.times.max()) + after
        for entry in window.overlapping(earliest, latest):
            stored = window.open(entry)
            ranges, index = search(searchers, stored, before, after)
            self._context.counters.probes += len(searchers.codes)
            if not len(ranges.low):
                continue
            rows = np.asarray(ranges.searchers, dtype=np.int64)
            counts[rows] += ranges.high - ranges.low  # each row has one range at most
            built = None if stored.has_index else index
            segments.append(SegmentMatches(entry, built, rows, ranges.low, ranges.high))
        return WindowMatches(stream, window, segments, counts)

    def _reach(self, driver: int, stream: int) -> tuple[int | None, int | None]:
        """How much earlier and how much later than a driver a row of a stream may be."""
        own, other = self._lengths[driver], self._lengths[stream]
        if own is None or other is None:
            return None, None
        if self.through is None or self.through in (driver, stream):
            return other, own
        by = self._lengths[self.through] or 0
        return other + by, own + by


def is_due(flow: Flow) -> bool:
    """Should the stream's new rows be sampled now? They are, at most once in a micro-batch."""
    return flow.sampled is None or (flow.steps % EVERY == 0 and flow.sampled != flow.steps)


def revise(
    driver: int, flow: Flow, names: Sequence[str], *, through: int | None = None
) -> list[str]:
    """Change the probe order of a stream's new rows if another one is clearly cheaper; a note
    that says what changed, and why."""
    rates = flow.match_rates
    best = most_selective_first(driver, rates, through=through)
    if best == flow.probe_order:
        return []
    if flow.probe_order and probes(best, rates) > CLEARLY * probes(flow.probe_order, rates):
        return []
    flow.probe_order = best
    windows = ", then ".join(f"{names[i]} (matched by {rates[i]:.1%})" for i in best)
    return [f"new rows of {names[driver]} probe {windows} from now on"]
