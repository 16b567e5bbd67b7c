"""A public call with arguments that do not fit is answered with a right one.

Python's own TypeError names a number of arguments. The reader wants to know which ones, and what a
right call looks like.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from watersmeet.errors import PlanError, did_you_mean

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def as_in(
    example: str, *, by_position: str
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A function raises a PlanError with an ``example`` of its use when its arguments do not fit.
    ``by_position`` describes the arguments that are given without a name."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                wrong = _wrong(signature, args, kwargs, by_position) or f"{error}."
                call = f"wm.{function.__name__}"
                raise PlanError(f"{call}: {wrong} Write for example {example}.") from None
            return function(*args, **kwargs)

        return called

    return decorate


def takes_arguments_of(
    plan: Callable[Arguments, object],
) -> Callable[[Callable[..., Result]], Callable[Arguments, Result]]:
    """A function gets the signature of ``plan``, except for the returned type."""

    def decorate(function: Callable[..., Result]) -> Callable[Arguments, Result]:
        returned = function.__annotations__["return"]
        shown = inspect.signature(plan).replace(return_annotation=returned)
        function.__signature__ = shown  # type: ignore[attr-defined]
        return function

    return decorate


def warn(message: str) -> None:
    """Warn, and name the line that has called us: the first one outside of this package."""
    package = __name__.partition(".")[0]
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _wrong(
    signature: inspect.Signature,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    by_position: str,
) -> str | None:
    """What is wrong with the arguments, if it is one of the usual mistakes."""
    known = signature.parameters.values()
    for name in kwargs:
        if name not in signature.parameters:
            return f"there is no argument {name!r}.{did_you_mean(name, signature.parameters)}"
    positional = [one.name for one in known if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(positional):
        return f"give {by_position}, and everything else by name."
    needed = [one.name for one in known if one.default is inspect.Parameter.empty]
    missing = [name for name in needed if name not in {*positional[: len(args)], *kwargs}]
    return f"{' and '.join(missing)} missing: give {by_position}." if missing else None
