"""Three ways to spread a join on any predicate over nodes, as discrete-event simulations.

A node does one thing after the other. What it gets waits in its queue, in the order of arrival. To
take in rows costs T_s each, to compare a pair T_j, and what it sends arrives T_n later. Rows come
as a Poisson process. Which pairs match is drawn at random: each with the same probability.

=====  ==========================================================================
PSP    The paper's ring. Every stored row is in one slice, slices are even (its
       count-based smoothing). New rows and intermediate results go round the
       ring once, and are compared with the next stream's slice at every node.
       Rows are processed interleaved (PSP-I).
ATR    Aligned tuple routing (see routing.py). Each segment of time has one node.
       Rows of the master go to the node of their segment, those of the others to
       the nodes of all segments that are within a window of them.
CTR    Coordinated tuple routing. Each row is stored in several nodes. A new row,
       and then its intermediate results, go to as few nodes as hold one copy of
       everything. One segment is processed after the other.
=====  ==========================================================================

Rows that make no results have no response time. Each result has one: from the arrival of its
newest row until it is made.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from experiments.ring.routing import first_and_last
from watersmeet.cost.ring import Times


@dataclass(frozen=True)
class Load:
    """Streams of one rate, each with a window of the same length; ``later`` is the rate from
    the middle of the run on."""

    streams: int
    rate: float
    window: float
    selectivity: float
    seconds: float
    later: float | None = None

    def arrivals(self, random: np.random.Generator) -> list[float]:
        """The times at which rows come, of all streams together."""
        half = self.seconds / 2
        rates = (self.rate, self.later or self.rate)
        times = []
        for number, rate in enumerate(rates):
            count = random.poisson(rate * self.streams * half)
            times.append(number * half + np.sort(random.random(count)) * half)
        return list(np.concatenate(times))

    def stored(self, time: float) -> float:
        """Rows in one stream's window."""
        return self.came(time - self.window, time)

    def came(self, start: float, end: float) -> float:
        """Rows of one stream that come between these times."""
        return max(self._until(end) - self._until(start), 0.0)

    def _until(self, time: float) -> float:
        half = self.seconds / 2
        before, after = min(max(time, 0.0), half), max(time - half, 0.0)
        return self.rate * before + (self.later or self.rate) * after


@dataclass(frozen=True)
class Run:
    """What a simulation gives: results by when their newest row came and by how long they took;
    the rows that the windows of all nodes have, and, for ATR, those that wait to be worked off,
    both on average."""

    arrived: np.ndarray
    response: np.ndarray
    results: np.ndarray
    stored: float
    waiting: float = 0.0

    @property
    def mean(self) -> float:
        """The mean response time of all results."""
        return self._mean(np.ones(len(self.results), dtype=bool))

    def mean_between(self, start: float, end: float) -> float:
        """That of the results whose newest row came in this time."""
        return self._mean((self.arrived >= start) & (self.arrived < end))

    def _mean(self, which: np.ndarray) -> float:
        counts = self.results[which]
        return float((self.response[which] * counts).sum() / counts.sum())


class Record:
    """Collects results."""

    def __init__(self) -> None:
        self._made: list[tuple[float, float, int]] = []

    def made(self, arrived: float, finished: float, results: int) -> None:
        if results:
            self._made.append((arrived, finished - arrived, results))

    def run(self, stored: float, waiting: float = 0.0) -> Run:
        arrived, response, results = map(np.array, zip(*self._made, strict=True))
        return Run(arrived, response, results, stored, waiting)


@dataclass(frozen=True)
class Message:
    """Rows on their way round the ring: a new row (step 0), or intermediate results of one.
    ``left`` is how many nodes they have to visit, this one too."""

    arrived: float
    step: int
    rows: int
    left: int


class Events:
    """What reaches a node, in the order of time: new rows at the head, and what nodes send."""

    def __init__(self, arrivals: Sequence[tuple[float, Message]]) -> None:
        self._numbers = itertools.count()
        self._queue = [(time, next(self._numbers), 0, message) for time, message in arrivals]
        heapq.heapify(self._queue)

    def send(self, time: float, node: int, message: Message) -> None:
        heapq.heappush(self._queue, (time, next(self._numbers), node, message))

    def __iter__(self) -> Iterator[tuple[float, int, Message]]:
        while self._queue:
            time, _, node, message = heapq.heappop(self._queue)
            yield time, node, message


