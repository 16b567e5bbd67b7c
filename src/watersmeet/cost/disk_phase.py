"""How a step of the disk phase reads the table: scan or seek, and how much of it.

The semi-stream paper assumes no index and scans. Here the table is staged in the order of its
keys, in partitions, so a step may also seek: find the wanted keys in a partition, and touch
nothing else of it. To scan is to read the whole partition first, in one go.

    seek        keys x c_seek
    scan        bytes x c_read + keys x c_hit

If the system has the partition in memory, c_seek is about c_hit, and both ways take about as long.
If not, a key that is sought costs several reads, and a scan is cheaper for more than a few keys.

For example, to seek a key takes 100 us, to find it in a partition that was read 1 us, and to read a
byte 1 ns. A partition of 32 MB is read in 32 ms. So up to 323 keys are sought in it; for more keys
it is scanned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from watersmeet.cost.averages import moving_average
from watersmeet.cost.enrich import memory
from watersmeet.rows.columns import Bools
from watersmeet.rows.columns import Ints as Counts

#: The weight of a new measurement in the running average, if it is above the average, and if it is
#: below. High ones weigh less: usually something other than the disk has slowed the process down.
_NEW, _NEW_BELOW = 0.2, 0.5
#: A measurement counts as at most this many times the average, for the same reason.
_OUTLIER = 4.0
#: Reading a byte that is in memory already takes nearly no time. It is counted as if it were
#: copied, so that the average stays near the time of the disk.
_LEAST_READ = 0.05


@dataclass(frozen=True)
class Reading:
    """The cost of reading so far, in nanoseconds, as running averages: ``seek`` for a key in a
    partition that is sought, ``hit`` for a key in one that was read before, ``read`` for a byte,
    and ``copy`` for a byte that is copied to the host. None: not measured yet."""

    seek: float | None = None
    hit: float | None = None
    read: float | None = None
    copy: float | None = None

    @property
    def known(self) -> bool:
        """Have all costs been measured, except that of a copy?"""
        return None not in (self.seek, self.hit, self.read)

    def sought(self, keys: int, nanoseconds: float) -> Reading:
        """With the measurement of a partition that was sought."""
        return replace(self, seek=_averaged(self.seek, nanoseconds / max(keys, 1)))

    def scanned(self, keys: int, size: int, reading: float, finding: float) -> Reading:
        """With the measurement of a partition that was scanned: the time to read its bytes, and the
        time to find the keys in it."""
        return replace(
            self,
            read=_averaged(self.read, max(reading / max(size, 1), _LEAST_READ)),
            hit=_averaged(self.hit, finding / max(keys, 1)),
        )

    def copied(self, size: int, nanoseconds: float) -> Reading:
        """With the measurement of a partition that was copied."""
        return replace(self, copy=_averaged(self.copy, nanoseconds / max(size, 1)))

    def buying(self, size: int) -> float | None:
        """Nanoseconds to read a partition of that size as a whole, and to copy it; None if reading
        has not been measured.

        >>> Reading(read=1.0).buying(100), Reading(read=1.0, copy=2.0).buying(100)
        (100.0, 300.0)
        """
        return None if self.read is None else size * (self.read + (self.copy or 0.0))


#: The assumed cost of reading before it is measured: that of a solid-state disk, with nothing of
#: the table in memory.
ASSUMED = Reading(seek=100_000.0, hit=1_000.0, read=1.0)


def _averaged(before: float | None, now: float) -> float:
    """The average with a new measurement.

    >>> [_averaged(before, now) for before, now in ((None, 9), (10, 20), (10, 1e9), (10, 5))]
    [9, 12.0, 16.0, 7.5]
    """
    if before is None:
        return now
    weight = _NEW if now > before else _NEW_BELOW
    return moving_average(before, min(now, _OUTLIER * before), weight=weight)


def seek_ns(keys: Counts, reading: Reading) -> np.ndarray:
    """Nanoseconds to seek so many keys in each of some partitions.

    >>> seek_ns(np.array([10, 0]), Reading(seek=2000.0)).tolist()
    [20000.0, 0.0]
    """
    return np.asarray(keys) * float(reading.seek or 0.0)


def scan_ns(keys: Counts, sizes: Counts, reading: Reading) -> np.ndarray:
    """Nanoseconds to scan partitions of such sizes for so many keys.

    >>> scan_ns(np.array([10]), np.array([1000]), Reading(hit=100.0, read=2.0)).tolist()
    [3000.0]
    """
    return np.asarray(sizes) * float(reading.read or 0.0) + np.asarray(keys) * (reading.hit or 0.0)


def scans(keys: Counts, sizes: Counts, reading: Reading) -> Bools:
    """Which partitions to scan rather than seek, given how many keys are wanted of each.

    >>> slow = Reading(seek=1e6, hit=1000.0, read=1.0)
    >>> scans(np.array([5, 100]), np.array([32_000_000] * 2), slow).tolist()
    [False, True]
    """
    cheaper: Bools = scan_ns(keys, sizes, reading) < seek_ns(keys, reading)
    return cheaper


def most_sought(size: float, reading: Reading) -> int:
    """The most keys for which a partition of that size is sought; for more it is scanned. This is
    :func:`scans`, solved for the keys.

    >>> most = most_sought(32_000_000, ASSUMED)
    >>> most, scans(np.array([most, most + 1]), np.array([32_000_000] * 2), ASSUMED).tolist()
    (323, [False, True])
    """
    seek, hit, read = (cost or 0.0 for cost in (reading.seek, reading.hit, reading.read))
    assert seek > hit, "to seek a key costs more than to find it in what was read"
    return math.floor(size * read / (seek - hit))


def pace(
    partitions: int, *, cheap: bool, max_wait: float, rows: float, v_S: float, room: float
) -> int | None:
    """How many partitions a step reads; None: all that its rows need.

    Reading that is ``cheap`` is done at once. Otherwise a step reads as few partitions as two
    bounds allow. First, a row waits for at most one cycle, ``partitions / pace`` steps, which must
    not exceed ``max_wait``. Second, ``rows`` of ``v_S`` bytes come in each step, and those that
    wait must not take more than ``room``. They take the memory of equation 1 of the paper, for one
    partition a step, divided by the pace. (The disk buffer and H_R have memory of their own.)

    >>> pace(100, cheap=True, max_wait=10, rows=1000, v_S=50, room=1e6) is None
    True
    >>> pace(100, cheap=False, max_wait=10, rows=1000, v_S=50, room=1e6)
    10
    >>> pace(100, cheap=False, max_wait=10, rows=10_000, v_S=50, room=1e6)
    50
    """
    if cheap or max_wait < 2:
        return None
    for_wait = partitions / max_wait
    waiting = memory(b=1, h_R=0, w_S=rows, R_t=partitions, v_R=0, v_S=v_S, v_P=0)
    for_memory = waiting / max(room, 1.0)
    wanted = math.ceil(max(for_wait, for_memory, 1))
    return None if wanted >= partitions else wanted
