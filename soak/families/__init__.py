"""The families of joins. Each is a function from dice, and the number of files of a stream, to a
case: list a new one here."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from soak.case import Case
from soak.families import chains, enrichments, promises, rings, windows

FAMILIES: Mapping[str, Callable[[random.Random, int], Case]] = {
    "chains": chains.case,
    "windows": windows.case,
    "promises": promises.case,
    "enrichments": enrichments.case,
    "rings": rings.case,
}
