"""How a semi-stream join runs: what its memory is divided into.

**Memory.** A quarter of it is for the caches of all shards, a quarter for the rows that wait in
them; a shard of the table that fits into its part of both is kept in memory as a whole. The rest
is for the shards that are stepped at the same time: new rows, results, and what is copied into a
cache, in pieces. Filters of the table stay in memory only where they take at most an eighth of it.

**In place.** If nothing has to be remembered from one micro-batch to the next, rows are answered
by the tasks that read them. Then there are no shards of the stream; the memory is divided among as
many processes as run such tasks side by side, and each of them has a cache of its own. No rows
wait, so their quarter is for larger partitions: fewer of them are visited. Pieces are smaller
there, so that twenty of them, the cache and a partition fit together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from watersmeet import sizes
from watersmeet.errors import BudgetError
from watersmeet.joins.enrich.spec import EnrichSpec
from watersmeet.joins.policy import Policy

#: What is handled at a time is this part of what a running shard may use.
_PIECES, _PIECES_IN_PLACE = 20, 40
#: Filters and fences of the table take at most this part of what a shard may keep: an eighth of the
#: whole memory.
_FILTERS = 4
#: A partition of the table takes about so many bytes: a larger one takes longer to scan, smaller
#: ones are more files to open, a third of a millisecond each. It is mapped while it is read, so
#: it takes at most half of what a running shard may use, and what no waiting rows take.
_PARTITION = 64_000_000
_MB = 1_000_000
#: The memory of a query that does not say how much; and at least so much for each core, and for
#: each shard.
DEFAULT_MEMORY = 256 * _MB
_DEFAULT_CORE, _DEFAULT_SHARD = 16 * _MB, _MB // 2
#: The least memory that a shard can do with, between its steps and in them.
_LEAST_KEPT = 128 << 10
_LEAST_RUNNING = 4 << 20
#: A table that is read in place is staged in at most this many shards: a task looks into each.
_MOST_STAGED = 64
#: Nothing waits if all that a micro-batch reads takes no longer than so many nanoseconds.
_AT_ONCE = 100e6


@dataclass(frozen=True)
class Facilities:
    """What a backend does for semi-stream joins. ``wakes``: does it run a micro-batch
    without data when the watermark has moved? ``copies``: does a host keep copies of the partitions
    that it reads? ``hosts``: on how many, at most, can it answer rows where they are read? None: on
    none."""

    wakes: bool = True
    copies: bool = False
    hosts: int | None = None


#: A single process.
LOCAL = Facilities()


@dataclass(frozen=True)
class EnrichPolicy(Policy):
    """How a semi-stream join runs: on so many ``shards``, ``cores`` of them side by side.
    ``in_place``: rows are answered by the tasks that read them, without a shuffle and without
    state. Then what is said of a shard is true of a process that runs such tasks, ``cores`` of
    them side by side; the ``shards`` are the table's alone, and every process reads all of them.

    ``cache`` and ``queue`` are the bytes that a shard's cache may take, and its waiting rows. A
    shard of the table that takes no more than ``resident`` bytes stays in memory as a whole. Its
    filters and fences stay there if they take no more than ``filters`` bytes. ``piece`` is the
    bytes that are handled at a time. ``wakes``: does a shard with waiting rows take another step
    when the watermark has moved, even if no rows come? ``partition`` is about the bytes of a
    partition of the table. ``copies``: does a host keep copies of the partitions that it reads?
    ``switching`` is the paper's switching factor, by which the cache inequality is made stricter; 1
    is best. Reading that takes a shard no longer than ``at_once`` nanoseconds is never put off:
    with that of the shards that a core steps one after the other, it takes no longer than a
    micro-batch takes anyway."""

    cache: int
    queue: int
    resident: int
    filters: int
    piece: int
    wakes: bool
    partition: int
    copies: bool = False
    switching: float = 1.0
    at_once: float = 100e6
    in_place: bool = False

    @property
    def frame(self) -> int:
        """The bytes of results that are gathered at a time. Together with one that is added, they
        take no more than a piece."""
        return self.piece // 2

    @property
    def packed(self) -> int:
        """The bytes of new rows that a task packs at a time. Such tasks run on all cores, also if
        fewer shards are stepped side by side. Nothing else takes memory then, so that they are two
        pieces."""
        cores = self.cores or self.shards
        return 2 * self.piece * min(cores, self.shards) // cores

    def on(self, shards: int) -> EnrichPolicy:
        """The same, on another number of shards: they share the query's memory.

        >>> planned = EnrichPolicy(4, 100, 100, 200, 50, 64, True, 1 << 20, cores=2)
        >>> fewer = planned.on(1)
        >>> fewer.cache, fewer.resident, fewer.piece
        (400, 800, 128)
        >>> planned.on(6).at_once / planned.at_once == 2 / 3
        True
        """
        before, now = (min(self.cores or count, count) for count in (self.shards, shards))
        turns = -(-self.shards // before), -(-shards // now)
        return replace(
            self,
            shards=shards,
            cache=self.cache * self.shards // shards,
            queue=self.queue * self.shards // shards,
            resident=self.resident * self.shards // shards,
            filters=self.filters * self.shards // shards,
            piece=self.piece * before // now,
            at_once=self.at_once * turns[0] / turns[1],
        )


def enrich_policy(
    spec: EnrichSpec, *, shards: int, cores: int, wakes: bool, hosts: int | None = None
) -> EnrichPolicy:
    """How a semi-stream join runs on that many shards, of which ``cores`` are stepped side by
    side; or, on so many ``hosts`` at most, in place."""
    in_place = hosts is not None
    keeping, at_once = (cores, cores) if in_place else (shards, min(cores, shards))
    kept, running = spec.memory // 2 // keeping, spec.memory // 2 // at_once
    if kept < _LEAST_KEPT or running < _LEAST_RUNNING:
        least = max(2 * keeping * _LEAST_KEPT, 2 * at_once * _LEAST_RUNNING)
        whom = f"{shards} shards (one for each shuffle partition)"
        lower = ", or lower spark.sql.shuffle.partitions"
        if in_place:
            whom, lower = f"{cores} tasks side by side (one for each core)", ""
        raise BudgetError(
            f"memory={spec.memory:,} bytes are too few for {whom}: give {sizes.format(least)} or "
            f"more{lower}."
        )
    mapped = running // 2 + (kept // 2 if in_place else 0)
    policy = EnrichPolicy(
        shards=shards,
        cache=kept // 2,
        queue=kept // 2,
        resident=kept,
        filters=kept // _FILTERS,
        piece=running // (_PIECES_IN_PLACE if in_place else _PIECES),
        wakes=wakes and spec.timers,
        cores=cores,
        partition=min(_PARTITION, _MB << (mapped // _MB).bit_length() - 1),
        in_place=in_place,
        at_once=_AT_ONCE / -(-shards // at_once),  # a core steps so many, one after the other
    )
    if hosts is None:
        return policy
    # Every process reads all of the table, and those of a host share its pages.
    shards = min(shards, _MOST_STAGED)
    return replace(policy, shards=shards, resident=spec.memory // 2 // hosts)


def default_memory(cores: int, shards: int) -> int:
    """The memory of a query that does not say how much: enough for so many cores and shards.

    >>> [default_memory(cores, 200) // _MB for cores in (8, 16, 64)]
    [256, 256, 1024]
    >>> default_memory(8, 1000) // _MB
    500
    """
    return max(DEFAULT_MEMORY, cores * _DEFAULT_CORE, shards * _DEFAULT_SHARD)
