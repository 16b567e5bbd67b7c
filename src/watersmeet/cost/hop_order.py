"""In which order a join without a key meets its streams: how many partial results that makes.

Each stream is a hop. New rows of a stream, the *driver*, probe the hops of all other streams, in
one order for all drivers. In the symbols of the ring paper (section 4.3), a second brings

    λ_i · Π λ_k W_k · Π S

partial results of driver i with one row of each stream k that it has met: the product of its rate,
of the rows that are stored of those streams, and of the selectivities of the conditions that
compare only these streams. If no condition connects a stream with those met before, it is a *cross
product*: it multiplies the partial results and rejects none.

**Example.** Streams a, b and c bring 10 rows a second and store 100 each. Two conditions, between a
and b and between b and c, let a hundredth through each::

    order     hop 1: a second                              hop 2: a second
    a, b, c   b with a: 10 * 100 * 0.01 = 10               a with b: 10 * 100 * 0.01 = 10
              c with a: 10 * 100 = 1,000 (cross product)
    b, a, c   a with b: 10,  c with b: 10                  b with a: 10

New rows of c that have met a and b are results by then, and do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

#: The assumed selectivity of a condition that has not been measured.
UNKNOWN_SELECTIVITY = 0.1


@dataclass(frozen=True)
class Link:
    """A condition: the streams that it compares, and the share of their combinations that satisfy
    it."""

    streams: frozenset[int]
    selectivity: float


@dataclass(frozen=True)
class CrossProduct:
    """New rows of ``driver`` meet ``stream``, but no condition connects it with the streams that
    they have met before. They make so many ``pairs`` a second."""

    driver: int
    stream: int
    pairs: float


@dataclass(frozen=True)
class Streams:
    """The streams of a join: for each, the new rows a second (``rates``) and the rows that are
    ``stored``; and the conditions between them (``links``).

    >>> near = [Link(frozenset({0, 1}), 0.01), Link(frozenset({1, 2}), 0.01)]
    >>> chain = Streams((10.0, 10.0, 10.0), (100.0, 100.0, 100.0), tuple(near))
    >>> chain.best_order()
    (1, 0, 2)
    >>> chain.partial_results((1, 0, 2)), chain.partial_results((0, 1, 2))
    ((20.0, 10.0), (1010.0, 10.0))
    """

    rates: tuple[float, ...]
    stored: tuple[float, ...]
    links: tuple[Link, ...]

    def partial_results(self, order: Sequence[int]) -> tuple[float, ...]:
        """How many partial results a second each hop adds, except the last one."""
        return tuple(
            self._added(frozenset(order[:place]), stream) for place, stream in enumerate(order[:-1])
        )

    def steps(
        self, driver: int, order: Sequence[int]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The windows that a driver's rows probe, in an order of the hops: the rows in each, and
        the share of pairs that match there."""
        met, windows, shares = frozenset({driver}), [], []
        for stream in order:
            if stream == driver:
                continue
            before, met = self._combinations(driver, met), met | {stream}
            windows.append(self.stored[stream])
            pairs = before * self.stored[stream]
            shares.append(self._combinations(driver, met) / pairs if pairs else 0.0)
        return tuple(windows), tuple(shares)

    def cross_products(self, order: Sequence[int]) -> Iterator[CrossProduct]:
        """The cross products that an order makes."""
        for place, stream in enumerate(order):
            for driver, met in self._drivers(frozenset(order[:place]), stream):
                if not self._connected(met, stream):
                    pairs = self._combinations(driver, met) * self.stored[stream]
                    yield CrossProduct(driver, stream, pairs)

    def best_order(self, *, cross_products: bool = False) -> tuple[int, ...]:
        """Of the orders with fewest cross products, the one that makes fewest partial results. With
        ``cross_products``, these do not matter: then it is the best of all orders."""
        everything = frozenset(range(len(self.rates)))
        best: dict[frozenset[int], tuple[tuple[float, float], tuple[int, ...]]] = {
            frozenset(): ((0.0, 0.0), ())
        }
        # What a hop adds depends on the streams before it, not on their order.
        for size in range(len(everything)):
            for met in [known for known in best if len(known) == size]:
                (crosses, made), order = best[met]
                for stream in sorted(everything - met):
                    count = 0 if cross_products else self._crosses(met, stream)
                    cost = crosses + count, made + self._added(met, stream)
                    following = met | {stream}
                    if following not in best or cost < best[following][0]:
                        best[following] = cost, (*order, stream)
        return best[everything][1]

    def _drivers(self, before: frozenset[int], stream: int) -> Iterator[tuple[int, frozenset[int]]]:
        """The drivers that probe the hop of a stream, with the streams that they have met then."""
        for driver in range(len(self.rates)):
            if driver != stream:
                yield driver, before | {driver}

    def _added(self, before: frozenset[int], stream: int) -> float:
        """The partial results that a hop makes; complete ones are results."""
        return sum(
            self._combinations(driver, met | {stream})
            for driver, met in self._drivers(before, stream)
            if len(met) + 1 < len(self.rates)
        )

    def _crosses(self, before: frozenset[int], stream: int) -> int:
        return sum(not self._connected(met, stream) for _, met in self._drivers(before, stream))

    def _connected(self, met: Collection[int], stream: int) -> bool:
        """Does a condition compare a stream with some that have met, and only with these?"""
        together = frozenset((*met, stream))
        return any(
            stream in link.streams and link.streams <= together and len(link.streams) > 1
            for link in self.links
        )

    def _combinations(self, driver: int, met: frozenset[int]) -> float:
        """New combinations a second of the driver's rows with one of each other stream."""
        made = self.rates[driver]
        for stream in met - {driver}:
            made *= self.stored[stream]
        for link in self.links:
            if link.streams <= met:
                made *= link.selectivity
        return made
