"""What the demo shows on the terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

import watersmeet as wm
from watersmeet.demo.ads import NOON, SPAN
from watersmeet.demo.race import Run

#: The join of the demo, as a user writes it.
CALL = 'wm.join([views, clicks], on="ad_id", within="5 minutes")'


@dataclass(frozen=True)
class Outcome:
    """What a contender has reached: its ``run`` in the race, the seconds that its ``warm_up`` took,
    and what Watersmeet says of its ``steps``, of which Spark's own has none."""

    run: Run
    warm_up: float
    steps: tuple[wm.StepMetrics, ...]


class Screen:
    """A bar for each contender on a terminal; elsewhere, a line now and then."""

    def __init__(self, console: Console, names: list[str], seconds: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description:12}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} s"),
            TextColumn("{task.fields[rows]:>15}"),
            TextColumn("{task.fields[rate]:>16}"),
            console=console,
            expand=True,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=seconds, rows="", rate="") for name in names
        }
        self._printed = time.monotonic()

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, name: str, run: Run, seconds: float) -> None:
        """Show what a contender has done after so many seconds."""
        rows, rate = f"{run.rows:,} rows", f"{run.rate:,.0f} rows/s" if run.batches else ""
        self._progress.update(self._tasks[name], completed=seconds, rows=rows, rate=rate)
        if not self._console.is_terminal and time.monotonic() - self._printed >= 5:
            self._printed = time.monotonic()
            self._console.print(f"{name}: {rows} in {seconds:.0f} s", soft_wrap=True)


def show_plan(plan: wm.Plan, rows: int, seconds: int, console: Console) -> None:
    console.print(Text(plan.explain()), soft_wrap=not console.is_terminal)
    console.print(
        f"\n{rows:,} views and clicks, of {NOON:%H:%M} to {NOON + SPAN:%H:%M}, are there to be "
        "joined: by Watersmeet, and by Spark's own join. Both are warmed up first, with the same "
        f"rows. Then each races alone for {seconds} seconds, at full speed.\n",
        soft_wrap=not console.is_terminal,
    )


def show_summary(
    outcomes: Mapping[str, Outcome], found: Mapping[str, pl.DataFrame], console: Console
) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    for name in outcomes:
        table.add_column(name, justify="right", style="cyan")
    table.add_column()

    def add(label: str, values: list[str], note: str) -> None:
        table.add_row(label, *values, *[""] * (len(outcomes) - len(values)), note)

    runs, steps = [each.run for each in outcomes.values()], next(iter(outcomes.values())).steps
    add("warm-up", [f"{each.warm_up:.1f} s" for each in outcomes.values()], "not counted below")
    add("race", [f"{run.seconds:.1f} s" for run in runs], "in whole micro-batches")
    add("rows in", [f"{run.rows:,}" for run in runs], "views and clicks")
    add("rows/s", [f"{run.rate:,.0f}" for run in runs], "")
    add("results", [f"{len(rows):,}" for rows in found.values()], "in all: clicks within 5 minutes")
    if steps:
        size = f"{steps[-1].state_bytes / 1e6:,.1f} MB"
        add("state rows now", [f"{steps[-1].state_rows:,}"], f"{size}: what may still match")
        add("late rows", [f"{sum(step.late for step in steps):,}"], "dropped, and counted")
    console.print()
    console.print(table)


def show_verdict(
    outcomes: Mapping[str, Outcome], correct: Mapping[str, bool], console: Console
) -> None:
    """The ratio, and whether each gave the rows of a plain join of its files."""
    ours, other = (each.run for each in outcomes.values())
    if ours.rate and other.rate:
        console.print(
            f"\n[bold]{ours.rate / other.rate:.1f} times as fast as Spark's own join[/] with its "
            "default state store, on this machine, both warm.",
            soft_wrap=True,
        )
    else:
        console.print("\nToo few rows, or too little time, for a ratio.", soft_wrap=True)
    if all(correct.values()):
        proof = "Each gave the rows of a plain join of the files that it read: [green]correct[/]."
    else:
        wrong = " and ".join(name for name, right in correct.items() if not right)
        proof = f"[red]WRONG[/]: a plain join of the same files gives other rows than {wrong}."
    console.print(proof, soft_wrap=True)


def show_sample(found: pl.DataFrame, console: Console) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), title="two of the results", title_justify="left")
    for name in found.columns:
        table.add_column(name, overflow="fold")
    for row in found.tail(2).rows():
        table.add_row(*(f"{v:%H:%M:%S}" if isinstance(v, datetime) else str(v) for v in row))
    console.print()
    console.print(table)


def show_next(results: Path, console: Console) -> None:
    """Where the results are, and what to do now."""
    docs = Path(wm.__file__).parent / "docs"
    console.print(
        f"The results are in [bold]{escape(str(results))}[/] (Parquet).\n\n"
        "[bold]Next[/]: this join is one line, over two streaming DataFrames of yours:\n"
        f"  {escape(CALL)}\n"
        f"The guide begins there: {escape(str(docs.resolve() / 'guide.md'))}\n"
        f"To replace a join of Spark's: {escape(str(docs.resolve() / 'replace.md'))}",
        soft_wrap=True,
    )
