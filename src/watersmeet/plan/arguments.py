"""Checks that several arguments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from watersmeet.errors import PlanError, StrategyError, StreamNameError, did_you_mean
from watersmeet.spec.stream import TABLE_NAME, StreamSpec
from watersmeet.spec.tuning import Tuning

Given = TypeVar("Given")


def by_stream(
    streams: Sequence[StreamSpec], given: Mapping[str, Given], *, argument: str
) -> list[Given]:
    """The dict's values in the order of the streams. It must name each stream, and nothing else."""
    names = [stream.name for stream in streams]
    for name in given:
        if name not in names:
            raise StreamNameError(
                f"{argument}={given!r}: {name!r} is not one of the streams "
                f"{', '.join(names)}.{did_you_mean(str(name), names)}{name_of_table(names)}"
            )
    missing = [name for name in names if name not in given]
    if missing:
        raise StreamNameError(
            f"{argument}={given!r} lacks the stream(s) {', '.join(missing)}: a dict must name "
            "every stream."
        )
    return [given[name] for name in names]


def name_of_table(names: Sequence[str]) -> str:
    """How a table gets another name, if one of the names is that of a table without one."""
    if TABLE_NAME not in names:
        return ""
    return f" For another name than {TABLE_NAME!r}, give the table as wm.stream(df, 'products')."


def one_of(
    value: object,
    known: Sequence[str],
    *,
    argument: str,
    error: type[PlanError] = StrategyError,
) -> str:
    """The value, if it is one of the known ones."""
    if isinstance(value, str) and value in known:
        return value
    raise error(
        f"{argument}={value!r} is none of {', '.join(map(repr, known))}."
        f"{did_you_mean(str(value), known)}"
    )


def check_flag(value: object, *, argument: str) -> None:
    if not isinstance(value, bool):
        raise PlanError(f"{argument}={value!r} is neither True nor False.")


def refuse_tuning(tuning: Tuning, *names: str, because: str) -> None:
    """Refuse the settings of these names: they are for ``because`` only."""
    default = Tuning()
    for name in names:
        value = getattr(tuning, name)
        if value != getattr(default, name):
            raise StrategyError(f"tuning: {name}={value!r} is for {because}. Leave it out.")
