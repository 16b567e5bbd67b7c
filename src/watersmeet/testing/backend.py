"""This process as the place where a join is planned for, and runs."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache

from watersmeet.conditions.terms import Term
from watersmeet.cost import calibration
from watersmeet.cost.engine import Weights
from watersmeet.cost.slices import SliceWeights
from watersmeet.errors import PredicateError


@cache
def _folders() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory("-watersmeet", ignore_cleanup_errors=True)


def own_folder() -> str:
    """A folder of its own for a run that was given none; it is removed when the process ends."""
    return tempfile.mkdtemp(dir=_folders().name)


@dataclass(frozen=True)
class LocalBackend:
    """This process as the place where a join is planned for."""

    shards: int
    folder: str
    cores: int = 1

    def weights(self) -> Weights:
        return calibration.weights(self.folder)

    def slice_weights(self) -> SliceWeights:
        return calibration.slice_weights(self.folder)

    def translate(self, sql: str) -> tuple[Term, ...]:
        raise PredicateError(
            f"where={sql!r}: SQL needs Spark, and a local join has none. Give a Python function: "
            "where=wm.predicate(function, 'a', 'b'), from two Arrow tables to booleans."
        )
