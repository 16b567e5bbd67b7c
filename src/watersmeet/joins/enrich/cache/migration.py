"""Which keys enter the cache and which leave it, and when (paper, algorithm 1).

Every key is decided on its own, by the cache inequality: is ``m`` master rows less memory than
``n`` stream rows, those of one cycle through the table? Three phases follow one another:

incrementing  The disk phase counts the stream rows of every key that it answers. This lasts for
              one cycle. At its end the inequality chooses keys; every tenth time it also finds
              cached keys that have become rare, which leave.
switching     The master rows of the chosen keys are copied from the table into the files of a new
              cache, beside those that stay: the paper's switching buffer.
phase-out     The new cache takes effect, all at once. Rows of its keys that still wait are
              answered from it.

A row that waits does so for a whole cycle in the paper. Here its partition is known, and comes
after half a cycle on average: so ``n`` rows take half of their bytes.

Take master rows of 100 bytes and stream rows of 40, none of which waits. In one cycle, 10 rows of
key 7 come, which has two master rows, and 2 rows of key 9, which has one:

    key 7   2 x 100 = 200 bytes in the cache  <  10 x 40 = 400 bytes of stream rows: enters
    key 9   1 x 100 = 100 bytes in the cache  >   2 x 40 =  80 bytes of stream rows: does not

    step   phase          new rows   what happens at its end
    1      incrementing   10 of 7    misses are counted: 7 came ten times
    2      incrementing   2 of 9     the cycle ends: key 7 is chosen
    3      switching      1 of 7     it is answered from the table; the new cache is written
    4      phase-out      1 of 7     its step began with the new cache: this is a hit
    5      incrementing   ...        the next cycle goes on

Switching and phase-out take one step each. The paper needs a cycle for each, because the rows of
a key may be anywhere in its table; here they are together. For the same reason the count that the
paper keeps of master rows (s_count) is looked up when it is needed.

**A cycle** is one pass through the table while rows wait for their partition. If every step reads
all that its rows need, it is the time in which the rows of the disk phase would fill the memory
that rows may wait in: as in the paper, cache and waiting rows then balance each other. The first
cycles are shorter, so that the most frequent keys are cached soon.

**Room.** The inequality compares by the mean bytes of a master row, as in the paper. Whether keys
fit goes by the bytes of their own rows. They are copied a few keys at a time.

What is decided in a step takes effect in a later one, so that a step that is run again emits the
same rows. If there is less room than before, because the memory is less or the keys have more rows
in a newer version of the table, some keys leave when the step begins. Their rows are answered in
it nevertheless, from the table, as if they were still cached: so the room does not decide either.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from watersmeet.cost.enrich import belongs_into_cache, densest, leaves_cache
from watersmeet.joins.enrich.cache.hot_keys import KEY_BYTES, HotKeys, discard
from watersmeet.joins.enrich.layout import EnrichLayout
from watersmeet.joins.enrich.queue import ARRIVED_BYTES
from watersmeet.joins.enrich.state import INCREMENTING, PHASE_OUT, SWITCHING, EnrichState
from watersmeet.rows.columns import Bools, Ints, concat
from watersmeet.rows.widths import cuts
from watersmeet.table.lookup import ascending, master_rows, master_sizes
from watersmeet.table.shard import TableShard

#: Keys leave the cache in every tenth cycle only, so that their frequency is well known.
EVICTION = 10


class Migration:
    """Moves keys into the cache of a shard, and out of it; lives for a step. ``leaving`` are the
    codes of keys for which there is no room any more since this step began."""

    def __init__(self, layout: EnrichLayout, state: EnrichState, table: TableShard) -> None:
        self._layout = layout
        self._state = state
        self._table = table
        self.leaving: Ints = np.empty(0, np.int64)

    def begin(self) -> HotKeys | None:
        """The cache that this step uses."""
        progress = self._state.progress
        if progress.phase == PHASE_OUT:
            if progress.hot is not None:
                self._drop(progress.hot)
            progress.hot, progress.coming, progress.phase = progress.coming, None, INCREMENTING
        if progress.room != self._layout.policy.cache:
            self._fit()
        if progress.hot is None:
            return None
        hot = HotKeys.open(self._state.cache, progress.hot)
        if hot is not None:
            return hot
        self._write(progress.hot, before=None)
        # Without room on the disk there is none: the table has the same rows.
        return HotKeys.open(self._state.cache, progress.hot)

    def end(self, hot: HotKeys | None, *, wrapped: bool) -> None:
        """Go on with the migration; ``wrapped``: has this step finished a pass through the
        table?"""
        progress = self._state.progress
        if progress.phase == SWITCHING:
            assert progress.coming is not None, "keys were chosen before they are switched"
            self._write(progress.coming, before=hot)
            progress.phase = PHASE_OUT
        elif wrapped if progress.pace else progress.volume > progress.limit:
            self._end_cycle(hot)

    def renew(self) -> None:
        """The table is another one: the same keys are cached, with what it has of them, if there
        is room."""
        progress = self._state.progress
        name = progress.coming if progress.phase == PHASE_OUT else progress.hot
        known = None if name is None else self._state.keys_of(name)
        for old in {progress.hot, progress.coming} - {None}:
            self._drop(str(old))
        self._state.misses.clear()
        progress.hot = progress.coming = None
        progress.phase, progress.volume, progress.cursor = INCREMENTING, 0.0, 0
        if known is not None:
            progress.hot, self.leaving = self._fitted(known[0])
        progress.room = self._layout.policy.cache

    # -- inside ---------------------------------------------------------------------

    def _fit(self) -> None:
        """The memory is another one: keys leave if there is no room for all."""
        progress = self._state.progress
        progress.hot, self.leaving = self._shrunk(progress.hot)
        progress.coming, _ = self._shrunk(progress.coming)
        if progress.coming is not None and progress.coming == progress.hot:
            progress.coming, progress.phase = None, INCREMENTING
        progress.room = self._layout.policy.cache

    def _shrunk(self, name: str | None) -> tuple[str | None, Ints]:
        """The cache that takes the place of another one, if there is no room for that; and the
        codes of the keys that leave."""
        known = None if name is None else self._state.keys_of(name)
        if name is None or known is None:
            return name, self.leaving[:0]
        fitted, leaving = self._fitted(known[0])
        if fitted != name:
            self._drop(name)
        return fitted, leaving

    def _fitted(self, codes: Ints) -> tuple[str, Ints]:
        """Cache those of some keys that there is room for; the name of the cache, and the codes of
        the others. How often they come is known on the host alone, and must not decide about this
        step: the smallest stay, so that many do."""
        rows, sizes = master_sizes(self._table, codes)
        fits = densest(sizes + KEY_BYTES, np.ones(len(codes)), self._layout.policy.cache)
        return self._state.keep_keys(codes[fits], rows[fits]), codes[~fits]

    def _end_cycle(self, hot: HotKeys | None) -> None:
        progress, misses = self._state.progress, self._state.misses
        progress.cycle += 1
        progress.counted += progress.volume
        codes, rows, changed = self._chosen(hot)
        if changed:
            progress.coming = self._state.keep_keys(codes, rows)
            progress.phase = SWITCHING
        misses.clear()
        progress.limit = min(self._layout.policy.queue, 2 * max(progress.limit, progress.volume))
        progress.volume = 0.0

    def _chosen(self, hot: HotKeys | None) -> tuple[Ints, Ints, bool]:
        """The keys of the next cache, how many rows each has, and whether these are others than
        now."""
        v_R, v_S = self._table.width, self._row_bytes
        codes, n, barren = self._state.misses.counts()
        # Only of these can the inequality hold: a key has one master row or more, or none.
        likely = barren | (n * v_S > v_R)
        codes, n = codes[likely], n[likely].astype(np.float64)
        m, sizes = master_sizes(self._table, codes)
        enters = belongs_into_cache(m, n, v_R, v_S, self._layout.policy.switching)
        if hot is not None:
            enters &= ~np.isin(codes, hot.codes)
            stays, frequency = self._staying(hot)
            codes = np.concatenate([codes[enters], hot.codes[stays]])
            m = np.concatenate([m[enters], hot.rows[stays]])
            sizes = np.concatenate([sizes[enters], hot.sizes()[stays]])
            n = np.concatenate([n[enters], frequency[stays]])
        else:
            codes, m, n, sizes = codes[enters], m[enters], n[enters], sizes[enters]
        fits = np.flatnonzero(densest(sizes + KEY_BYTES, n * v_S, self._layout.policy.cache))
        order = fits[np.argsort(codes[fits])]
        before = codes[:0] if hot is None else hot.codes
        return codes[order], m[order], not np.array_equal(codes[order], before)

    @property
    def _row_bytes(self) -> float:
        """What a stream row of the disk phase takes, as a mean over the cycle (v_S)."""
        progress = self._state.progress
        return (progress.width + ARRIVED_BYTES) / 2 if progress.pace else progress.width

    def _staying(self, hot: HotKeys) -> tuple[Bools, np.ndarray]:
        """Which cached keys stay, and how often each of them comes in a cycle."""
        progress = self._state.progress
        cycles = float(progress.cycle % EVICTION or EVICTION)
        if not progress.pace:
            cycles = max(progress.counted / max(progress.volume, 1.0), 1.0)
        frequency = hot.counts / cycles
        stays = np.ones(len(hot), dtype=np.bool_)
        if progress.cycle % EVICTION == 0:
            v_R, v_S, factor = self._table.width, self._row_bytes, self._layout.policy.switching
            stays = ~leaves_cache(hot.rows, hot.counts, cycles, v_R, v_S, factor)
            hot.counts[:] = 0
            progress.counted = 0.0
        return stays, frequency

    def _write(self, name: str, *, before: HotKeys | None) -> None:
        """Write the files of a cache whose keys are known: with the rows of the cache
        ``before`` it, where that has them, and those of the table."""
        known = self._state.keys_of(name)
        if known is None:
            return
        codes, rows = known
        counts = self._expected(rows)
        if before is not None:
            stay = np.isin(before.codes, codes)
            counts[np.isin(codes, before.codes)] = before.counts[stay]
        cache, piece = self._state.cache, self._layout.policy.piece
        master = self._master(codes, before)
        HotKeys.write(cache, name, codes, rows, counts, master, partition=piece)

    def _master(self, codes: Ints, before: HotKeys | None) -> Iterator[pa.RecordBatch]:
        """All master rows of some keys, in order, of a few keys at a time: so many that their rows
        take half a piece. The rows of a key that alone takes more are not put together."""
        sizes = self._sizes(codes, before)
        for some in cuts(sizes, len(codes), self._layout.policy.piece // 2):
            found = self._found(codes[some], before)
            if some.stop - some.start == 1:
                yield from found
            elif held := [*found]:
                rows = concat(held)
                held.clear()
                yield ascending(rows)

    def _sizes(self, codes: Ints, before: HotKeys | None) -> Ints:
        """The bytes of the master rows of each key."""
        if before is None:
            return master_sizes(self._table, codes)[1]
        known, at = before.find(codes)
        sizes = np.empty(len(codes), dtype=np.int64)
        sizes[known] = before.sizes()[at]
        sizes[~known] = master_sizes(self._table, codes[~known])[1]
        return sizes

    def _found(self, codes: Ints, before: HotKeys | None) -> Iterator[pa.RecordBatch]:
        """The master rows of some keys, from the cache or the table: those of each in order."""
        piece, rows = self._layout.policy.piece, self._layout.limits.piece_rows
        if before is None:
            return master_rows(self._table, codes, piece=piece, rows=rows)
        known, at = before.find(codes)
        keep = np.zeros(len(before), dtype=np.bool_)
        keep[at] = True
        return chain(
            before.master(keep), master_rows(self._table, codes[~known], piece=piece, rows=rows)
        )

    def _expected(self, rows: Ints) -> Ints:
        """How often keys that enter now are counted to have come since the counts began: as often
        as it takes to stay. Only what they do from now on decides."""
        cycles = self._state.progress.cycle % EVICTION
        enough = self._layout.policy.switching * rows * self._table.width / self._row_bytes
        expected: Ints = np.ceil(enough).astype(np.int64) * cycles
        return expected

    def _drop(self, name: str) -> None:
        self._state.forget_keys(name)
        discard(self._state.cache, name)