def psp(load: Load, times: Times, nodes: int, *, seed: int, later_nodes: int | None = None) -> Run:
    """The ring. With ``later_nodes`` it has that many from the middle of the run on, the rows
    stored before staying where they are (the paper's passive adjustment)."""
    random = np.random.default_rng(seed)
    record, free = Record(), [0.0] * max(nodes, later_nodes or 0)

    def length(time: float) -> int:
        return nodes if later_nodes is None or time < load.seconds / 2 else later_nodes

    def slice_rows(node: int, time: float) -> float:
        """A slice of the rows that came before the change, and one of those that came after."""
        if later_nodes is None or time < load.seconds / 2:
            return load.stored(time) / nodes
        middle = load.seconds / 2
        old = load.rate * max(load.window - (time - middle), 0.0)
        new = load.stored(time) - old
        return (old / nodes if node < nodes else 0.0) + new / later_nodes

    new_rows = load.arrivals(random)
    events = Events([(time, Message(time, 0, 1, length(time))) for time in new_rows])
    for time, node, message in events:
        taken = max(time, free[node]) + times.T_s * message.rows
        if message.left > 1:
            beyond = (node + 1) % length(message.arrived)
            events.send(taken + times.T_n, beyond, replace(message, left=message.left - 1))
        compared = message.rows * slice_rows(node, message.arrived)
        free[node] = taken + times.T_j * compared
        matches = int(random.binomial(round(compared), load.selectivity))
        if message.step == load.streams - 2:
            record.made(message.arrived, free[node], matches)
        elif matches:
            made = Message(message.arrived, message.step + 1, matches, length(message.arrived))
            events.send(free[node], node, made)
    return record.run(load.streams * load.rate * load.window)


def atr(load: Load, times: Times, nodes: int, segment: float, *, seed: int) -> Run:
    """Aligned tuple routing: segment number s is the work of node s mod N, and every row is stored
    for a window at each node that gets it.

    A slave's row meets only those rows of the master that are in the segment. It is compared with
    these first, so nothing is compared twice."""
    random = np.random.default_rng(seed)
    record, free = Record(), [0.0] * nodes
    copies, waited = 0, 0.0
    for time in load.arrivals(random):
        is_master = random.integers(load.streams) == 0
        first, last = first_and_last(time, 0.0 if is_master else load.window, segment)
        for number in range(first, last + 1):
            windows = [load.stored(time)] * (load.streams - 1)
            if not is_master:
                begin, end = number * segment, (number + 1) * segment
                windows[0] = load.came(max(time - load.window, begin), min(time, end))
            node = number % nodes
            finished, matches = max(time + times.T_n, free[node]) + times.T_s, 1
            for window in windows:
                compared = matches * window
                finished += times.T_j * compared
                matches = int(random.binomial(round(compared), load.selectivity))
            record.made(time, finished, matches)
            free[node] = finished
            copies += 1
            waited += finished - time
    return record.run(copies * load.window / load.seconds, waited / load.seconds)


def ctr(load: Load, times: Times, nodes: int, copies: int, *, seed: int) -> Run:
    """Coordinated tuple routing: as few nodes as hold a copy of everything, N / copies, share
    the work for a new row; the next one waits for its end."""
    random = np.random.default_rng(seed)
    record, free = Record(), 0.0
    cover = max(nodes // copies, 1)
    for time in load.arrivals(random):
        finished, matches = max(time, free), 1
        for _ in range(load.streams - 1):
            compared = matches * load.stored(time)
            # All nodes of the cover take the rows in and compare them at the same time.
            finished += times.T_n + times.T_s * matches + times.T_j * compared / cover
            matches = int(random.binomial(round(compared), load.selectivity))
        record.made(time, finished, matches)
        free = finished
    return record.run(copies * load.streams * load.rate * load.window)
