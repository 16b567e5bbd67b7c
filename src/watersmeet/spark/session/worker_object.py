"""Objects that are sent to Spark's workers: how they are opened there, and what their errors say.

Invariant: a worker that lacks Watersmeet says so in one sentence. So the code that opens an object
there (:class:`WorkerObject`) needs only the standard library, and is sent by value.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyspark import cloudpickle

from watersmeet.errors import InternalError, WatersmeetError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

Function = TypeVar("Function", bound=Callable[..., Any])
Made = TypeVar("Made")

#: Asks Spark for the state of an operator.
Declaration: TypeAlias = "Callable[[StatefulProcessorHandle], object]"
#: With this variable set, a worker that fails sends the error's message only.
HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"


def by_value(function: Function) -> Function:
    """A function that is pickled by what it does, not by its name: a worker that lacks Watersmeet
    would not find it. It imports what it needs itself."""
    function.__module__ = "__main__"
    return function


class WorkerObject:
    """An object that is sent to Spark's workers. There it is opened by a function that is sent
    with it.

    ``declare`` is all that the worker beside the driver is to do. Spark starts that one when a
    query starts, to ask a stateful operator for its state, and waits for it. It does without what
    is sent, and without our packages, which take most of a second to import."""

    declare: Declaration | None = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        pickled = cloudpickle.dumps((type(self), vars(self)))  # type: ignore[no-untyped-call]
        return _opened, (pickled, type(self).declare)


@by_value
def _opened(pickled: bytes, declare: Declaration | None) -> Any:
    import os
    import pickle
    import platform
    import sys

    main = getattr(sys.modules["__main__"], "__spec__", None)
    beside_driver = main is not None and main.name.endswith("transform_with_state_driver_worker")
    if beside_driver and declare is not None:
        ask = declare
        # PySpark prints there what it is about to do, for its own developers, at any log level.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115

        class Declaring:
            def init(self, handle: StatefulProcessorHandle) -> None:
                ask(handle)

            def close(self) -> None:
                pass

        return Declaring()
    # Spark counts on one core for a task, and says so to OpenMP. Polars is to know it too, before
    # it is imported: workers that each use all cores are in each other's way.
    os.environ.setdefault("POLARS_MAX_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    try:
        kind, fields = pickle.loads(pickled)
    except ModuleNotFoundError as error:
        version = ".".join(str(number) for number in sys.version_info[:2])
        message = (
            f"the Python of a Spark worker, {sys.executable} (Python {version}) on "
            f"{platform.node()}, lacks the package {error.name!r}: install Watersmeet in it, or "
            "have PYSPARK_PYTHON name one that has it, on every host"
        )
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise ModuleNotFoundError(message, name=error.name) from None
    from watersmeet.spark.session.worker import acknowledge

    acknowledge()
    opened = object.__new__(kind)
    opened.__dict__.update(fields)
    return opened


def briefly(made: Iterator[Made]) -> Iterator[Made]:
    """The same things, made in a worker. An error of ours says all there is to say: the lines of
    code that led to it would only stand before it. Those of its cause, a user's function for one,
    are shown behind it. (A worker that has failed takes no further task.)"""
    try:
        yield from made
    except WatersmeetError as error:
        if isinstance(error, InternalError):
            raise
        os.environ[HIDE_TRACEBACK] = "1"
        cause = error.__cause__
        if cause is not None:
            # The first of the lines is the one of ours that has caught it.
            lines = cause.__traceback__ and cause.__traceback__.tb_next
            shown = traceback.format_exception(type(cause), cause, lines)
            error.args = (f"{error}\n\n{''.join(shown)}",)
        raise
