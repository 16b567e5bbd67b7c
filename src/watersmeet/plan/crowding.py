"""Are there far more shards than cores? Every micro-batch takes a step of each shard, and an empty
step takes time too (docs/spark.md)."""

from __future__ import annotations

#: More shards than this for each core are too many. (A few more than cores are useful: the cluster
#: may grow.)
MOST_SHARDS_A_CORE = 8


def fitting_shards(shards: int, cores: int | None) -> int | None:
    """How many shards fit, if these are far too many; None, if they are not, or if the cores are
    not known.

    >>> fitting_shards(200, 4), fitting_shards(16, 2), fitting_shards(200, None)
    (4, None, None)
    """
    if cores is None or shards <= MOST_SHARDS_A_CORE * cores:
        return None
    return max(2, cores)


def crowding(shards: int, cores: int | None) -> str | None:
    """What is wrong with that many shards on that many cores, if they are far too many."""
    fitting = fitting_shards(shards, cores)
    if fitting is None:
        return None
    return (
        f"{shards} shards on {cores} core{'' if cores == 1 else 's'}: every micro-batch takes a "
        f"step of each, and an empty step takes time too. Before the first start, "
        f'spark.conf.set("spark.sql.shuffle.partitions", {fitting}) fits; a '
        "checkpoint keeps the number that it was begun with"
    )
