"""What a join is, in plain data: no Spark, no state, no rows.

A :class:`JoinSpec` is what the planner makes of a call and what every other
part reads: ``explain`` prints it, the Spark runtime builds a query from it,
the operator is laid out by it. Times and durations are whole microseconds,
types are Spark's short names (``bigint``, ``decimal(10,2)``, ``array<int>``).
"""

from __future__ import annotations

from dataclasses import dataclass

#: The join types of two streams, in the order in which the documentation lists them.
JOIN_TYPES = ("inner", "left", "right", "full", "semi", "anti")

#: The column that carries an inner join's event time; always the last of the result.
EVENT_TIME = "event_time"

#: How a window may be held: as the cost model says, or always one way.
INDEXES = ("auto", "always", "never")
#: When expired rows leave: whenever the watermark moves, or when their window is probed.
INVALIDATIONS = ("active", "lazy")
#: In which order a stream's rows may come, by their keys.
ARRIVALS = ("clustered", "ordered")
#: What may happen to a row that the stream had promised not to bring.
VIOLATIONS = ("fail", "drop", "keep")
#: What a join may be optimised for.
GOALS = ("throughput", "memory", "early")
#: The column that tells a punctuation from a row of the result.
IS_PUNCTUATION = "is_punctuation"
#: Which stream's new rows are taken first: as the goal says, or always by one policy.
DRIVERS = (
    "auto",
    "timestamp",
    "round-robin",
    "consumption-rate",
    "initial-output-size",
    "output-rate",
)
#: No more streams than this are joined at once.
MOST_STREAMS = 10
#: The join types of more than two streams.
MULTIWAY_JOIN_TYPES = ("inner", "left")
#: What may happen when a budget is too small.
OVERFLOWS = ("spill", "shed", "fail")


@dataclass(frozen=True)
class Budget:
    """What a join may use, for the whole query.

    Parameters
    ----------
    memory
        For the state: a size like ``"2 GB"``, or bytes.
    rate
        Rows a second that can be served, of all streams together; or ``"measured"``:
        as many as the join turns out to manage.
    fanout
        Results that one new row may make.
    overflow
        What to do with more than that: ``"spill"`` (keep all; what does not fit into the
        memory is read from disk when it is probed), ``"shed"`` (drop rows, or keep
        them for less long, such that most results remain; leave out the results beyond
        ``fanout``) or ``"fail"``.
    """

    memory: str | int | None = None
    rate: float | str | None = None
    fanout: int | None = None
    overflow: str = "spill"


@dataclass(frozen=True)
class Punctuation:
    """Rows inside a stream that say what it will not bring any more.

    Parameters
    ----------
    when
        A SQL condition over the stream's columns that holds for punctuations. In them, a
        key column that is not null is that constant, and a null stands for any value.
    low, high
        Columns with the bounds, both included, of a range of keys that a punctuation
        closes (null: without bound). Its key column is null then.
    """

    when: str
    low: str | None = None
    high: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of a stream: its name and its Spark type."""

    name: str
    type: str


@dataclass(frozen=True)
class StreamSpec:
    """One input: its columns and what is known about its time.

    ``delay`` is how far the watermark stays behind the greatest time seen;
    ``watermarked`` says that the stream brought its own Spark watermark (then
    ``delay`` is that watermark's). ``rate`` is the expected rows a second and
    ``keys`` the expected number of keys, if the user gave them: they feed estimates
    only, never a result.

    ``unique``, ``arrival`` and ``punctuation`` are what the stream promises about its keys:
    each comes once; they come together or in order; they are closed by punctuations.
    """

    name: str
    columns: tuple[Column, ...]
    streaming: bool
    time: str | None = None
    delay: int | None = None
    watermarked: bool = False
    rate: float | None = None
    keys: float | None = None
    unique: bool = False
    arrival: str | None = None
    punctuation: Punctuation | None = None

    @property
    def closes(self) -> bool:
        """Does the stream ever say that a key will not come any more?"""
        return self.unique or self.arrival is not None or self.punctuation is not None

    def column(self, name: str) -> Column:
        """The column of that name, which the planner has made sure exists."""
        return next(column for column in self.columns if column.name == name)


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result and where its values come from.

    ``stream`` and ``column`` name the source; both are None for ``event_time`` and
    ``is_punctuation``.
    For a key column, ``key`` is its position among the keys and the value is
    taken from whichever stream has the row.
    """

    name: str
    type: str
    stream: int | None = None
    column: str | None = None
    key: int | None = None


@dataclass(frozen=True)
class JoinSpec:
    """A planned equality join: validated, complete, and immutable.

    ``keys[i]`` are stream i's key columns, aligned over the streams;
    ``key_types`` are the types they are compared in; ``windows[i]`` is how long
    a row of stream i waits for a later one (None: for ever); ``index[i]`` tells how
    its window is held.
    """

    streams: tuple[StreamSpec, ...]
    keys: tuple[tuple[str, ...], ...]
    key_types: tuple[str, ...]
    windows: tuple[int | None, ...]
    how: str
    where: str | None
    unbounded: bool
    output: tuple[OutputColumn, ...]
    index: tuple[str, ...] = ("auto", "auto")
    invalidation: str = "active"
    budget: Budget | None = None
    goal: str = "throughput"
    violations: str = "fail"
    emit_punctuations: bool = False
    driver: str = "auto"
    purge_after: int | None = None

    @property
    def kept(self) -> tuple[int | None, ...]:
        """How long a row of each stream is stored: as long as it waits for a later one. In a
        left join of many streams, a row that has met one of the first is kept until that
        one's time is over, which may lack a match in a third."""
        first = self.windows[0]
        if self.how != "left" or len(self.streams) == 2 or first is None:
            return self.windows
        return first, *(None if window is None else window + first for window in self.windows[1:])

    @property
    def streaming(self) -> bool:
        return self.streams[0].streaming

    @property
    def timers(self) -> bool:
        """Is there a watermark to wait for?"""
        return self.streaming and any(stream.time for stream in self.streams)

    @property
    def in_stages(self) -> bool:
        """Is what is in memory probed first, and what is on disk later?"""
        if self.budget is None or self.budget.memory is None or len(self.streams) != 2:
            return False
        return self.goal == "early" and self.budget.overflow == "spill"

    @property
    def preserved(self) -> tuple[bool, ...]:
        """For each stream: does a row that matches nothing appear in the result?"""
        return preserved_by(self.how, len(self.streams))

    @property
    def carries_event_time(self) -> bool:
        """Can Spark go on with event time after this join? Only an inner join's
        results are always newer than the watermark."""
        return self.how == "inner" and all(stream.time for stream in self.streams)


def preserved_by(how: str, streams: int) -> tuple[bool, ...]:
    """For each stream: does a row that matches nothing appear in the result?"""
    return how in ("left", "full", "anti"), *(how in ("right", "full"),) * (streams - 1)
