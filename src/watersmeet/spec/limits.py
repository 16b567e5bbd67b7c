"""Limits: how large the pieces are in which work is done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The sizes by which rows, results and stored segments are cut, merged and written. None of
    them changes a result: they were chosen by measurements of time and memory. Tests make them so
    small that a few rows behave as millions do.

    Parameters
    ----------
    piece_rows, piece_bytes
        No piece of results has more rows than this, nor more bytes, unless it is of one row.
    fan
        So many segments of about one size become one.
    tiny_bytes
        The smallest segments are tiny: as many as take this much together in the store. They become
        one, whatever their slots. (Up to one kilobyte of a small segment is its schema, so the
        merged segment takes about half as much.)
    largest_bytes
        No merge makes a segment that takes more in memory. (A column of strings cannot exceed
        2 GiB.)
    rewrite_below
        A merge of fewer stored bytes than this rewrites its rows, as one part.
    part_bytes
        No part is larger than this, before compression, unless it is of one row.
    buffer_bytes
        A part of at least this many bytes is written at once. Parts that wait for the end of a step
        are written when they take more than this in the store.
    buffered_memory
        They are also written when they take more than this in memory: rows may be much smaller in
        the store.
    open_bytes
        Open segments take at most this, without a budget. (A segment is opened about once for each
        chunk of new rows, from a file that the system keeps in memory as long as there is room.)
    recent_ranges
        Closed keys take at most so many ranges, of 16 bytes, before they become a segment.
    debts
        No shard has more deferred probes than this; the oldest are settled first.
    waiting_bytes
        Rows that wait for the end of a step take at most this in memory.
    long_run
        From this mean length on, runs of numbers are strung together, one after the other, rather
        than gathered.
    formula_pairs, least_formula_pairs
        Formulas are computed for so many pairs at a time: few enough that their values stay in the
        processor's cache. If fewer than the least number would be computed at a time, another way
        is faster.
    """

    piece_rows: int = 1 << 18
    piece_bytes: int = 32 << 20
    fan: int = 4
    tiny_bytes: int = 8 << 10
    largest_bytes: int = 1 << 30
    rewrite_below: int = 1 << 20
    part_bytes: int = 64 << 20
    buffer_bytes: int = 1 << 20
    buffered_memory: int = 32 << 20
    open_bytes: int = 256 << 20
    recent_ranges: int = 128
    debts: int = 256
    waiting_bytes: int = 256 << 20
    long_run: int = 128
    formula_pairs: int = 64 << 10
    least_formula_pairs: int = 4 << 10


#: The limits of every query.
LIMITS = Limits()
