"""What every experiment gives: claims with what was measured, and figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

matplotlib.use("Agg")


@dataclass(frozen=True)
class Claim:
    """A paper's claim, and what became of it. ``bound`` is what is possible at most, where that can
    be computed."""

    where: str
    claimed: str
    measured: str
    holds: bool
    remark: str = ""
    bound: str = ""


@dataclass(frozen=True)
class Outcome:
    """One figure of a paper: claims about it, and the figure as drawn here."""

    name: str
    claims: Sequence[Claim]
    figure: Figure | None = None


def run(title: str, experiments: Sequence[Callable[[], Outcome]], folder: Path) -> list[Claim]:
    """Run experiments one after the other; print and save what came out."""
    console = Console(width=110)
    folder.mkdir(parents=True, exist_ok=True)
    claims: list[Claim] = []
    for experiment in experiments:
        with console.status(f"{title}: {(experiment.__doc__ or '').splitlines()[0]}"):
            outcome = experiment()
        claims += outcome.claims
        if outcome.figure is not None:
            outcome.figure.savefig(folder / f"{outcome.name}.png", dpi=120, bbox_inches="tight")
        console.print(f"  {outcome.name}: done")
    table = Table("where", "claimed", "measured here", "holds", title=title)
    for claim in claims:
        bound = f"at most: {claim.bound}" if claim.bound else ""
        measured = "\n".join(filter(None, [claim.measured, bound, claim.remark]))
        table.add_row(claim.where, claim.claimed, measured, "yes" if claim.holds else "NO")
    console.print(table)
    content = json.dumps([asdict(claim) for claim in claims], indent=2, default=bool)
    (folder / "claims.json").write_text(content + "\n")
    return claims


def lines(
    title: str,
    xlabel: str,
    ylabel: str,
    x: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
) -> Figure:
    """A plot of curves over one axis."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for name, values in series.items():
        shown = [math.nan if value is None else value for value in values]
        axes.plot(x, shown, marker="o", markersize=3, label=name)
    axes.set(title=title, xlabel=xlabel, ylabel=ylabel)
    axes.legend()
    axes.grid(alpha=0.3)
    return figure


def bars(title: str, ylabel: str, values: dict[str, float]) -> Figure:
    """A plot of one bar for each name."""
    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    axes.bar(list(values), list(values.values()))
    axes.set(title=title, ylabel=ylabel)
    axes.tick_params(axis="x", rotation=20)
    return figure
