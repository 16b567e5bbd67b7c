"""Streams and conditions, as the user describes them: ``stream`` and ``predicate``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from watersmeet import durations
from watersmeet.errors import PredicateError, did_you_mean
from watersmeet.plan.naming import listed
from watersmeet.plan.signatures import as_in
from watersmeet.plan.streams import check_name, with_time
from watersmeet.spark.query.inputs import check_order, check_punctuation, describe
from watersmeet.spec.predicate import PredicateFunction
from watersmeet.spec.stream import Arrival, Punctuation, StreamSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Duration = str | timedelta
Keys = str | Sequence[str]
#: What ``where`` takes.
Where = str | PredicateFunction | Sequence[str | PredicateFunction]


@dataclass(frozen=True, repr=False)
class Stream:
    """A DataFrame with a name and what is known about it; made by :func:`stream`."""

    df: DataFrame
    spec: StreamSpec

    def __repr__(self) -> str:
        time = f", time={self.spec.time!r}" if self.spec.time else ""
        kind = "streaming" if self.spec.streaming else "batch"
        return f"<{kind} {self.spec.name!r}{time}, columns: {listed(self.spec)}>"


@as_in(
    "wm.stream(df, 'views', time='viewed_at', delay='10 seconds')",
    by_position="a DataFrame and a name",
)
def stream(
    df: DataFrame,
    name: str,
    *,
    time: str | None = None,
    delay: Duration | None = None,
    rows_per_second: float | None = None,
    distinct_keys: float | None = None,
    unique: bool = False,
    arrival: Arrival | None = None,
    punctuation: Punctuation | None = None,
    prefix: str | None = None,
) -> Stream:
    """Name a DataFrame and say what is known about it.

    Parameters
    ----------
    df
        A streaming DataFrame, or a batch one for a backfill.
    name
        How ``on``, ``within`` and ``where`` refer to it.
    time
        The column with the event time, a timestamp.
    delay
        How late a row may be: the watermark stays this far behind the greatest
        time seen. A DataFrame with a watermark of its own needs none.
    rows_per_second, distinct_keys
        The expected rate and the expected number of different keys. They are for the estimates
        in ``explain`` and for first choices, until both have been measured.
    unique
        Each key comes at most once. A row of the other stream leaves the state when it has
        found its only match.
    arrival
        ``"clustered"``: rows of a key come together; ``"ordered"``: in ascending order of
        the key. Rows of the other stream leave when their key is closed.
    punctuation
        Rows in the stream that say which keys are closed: :class:`Punctuation`.
    prefix
        What to put before the name of a column of this stream that several streams have. By
        default the stream's name and an underscore: ``views_price``. With ``""`` the name stays
        as it is.
    """
    check_order(df, name)
    check_name(name)
    spec = describe(
        df,
        name,
        time=time,
        delay=delay,
        rows_per_second=rows_per_second,
        distinct_keys=distinct_keys,
    )
    check_punctuation(df, name, punctuation)
    spec = replace(spec, unique=unique, arrival=arrival, punctuation=punctuation, prefix=prefix)
    return Stream(df, with_time(spec))


def predicate(
    function: Callable[..., Any],
    *streams: str,
    columns: Mapping[str, Sequence[str]] | None = None,
    cost: Duration | None = None,
) -> PredicateFunction:
    """A condition of the match that is a Python function, for ``where``.

    The function gets an Arrow table for each of the named streams, all of the same length, and
    returns as many booleans (an Arrow or numpy array): for which of these pairs of rows the
    condition holds. As in SQL, null is not true. It must depend on its arguments alone.

    Parameters
    ----------
    function
        From tables to booleans, like ``lambda views, clicks: pc.less(views["price"],
        clicks["bid"])``.
    streams
        The names of the streams whose rows it compares.
    columns
        Which columns the tables have, by stream; all, for a stream that is not named. Fewer
        columns take less time and state.
    cost
        What a pair of rows takes, like ``"50 us"``, if it is known. It is only used to say over how
        many slices a join without a key should be spread; while that runs, costs are measured.
    """
    if not callable(function):
        raise PredicateError(
            f"predicate: {function!r} is not a function. Give one from Arrow tables to booleans."
        )
    if not streams or not all(isinstance(name, str) for name in streams):
        raise PredicateError(
            f"predicate: {streams!r} are not names of streams. Give those whose rows the function "
            'compares: wm.predicate(similar, "views", "clicks").'
        )
    if len(set(streams)) < len(streams):
        raise PredicateError(f"predicate: {streams!r} names a stream twice. Name each once.")
    _check_arity(function, streams)
    example = 'like columns={"views": ["price"]}'
    if columns is not None and not isinstance(columns, Mapping):
        raise PredicateError(f"predicate: columns={columns!r} is not a dict. Give one {example}.")
    for name, wanted in (columns or {}).items():
        if name not in streams:
            raise PredicateError(
                f"predicate: columns={columns!r}: the function does not get {name!r}, but "
                f"{', '.join(streams)}.{did_you_mean(str(name), streams)}"
            )
        if isinstance(wanted, str) or not wanted:
            raise PredicateError(
                f"predicate: columns[{name!r}]={wanted!r} is not a list of columns. Give one or "
                f"more, {example}."
            )
    micros = None if cost is None else durations.parse(cost, argument="predicate: cost")
    if micros == 0:
        raise PredicateError(
            f"predicate: cost={cost!r} is less than a microsecond. Leave it out: functions are "
            "taken to be cheap."
        )
    return PredicateFunction(function, streams, dict(columns or {}), micros)


def _check_arity(function: Callable[..., Any], streams: Sequence[str]) -> None:
    """Does the function take a table for each of the streams?"""
    try:
        taken = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C do not say
        return
    try:
        taken.bind(*streams)
    except TypeError as error:
        called = getattr(function, "__name__", type(function).__name__)
        raise PredicateError(
            f"predicate: {called}{taken} is called with one table for each of the "
            f"{len(streams)} streams {', '.join(streams)}: {error}. Let it take as many "
            "arguments, or name the streams that it compares."
        ) from None
