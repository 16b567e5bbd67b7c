"""What a semi-stream join does: what matches, how the table is read, when rows are answered."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from watersmeet import durations, sizes
from watersmeet.cost.disk_phase import ASSUMED, most_sought
from watersmeet.joins.enrich.spec import EnrichSpec
from watersmeet.plan.explain.shared import crowded, keys
from watersmeet.plan.explain.tree import Node

if TYPE_CHECKING:
    from watersmeet.joins.enrich.plan import EnrichPlan


def branches(plan: EnrichPlan) -> list[Node]:
    """What matches, how the table is staged and read, what memory is for, when rows leave."""
    return [
        _condition(plan.spec),
        keys(plan.spec),
        _table(plan),
        *_refreshing(plan.spec),
        _reading(plan),
        _answers(plan),
        _memory(plan),
        *(_unmatched(plan.spec) if plan.spec.retry is None else _retried(plan.spec)),
        _tasks(plan),
        _event_time(plan.spec),
    ]


def _tasks(plan: EnrichPlan) -> Node:
    """Who answers rows."""
    if plan.policy.in_place:
        return Node(
            "in place: rows are answered by the tasks that read them, "
            f"{plan.policy.cores} side by side; no shuffle, no state"
        )
    shards = plan.policy.shards
    return Node(
        f"shards: {shards}, by a hash of the key, for stream and table",
        crowded(plan.spec, shards, plan.policy.cores),
    )


def _condition(spec: EnrichSpec) -> Node:
    stream, table = spec.streams
    terms = [
        f"{stream.name}.{mine} = {table.name}.{other}"
        for mine, other in zip(*spec.keys, strict=True)
    ]
    if spec.as_of is not None:
        newest = f"the newest {table.name}.{spec.as_of} <= {stream.name}.{stream.time}"
        terms.append(newest)
    if spec.where is not None:
        terms.append(f"({spec.where})")
    return Node(
        "condition", [Node(term if i == 0 else f"AND {term}") for i, term in enumerate(terms)]
    )


def _table(plan: EnrichPlan) -> Node:
    """What is staged, and where."""
    spec, size = plan.spec, plan.size
    table = spec.streams[1]
    used = sum(column.stream == 1 for column in spec.output if column.key is None)
    nodes = [Node(f"{used} of its columns are needed besides the key")]
    if plan.folder is not None:
        nodes.append(Node(f"staged in {plan.folder}, sorted by key"))
    if size is None:
        nodes.append(Node("not staged yet: that is done when the query's DataFrame is made"))
    else:
        nodes.append(
            Node(
                f"{size.rows:,} rows, {sizes.format(size.bytes)}, in {size.partitions:,} "
                f"partition{'' if size.partitions == 1 else 's'}"
            )
        )
    return Node(f"table {table.name}: {len(table.columns)} columns", nodes)


def _refreshing(spec: EnrichSpec) -> list[Node]:
    """What becomes of a table that changes."""
    if spec.refresh is None:
        return []
    named = "" if spec.version is None else f", which `{spec.version}` names"
    return [
        Node(
            f"every {durations.format(spec.refresh)} {spec.streams[1].name} is read again, and "
            "staged anew unless it is known to be the same",
            [
                Node("a newer version takes effect between two micro-batches with rows"),
                Node(f"each row is answered from one version{named}"),
            ],
        )
    ]


def _reading(plan: EnrichPlan) -> Node:
    """How partitions are read."""
    access, copies = plan.spec.tuning.access, plan.policy.copies
    how = {
        "auto": "sought (only where the wanted keys are) or scanned (as a whole), whichever is "
        "cheaper for the keys that are wanted of it, by what both have cost so far",
        "scan": "scanned: read as a whole (as asked for)",
        "seek": "sought: read only where the wanted keys are (as asked for)",
    }[access]
    costs = Node(
        "what they cost is measured only while the query runs, and is in the metrics: seek_ns for "
        "a key; read_us for a megabyte, and find_ns for a key in it"
    )
    return Node(
        "disk phase",
        [
            Node(f"each partition is {how}", [*_expected(plan), costs] if access == "auto" else []),
            Node("partitions that cannot have a key, by their bounds and filters, are not read"),
            *([Node("a host keeps copies of the partitions that it reads")] if copies else []),
        ],
    )


def _expected(plan: EnrichPlan) -> list[Node]:
    """Which way of reading the cost model expects, before anything is measured, and why."""
    if _fits(plan):
        return [Node("expected: sought, as the table stays in memory, where a scan saves nothing")]
    size, stream = plan.size, plan.spec.streams[0]
    most = most_sought(_partition_bytes(plan), ASSUMED)
    nodes = [
        Node(
            f"expected: sought for up to {most:,} keys of a partition of "
            f"{sizes.format(_partition_bytes(plan))}, scanned for more",
            [
                Node(
                    "if to seek a key takes 100 us and to read a gigabyte one second, as on a "
                    "solid-state disk; what is in memory already is sought"
                )
            ],
        )
    ]
    if size is not None and stream.rows_per_second is not None:
        keys = min(stream.rows_per_second * _seconds(plan), stream.distinct_keys or math.inf)
        asked = math.ceil(keys / max(size.partitions, 1))
        way = "sought" if asked <= most else "scanned, unless the cache answers most of them"
        nodes.append(
            Node(
                f"with {stream.rows_per_second:,g} rows/s in micro-batches of a second, a "
                f"partition is asked for {asked:,} keys at a time on average, or fewer: {way}"
            )
        )
    return nodes


def _partition_bytes(plan: EnrichPlan) -> float:
    """The bytes of a partition: the mean, or, if the table is not staged, what they are to be."""
    size = plan.size
    return plan.policy.partition if size is None else size.bytes / max(size.partitions, 1)


def _seconds(plan: EnrichPlan) -> float:
    """Of how many seconds a partition is asked for the rows, at most, if a micro-batch takes one:
    those that wait for it are answered together."""
    wait = plan.spec.max_wait
    if wait is None or not plan.policy.wakes:
        return 1.0
    return max(1.0, wait.batches or (wait.microseconds or 0) / 1e6)


def _answers(plan: EnrichPlan) -> Node:
    """When a row is answered."""
    spec, policy, wait = plan.spec, plan.policy, plan.spec.max_wait
    rows = "rows" if spec.retry is None else "rows that have a match"
    at_once = f"{rows} are answered in the micro-batch in which they come"
    if wait is None:
        return Node(at_once)
    if not policy.wakes:
        why = "a batch run has one" if not spec.streaming else "Spark runs none without data"
        return Node(f"{at_once} ({why})")
    if wait.batches is not None:
        longest = f"{wait.batches} micro-batch{'' if wait.batches == 1 else 'es'}"
    else:
        longest = f"{durations.format(wait.microseconds or 0)}, by the mean time of a micro-batch"
    nodes = [
        Node("at once, if reading what they need takes less than a micro-batch does anyway"),
        Node(f"otherwise when the cycle comes to their partition: after {longest} at most"),
        Node("when the watermark reaches their time, or when no rows come, if that is earlier"),
    ]
    if plan.size is not None and wait.batches is not None:
        shard = -(-plan.size.partitions // policy.shards)
        each = max(1, -(-shard // wait.batches))
        nodes.append(Node(f"so a step of a shard reads {each:,} of {shard:,} partitions or more"))
    return Node(f"{rows} are answered", nodes)


def _memory(plan: EnrichPlan) -> Node:
    spec, policy = plan.spec, plan.policy
    where = "process" if policy.in_place else "shard"
    each = f"{sizes.format(spec.memory)} for the query"
    if not policy.in_place:
        each += f", of which {sizes.format(policy.resident)} are kept by each shard"
    if _fits(plan):
        return Node(f"memory: {each}: the table fits, so this is a main-memory join")
    nodes = [
        Node(
            f"cache: {sizes.format(policy.cache)} in each {where}; a key is cached if its master "
            "rows take less memory than its stream rows of one cycle"
        )
        if spec.tuning.cache
        else Node("no cache (as asked for)")
    ]
    if not policy.in_place:
        nodes.append(Node(f"rows that wait: {sizes.format(policy.queue)} in each shard"))
    nodes += [
        Node(f"new rows, results and copies: pieces of {sizes.format(policy.piece)}"),
        Node(f"a table of up to {sizes.format(_whole(plan))} is kept as a whole"),
    ]
    return Node(f"memory: {each}", nodes)


def _whole(plan: EnrichPlan) -> int:
    """The bytes of a table that is kept in memory as a whole."""
    policy = plan.policy
    return policy.resident if policy.in_place else policy.resident * policy.shards


def _fits(plan: EnrichPlan) -> bool:
    """Is the table kept in memory as a whole, even if its shards differ in size?"""
    return plan.size is not None and plan.size.bytes <= _whole(plan) * 0.8


def _unmatched(spec: EnrichSpec) -> list[Node]:
    stream, table = spec.streams
    if not spec.preserved[0]:
        return []
    nulls = "" if not spec.how.combines else f", with nulls for {table.name}"
    return [Node(f"unmatched rows of {stream.name}: emitted as soon as that is known{nulls}")]


def _retried(spec: EnrichSpec) -> list[Node]:
    """What becomes of rows without a match that are retried."""
    stream, table = spec.streams
    gone = {
        "left": f"emitted with nulls for {table.name}",
        "anti": "emitted",
    }.get(spec.how.name, "dropped, and counted as `given_up`")
    return [
        Node(
            f"unmatched rows of {stream.name}: kept in the state until a newer version of "
            f"{table.name} has a match, or until a row has come that is newer by {_retry(spec)}",
            [
                Node(f"in the second case they are {gone}"),
                Node("while the stream pauses, nothing happens to them: they need further rows"),
                Node("a row with a null key is not kept"),
            ],
        )
    ]


def _retry(spec: EnrichSpec) -> str:
    """How much newer a row must be for one without a match to be given up."""
    retry, delay = spec.retry or 0, spec.streams[0].delay or 0
    return f"{durations.format(retry + delay)} (retry and delay)"


def _event_time(spec: EnrichSpec) -> Node:
    time = spec.streams[0].time
    if time is None:
        return Node(f"event time: none, as {spec.streams[0].name} has no time")
    if not spec.timers:
        return Node(f"event time: `{time}` is a plain column in a batch")
    if not spec.time_goes_on:
        return Node(
            f"event time: `{time}` does not stay the event time: retried rows leave late for the "
            "stream's own watermark, and nothing can hold that back",
            [Node("it does if wm.stream sets the watermark, by delay=, and not withWatermark")],
        )
    held = []
    if spec.retry is not None:
        behind = f"the watermark stays behind the newest row by {_retry(spec)}"
        held = [Node(f"{behind}: windows that follow close that much later")]
    return Node(f"event time: `{time}` stays the event time; rows leave before they are late", held)
