"""Which segments to merge: tiers of size within slots of time.

A segment leaves the state as a whole, once its newest row is useless. So only
segments whose newest rows are close in time may be merged: those of one
*slot*, an eighth of the time for which rows are kept. Within the newest two slots, four segments of
about one size become one (as in a log-structured merge tree); an older slot
gets few new rows, if any, and is merged into one segment and some much smaller.

A probe thus meets about ten segments and a few young ones, whatever the size
of the window; a row is merged about log4(rows in a slot / rows in a batch)
times; and a row stays at most an eighth longer than it must. (Where
one batch brings times further apart than that, a segment is written anew when
most of its rows are over: see :meth:`watersmeet.state.window.Window.compact`.)
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from watersmeet.state.manifest import Entry, total_rows

#: So many segments of one tier become one segment of the next.
FAN = 4
#: The time for which rows are kept is cut into so many slots.
SLOTS = 8
#: No merge makes a segment larger than this, in memory: a column of strings ends at 2 GiB.
LARGEST = 1 << 30


def slot_width(window: int | None, delay: int) -> int | None:
    """How wide a slot is, in microseconds: rows are kept for the window, and as long
    as the watermark stays behind. None for a window without end: one slot."""
    return None if window is None else max((window + delay) // SLOTS, 1)


def merges(
    entries: Sequence[Entry], width: int | None, *, largest: int = LARGEST
) -> list[list[Entry]]:
    """Groups of entries that should become one segment each, with slots so wide, no
    segment larger than ``largest`` bytes in memory."""
    slots: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        slots[entry.max_time // width if width else 0].append(entry)
    newest = max(slots, default=0)
    groups = []
    for slot, members in slots.items():
        closed = width is not None and slot < newest - 1
        groups += [members] if closed and _worth_merging(members) else _full_tiers(members)
    fitting = [_within_size(group, min(largest, LARGEST)) for group in groups]
    return [group for group in fitting if len(group) > 1]


def _worth_merging(entries: Sequence[Entry]) -> bool:
    """Does the largest segment grow enough? If not, a slot that does get further rows
    (some sources lag behind, or one row of the future made it look old) would be
    written anew for each of them."""
    largest = max(entry.rows for entry in entries)
    return FAN * (total_rows(entries) - largest) >= largest


def _full_tiers(entries: Sequence[Entry]) -> list[list[Entry]]:
    tiers: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        tiers[int(math.log(max(entry.rows, 1), FAN))].append(entry)
    return [tier for tier in tiers.values() if len(tier) >= FAN]


def _within_size(group: list[Entry], largest: int) -> list[Entry]:
    """As many of the group's smallest members as fit into one segment."""
    group = sorted(group, key=lambda entry: entry.memory)
    while sum(entry.memory for entry in group) > largest:
        group.pop()
    return group
