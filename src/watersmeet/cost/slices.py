"""Over how many slices a join without a key should spread its rows: equations 2 to 6 of the ring
paper (:mod:`watersmeet.cost.ring`), with measurements of this machine and declarations about the
streams.

Drivers probe different windows. A figure of the join is the mean over its drivers, weighted by
their rates. In Spark a hop is a stage. Its fixed cost, divided by the rows of a micro-batch of a
second, is T_n.

T_i and T_p, the times to store a row and to remove it, are assumed to be 0. Rows are stored
together and removed a segment at a time. The time for one row depends on how many come together and
on how well they compress, and is not known when a join is planned. It is as long as some tens or
hundreds of the cheapest comparisons, in one slice only. So it matters for small windows only.

**Example.** Two streams bring 10 rows a second and store 500 each. To compare a pair takes 1 us, to
send a row to a slice 100 us. One slice takes 500 us to compare a row, and 100 us to receive it. In
eight slices, each compares for 62.5 us and receives for 100 us: 3.69 times the output of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from watersmeet.cost.hop_order import UNKNOWN_SELECTIVITY, Streams
from watersmeet.cost.ring import Times, bandwidth, centralized, latency, sliced

#: Another number of slices is used or noted only if it is better by this factor: the model is based
#: on measurements that vary.
CLEARLY = 1.5


@dataclass(frozen=True)
class SliceWeights:
    """Nanoseconds, measured on the machine (:mod:`watersmeet.cost.calibration`).

    ``compare``  for a pair, with a predicate as cheap as one can be
    ``send``     for a row, to be packed and unpacked
    ``byte``     for each byte of a row that is sent
    ``step``     for a step without rows
    """

    compare: float
    send: float
    byte: float
    step: float


@dataclass(frozen=True)
class DriverLoad:
    """New rows of a stream, ``rate`` a second: the number of rows in each window that they probe,
    and the share of these rows that matches."""

    rate: float
    windows: tuple[float, ...]
    selectivities: tuple[float, ...]


@dataclass(frozen=True)
class SliceModel:
    """What a join costs for any number of slices. ``row_bytes`` is the size of a row that is sent.

    >>> times = Times(T_j=1e-6, T_s=1e-4, T_n=1e-4)
    >>> model = SliceModel((DriverLoad(10, (500,), (0.01,)),) * 2, times, 60)
    >>> [round(model.output(N), 2) for N in (1, 2, 4, 8)]
    [1.0, 1.71, 2.67, 3.69]
    >>> model.best("throughput", most=8), model.best("early", most=8)
    (8, 2)
    """

    drivers: tuple[DriverLoad, ...]
    times: Times
    row_bytes: float

    @classmethod
    def of(
        cls,
        streams: Streams,
        order: Sequence[int],
        weights: SliceWeights,
        *,
        comparing: float,
        row_bytes: float,
    ) -> SliceModel:
        """The model of streams that are met in an order, where it takes ``comparing`` seconds to
        compare a new row with a stored one."""
        times = Times(
            T_j=comparing,
            T_s=(weights.send + weights.byte * row_bytes) / 1e9,
            T_n=weights.step / 1e9 / max(1.0, sum(streams.rates)),
        )
        drivers = tuple(
            DriverLoad(rate, *streams.steps(driver, order))
            for driver, rate in enumerate(streams.rates)
            if rate
        )
        return cls(drivers, times, row_bytes)

    def output(self, slices: int) -> float:
        """How many times the output of one slice. Equation 4."""
        alone = self._mean(lambda d: sliced(d.windows, d.selectivities, self.times, 1))
        together = self._mean(lambda d: sliced(d.windows, d.selectivities, self.times, slices))
        return slices * alone / together

    def latency(self, slices: int) -> float:
        """Seconds from a new row to its results. Equation 5."""
        return self._mean(lambda d: latency(d.windows, d.selectivities, self.times, slices))

    def bandwidth(self, slices: int) -> float:
        """Bytes a second that a slice must receive so that it never waits. Equation 6."""
        return max(
            bandwidth(self.row_bytes, self.times.T_j, driver.windows, slices)
            for driver in self.drivers
        )

    def work(self) -> float:
        """Seconds of one core for one new row, in one slice. Equation 1."""
        return self._mean(lambda d: centralized(d.windows, d.selectivities, self.times))

    def best(self, goal: str, *, most: int, gain: float = 0.05) -> int:
        """The number of slices for a goal: for ``"early"`` the one with the shortest latency;
        otherwise the least one from which one more slice adds less than ``gain`` of the output of a
        single slice (section 5.2)."""
        if goal == "early":
            return min(range(1, most + 1), key=self.latency)
        for slices in range(1, most):
            if self.output(slices + 1) - self.output(slices) < gain:
                return slices
        return most

    def usual(self, goal: str, *, most: int) -> int:
        """The number of slices if nobody asks for one. Each further slice adds to the output, so
        usually it is all of them. For ``"early"`` it is the number with the shortest latency, if
        that is clearly shorter.

        >>> times = Times(T_j=1e-6, T_s=1e-4, T_n=1e-4)
        >>> model = SliceModel((DriverLoad(10, (500,), (0.01,)),), times, 60)
        >>> model.usual("throughput", most=64), model.usual("early", most=64)
        (64, 2)
        """
        best = self.best(goal, most=most)
        if goal == "early" and self.gain(goal, most, best) >= CLEARLY:
            return best
        return most

    def gain(self, goal: str, before: int, after: int) -> float:
        """How many times better another number of slices is for a goal."""
        if goal == "early":
            return self.latency(before) / self.latency(after)
        return self.output(after) / self.output(before)

    def _mean(self, figure: Callable[[DriverLoad], float]) -> float:
        total = sum(driver.rate for driver in self.drivers)
        return sum(driver.rate * figure(driver) for driver in self.drivers) / total


def compare_seconds(
    compare: float, costs: Sequence[float], *, searched: int = 0, share: float = UNKNOWN_SELECTIVITY
) -> float:
    """T_j as it is assumed before anything is measured: seconds to compare a new row with a stored
    one. It takes ``compare`` at least. ``costs`` are the declared costs of functions; each function
    sees the pairs that the cheaper ones let through. Rows are searched by ``searched`` conditions.
    Each function and each of these conditions lets ``share`` through.

    >>> compare_seconds(1e-8, []), round(compare_seconds(1e-8, [50e-6, 1e-6]), 9)
    (1e-08, 6e-06)
    >>> round(compare_seconds(1e-8, [50e-6], searched=1), 9)
    5e-06
    """
    functions = sum(cost * share**number for number, cost in enumerate(sorted(costs)))
    return max(compare, functions) * share**searched
