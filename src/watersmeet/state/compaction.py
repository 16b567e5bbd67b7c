"""Which segments to merge: tiers of size within slots of time.

Invariant: the newest rows of merged segments are in one *slot*, an eighth of the time for which
rows are kept. A segment expires as a whole, when its newest row does. So a row stays in the state
at most an eighth longer than it must.

Rule: in the newest two slots, four segments of about the same size become one, as in a
log-structured merge tree. An older slot gets few new rows, if any. It becomes one segment, as soon
as the largest one grows enough by the merge.

**Example.** A slot is 10 seconds wide, and segments of these numbers of rows are stored::

    newest row   0 to 9      10 to 19       20 to 29   30 to 39
    segments     A 60 B 40   C 1,000 D 10   none       E 10  F 12  G 9  H 11  I 200
    merged       A, B        none           none       E, F, G, H

The first two slots are old ones. A and B become one, because A grows by more than a quarter. C and
D do not: D would have all rows of C merged again. In the newest slot, E to H are of one size.

*Tiny* segments, of a few kilobytes together, are a case apart. Each of them takes as long to open
and to probe as one of a thousand rows. So they become one, whatever their slots. The merged segment
is rewritten as soon as a row in it has stayed for a slot longer than it must, so the invariant
holds.

A probe thus visits about ten segments and a few young ones, whatever the size of the window. A row
is merged about log4(rows in a slot / rows in a batch) times. (One batch may bring times that are
further apart than a slot. Then a segment is rewritten when more than half of its rows have
expired: see :meth:`watersmeet.state.window.Window.compact`.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from watersmeet.spec.limits import LIMITS, Limits
from watersmeet.state.manifest import Entry, total_rows

#: The time for which rows are kept is cut into this number of slots.
SLOTS = 8


def slot_width(window: int | None, delay: int) -> int | None:
    """The width of a slot in microseconds; None for a window without end, which has one slot.

    Rows are kept for the length of the window, plus the delay of the watermark."""
    return None if window is None else max((window + delay) // SLOTS, 1)


def tiny(
    entries: Sequence[Entry],
    width: int | None,
    useless: int | None,
    *,
    largest: int = LIMITS.largest_bytes,
    limits: Limits = LIMITS,
) -> list[Entry]:
    """The tiny segments, if they should become one now: because they are many, or because one has a
    row that has been useless for longer than a slot, which has that ``width``. Rows with times up
    to ``useless`` are useless."""
    small: list[Entry] = []
    total = 0
    for entry in sorted(entries, key=lambda entry: entry.bytes):
        total += entry.bytes
        if total > limits.tiny_bytes:
            break
        small.append(entry)
    group = _within_size(small, min(largest, limits.largest_bytes))
    lingers = (
        width is not None
        and useless is not None
        and any(entry.min_time + width <= useless for entry in group)
    )
    return group if lingers or len(group) >= limits.fan else []


def merges(
    entries: Sequence[Entry],
    width: int | None,
    *,
    largest: int = LIMITS.largest_bytes,
    limits: Limits = LIMITS,
) -> list[list[Entry]]:
    """Groups of entries; each group should become one segment.

    ``width`` is that of a slot; None means one slot. No segment takes more than ``largest`` bytes
    in memory."""
    slots: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        slots[entry.max_time // width if width else 0].append(entry)
    newest = max(slots, default=0)
    groups = []
    for slot, members in slots.items():
        closed = width is not None and slot < newest - 1
        groups += (
            [members]
            if closed and _worth_merging(members, limits.fan)
            else _full_tiers(members, limits.fan)
        )
    fitting = [_within_size(group, min(largest, limits.largest_bytes)) for group in groups]
    return [group for group in fitting if len(group) > 1]


def _worth_merging(entries: Sequence[Entry], fan: int) -> bool:
    """Does the largest segment grow enough, by a quarter at least?

    An old slot may still get rows: some sources lag behind, or one row with a time in the future
    made the slot look old. Without this check, the whole slot would be merged again for each of
    them."""
    largest = max(entry.rows for entry in entries)
    return fan * (total_rows(entries) - largest) >= largest


def _full_tiers(entries: Sequence[Entry], fan: int) -> list[list[Entry]]:
    """The tiers with enough members to become one segment."""
    tiers: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        tiers[int(math.log(max(entry.rows, 1), fan))].append(entry)
    return [tier for tier in tiers.values() if len(tier) >= fan]


def _within_size(group: list[Entry], largest: int) -> list[Entry]:
    """The smallest members of the group, as many as fit into one segment."""
    group = sorted(group, key=lambda entry: entry.memory)
    while sum(entry.memory for entry in group) > largest:
        group.pop()
    return group
