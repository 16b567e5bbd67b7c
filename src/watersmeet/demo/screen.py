"""What the demo shows on the terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import watersmeet as wm
from watersmeet.demo.ads import NOON, SPAN
from watersmeet.demo.race import Run

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Screen:
    """A bar for each contender on a terminal; elsewhere, a line now and then."""

    def __init__(self, console: Console, names: list[str], rows: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description:12}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            TextColumn("{task.fields[rate]:>16}"),
            TimeElapsedColumn(),
            console=console,
            expand=True,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=rows, start=False, rate="") for name in names
        }

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def watch(self, name: str, query: StreamingQuery) -> None:
        """Show how a contender's query goes, until it ends."""
        self._progress.start_task(self._tasks[name])
        printed = time.monotonic()
        while query.isActive:
            time.sleep(0.25)
            self._show(name, Run.of(query))
            if not self._console.is_terminal and time.monotonic() - printed >= 5:
                printed = time.monotonic()
                self._console.print(f"{name}: {Run.of(query).rows:,} rows", soft_wrap=True)
        error = query.exception()
        if error is not None:
            raise error
        self._show(name, Run.of(query))
        self._progress.stop_task(self._tasks[name])

    def _show(self, name: str, run: Run) -> None:
        rate = f"{run.rate:,.0f} rows/s" if run.batches else "starting"
        self._progress.update(self._tasks[name], completed=run.rows, rate=rate)


def show_plan(plan: wm.Plan, rows: int, console: Console) -> None:
    console.print(Text(plan.explain()), soft_wrap=not console.is_terminal)
    console.print(
        f"\n{rows:,} views and clicks of {_span()} are joined twice, from the same files, at full "
        "speed: by Watersmeet, then by Spark's own join; one after the other, so that neither "
        "disturbs the other.\n",
        soft_wrap=not console.is_terminal,
    )


def _span() -> str:
    return f"{NOON:%H:%M} to {NOON + SPAN:%H:%M}"


def show_summary(
    runs: Mapping[str, Run],
    found: Mapping[str, pl.DataFrame],
    steps: list[wm.StepMetrics],
    console: Console,
) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    for name in runs:
        table.add_column(name, justify="right", style="cyan")
    table.add_column()

    def add(label: str, values: list[str], note: str) -> None:
        table.add_row(label, *values, *[""] * (len(runs) - len(values)), note)

    add("rows in", [f"{run.rows:,}" for run in runs.values()], "views and clicks")
    add("results", [f"{len(rows):,}" for rows in found.values()], "clicks within 5 minutes")
    add("seconds", [f"{run.seconds:.1f}" for run in runs.values()], "from the first row on")
    whole, warm = (
        [f"{run.rate:,.0f}" for run in some]
        for some in (runs.values(), [run.warm for run in runs.values()])
    )
    add("rows/s", whole, "of the whole run, the cold start included")
    add("rows/s, warm", warm, "of its second half: what a query that runs for long has")
    add("state rows now", [f"{steps[-1].state_rows:,}"], f"{steps[-1].state_bytes / 1e6:,.1f} MB")
    add("late rows", [f"{sum(step.late for step in steps):,}"], "dropped, and counted")
    console.print()
    console.print(table)


def show_verdict(runs: Mapping[str, Run], correct: Mapping[str, bool], console: Console) -> None:
    """The ratio, and whether both gave the rows of a plain join of all files."""
    first, other = runs.values()
    if all(correct.values()):
        proof = "Both gave the same rows, those of a plain join of all files: [green]correct[/]."
    else:
        wrong = " and ".join(name for name, right in correct.items() if not right)
        proof = f"[red]WRONG[/]: a plain join of all files gives other rows than {wrong}."
    if first.rate and other.rate:
        warm, whole = first.warm.rate / other.warm.rate, first.rate / other.rate
        console.print(
            f"\n[bold]{warm:.1f} times as fast as Spark's own join[/], on this machine, once warm; "
            f"{whole:.1f} times over the whole run, with its cold start.",
            soft_wrap=True,
        )
    console.print(proof, soft_wrap=True)


def show_sample(found: pl.DataFrame, console: Console) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), title="two of the results", title_justify="left")
    for name in found.columns:
        table.add_column(name, overflow="fold")
    for row in found.tail(2).rows():
        table.add_row(*(f"{v:%H:%M:%S}" if isinstance(v, datetime) else str(v) for v in row))
    console.print()
    console.print(table)
