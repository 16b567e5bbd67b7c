"""The event time of a result: whose time it is, and whether Spark can go on with it.

Operators after a join in the same query drop rows behind Spark's watermark of the micro-batch
before. So every result must be above it. Let w be the watermark that the join works by, and w' its
value in the micro-batch before. A combination leaves when its last row arrives, which is above w:

- Its greatest time is above w; if a probe was put off, above w'. So inner joins need nothing.
- The time of its row of stream i is above w' - K(i), where K(i) is for how long rows are kept: the
  window W(i). In a left join of many streams it is longer by W(1), because the other streams are
  matched with the first one alone.
- An unmatched row of stream i leaves as soon as time + W(i) <= w, and w' had not come that far: its
  time is above w' - W(i). Rows of other streams that it has matched are above w' - K.

A join without a key has several operators, one behind the other. That changes nothing: rows pass
through all of them in one micro-batch, and all work by the same w. The last one knows which rows
are unmatched, and takes a step whenever w has moved, even without rows.

So Spark's watermark is *held back* behind the join's, by the longest of these times: it is then
w' - K(i) or less when such a row leaves. Windows of operators that follow end later by as much, as
after Spark's own outer join. The join itself waits for nothing. (If a query has several watermarks,
Spark must take the least: with the greatest, w would be ahead of the join's own streams.)

**Example.** In a left join views wait 10 minutes. In the micro-batch before, the join worked by
w' = 12:00, now it works by w = 12:03. A view of 11:52 has no match. It leaves now, because
11:52 + 10 minutes <= 12:03. That is behind w', so an operator that follows would drop it. Held back
by 10 minutes, Spark's watermark of the micro-batch before is 11:50: the view is above it.

A join can follow in the same query: an inner one, or any that carries no event time on. Let v be
Spark's watermark, and v' its value in the micro-batch before. It is the least over all streams,
also those that only the second join reads. The first join, held back by H, works by w = v + H,
which is no more than its own streams allow. So its results have times e above w' - H = v', as shown
above. The second join works by v itself. A stream with a watermark of its own, such as this one, is
late by v', so that none of these rows is dropped. And none misses a match: a row s of another
stream, with the window W, matches e only if s + W >= e > v', and it expires when s + W <= v, after
new rows have probed; so it had not expired in the step before. A match has a row at e > v' and one
that was not late, so its greatest time is above v' too: what follows the second join gets every
row.

A join that is held back itself can follow too, if the first one was held back further than it
needs: by H + F, for the join that follows. Then w = v + H + F, and its results have times above
v' + F: they are *ahead* by F. So the second join may work by v + F, or less, as it did by v above.
Its own hold H2 <= F makes it work by v + H2, by which none of those rows is late. Its results are
above v' + H2 - H2 = v' again, or further ahead if its hold has a part for others too.
"""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet import durations
from watersmeet.errors import PlanError, TimeColumnError, WindowError, did_you_mean
from watersmeet.spec.join_type import JoinType
from watersmeet.spec.stream import StreamSpec
from watersmeet.spec.windowed import GREATEST, WindowedSpec


def event_time_of(streams: Sequence[StreamSpec], how: JoinType, given: object) -> str | None:
    """Whose time the result's event time is: a stream's, by name, or the greatest; None: it depends
    on the join type."""
    if given is None:
        return None
    names = [stream.name for stream in streams]
    shown = [*names, GREATEST] if how.combines else names[:1]
    if given in shown:
        _check_timed(streams, str(given))
        return str(given)
    if given == GREATEST:
        _check_timed(streams, names[0])
        return names[0]  # the only one in the result
    raise PlanError(
        f"event_time={given!r} is none of {', '.join(map(repr, shown))}: name the stream whose "
        f"time is the result's.{did_you_mean(str(given), shown)}"
    )


def further_of(given: object) -> int:
    """How much further Spark's watermark is held back, in microseconds."""
    return 0 if given is None else durations.parse(given, argument="hold")


def _check_timed(streams: Sequence[StreamSpec], given: str) -> None:
    untimed = [stream.name for stream in streams if stream.time is None]
    if untimed:
        raise TimeColumnError(
            f"event_time={given!r} needs the times of all streams, and {', '.join(untimed)} has "
            "none. Give time=... and delay=... to wm.stream."
        )


def suggested(spec: WindowedSpec) -> str:
    """A value of ``event_time`` with which every result has a time."""
    if spec.how.preserves_first and spec.how.preserves_others:
        return GREATEST
    return spec.streams[-1 if spec.how.preserves_others else 0].name


def unmatched_without_time(spec: WindowedSpec) -> str | None:
    """Which results have no event time, in words; None, if all have one."""
    if spec.event_time in (None, GREATEST):
        return None
    preserved = [
        stream.name
        for stream, kept in zip(spec.streams, spec.preserved, strict=True)
        if kept and stream.name != spec.event_time
    ]
    if not preserved:
        return None
    return (
        f"null for rows of {' and '.join(preserved)} without a match in {spec.event_time}; a "
        f"window drops them; event_time={GREATEST!r} keeps them"
    )


def lacking_times(spec: WindowedSpec) -> list[str]:
    """A warning, if some results have no event time."""
    lacking = unmatched_without_time(spec)
    return [] if lacking is None else [f"`event_time` is {lacking}."]


def check_hold(spec: WindowedSpec) -> None:
    """Can Spark's watermark be held back for this join?"""
    if not spec.streaming:
        return
    if spec.further and not spec.carries_event_time:
        raise TimeColumnError(
            f"hold={durations.format(spec.further)!r} holds Spark's watermark back for a join that "
            "follows, but this join's result has no event time to go on with. Give "
            f"event_time={suggested(spec)!r} too."
        )
    if None in spec.held_windows:
        raise WindowError(
            f"event_time={spec.event_time!r}: without `within`, nothing says how far behind the "
            "watermark the times of results may be. Give within=..., or leave event_time out."
        )
    own = [stream for stream in spec.streams if stream.watermarked and stream.ahead < spec.hold]
    if own:
        delays = " and ".join(
            f"{stream.name}, {durations.format(stream.delay or 0)}" for stream in own
        )
        raise TimeColumnError(
            f"event_time={spec.event_time!r} holds Spark's watermark back by "
            f"{durations.format(spec.hold)}, and that of a stream that brings its own cannot be "
            f"({delays}). Give delay=... to wm.stream instead of withWatermark; or, if the stream "
            f"comes out of another join, give hold={durations.format(spec.hold)!r} to that one."
        )
