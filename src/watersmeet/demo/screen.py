"""What the demo shows on the terminal."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import watersmeet as wm
from watersmeet.demo.ads import NOON, SPAN

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Totals:
    """What the query has done so far."""

    steps: dict[int, wm.StepMetrics] = field(default_factory=dict)
    seconds: float = 0.0
    _recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=20))

    def update(self, query: StreamingQuery, seconds: float) -> None:
        """Take in the latest progress reports."""
        self.seconds = seconds
        self.steps |= {step.batch: step for step in wm.metrics(query)}
        self._recent.append((seconds, self.rows))

    @property
    def rows(self) -> int:
        return sum(step.rows for step in self.steps.values())

    @property
    def results(self) -> int:
        return sum(step.results for step in self.steps.values())

    @property
    def late(self) -> int:
        return sum(step.late for step in self.steps.values())

    @property
    def last(self) -> wm.StepMetrics | None:
        return self.steps[max(self.steps)] if self.steps else None

    @property
    def state_rows(self) -> int:
        return self.last.state_rows if self.last else 0

    @property
    def watermark(self) -> str:
        return f"{self.last.watermark:%H:%M:%S}" if self.last and self.last.watermark else "none"

    @property
    def recent_rate(self) -> float:
        """Rows a second over the last ten seconds or so."""
        (since, before), (now, rows) = self._recent[0], self._recent[-1]
        return (rows - before) / (now - since) if now > since else 0.0

    @property
    def join_seconds(self) -> float:
        """Time in the join itself, over all of Spark's tasks."""
        return sum(step.step_ms for step in self.steps.values()) / 1000

    def line(self) -> str:
        return (
            f"{self.results:,} results · {self.recent_rate:,.0f} rows/s · "
            f"{self.state_rows:,} rows in state · watermark {self.watermark}"
        )


class Screen:
    """A progress bar on a terminal; elsewhere, a line now and then."""

    def __init__(self, console: Console, rows: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("joining"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"),
            TimeElapsedColumn(),
            expand=True,
        )
        self._task = self._progress.add_task("rows", total=rows)
        self._live = Live(self._progress, console=console, refresh_per_second=4)
        self._printed = 0.0

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, totals: Totals, rows: int) -> None:
        self._progress.update(self._task, completed=totals.rows, total=rows)
        if self._console.is_terminal:
            self._live.update(Group(self._progress, Text(totals.line(), style="cyan")))
        elif totals.seconds - self._printed >= 5:
            self._printed = totals.seconds
            self._console.print(
                f"{totals.seconds:3.0f} s  {totals.rows:,} rows · {totals.line()}", soft_wrap=True
            )


def show_plan(plan: wm.Plan, seconds: float, console: Console) -> None:
    console.print(Text(plan.explain()), soft_wrap=not console.is_terminal)
    console.print(
        f"\nViews and clicks of {_span()} flow in {seconds:g} seconds; Ctrl-C ends them early.\n",
        soft_wrap=not console.is_terminal,
    )


def _span() -> str:
    return f"{NOON:%H:%M} to {NOON + SPAN:%H:%M}"


def show_summary(totals: Totals, found: pl.DataFrame, correct: bool, console: Console) -> None:
    last = totals.last
    assert last is not None, "the query has read rows, so it has reported"
    by_stream = ", ".join(
        f"{sum(step.streams[name].rows for step in totals.steps.values()):,} {name}"
        for name in last.streams
    )
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column(justify="right", style="cyan")
    table.add_column()
    table.add_row("rows in", f"{totals.rows:,}", by_stream)
    table.add_row("results", f"{len(found):,}", "clicks within 5 minutes of the view")
    table.add_row(
        "rows/s",
        f"{totals.rows / totals.seconds:,.0f}",
        f"as they came; {totals.join_seconds:.1f} s in the join itself",
    )
    table.add_row("state rows now", f"{totals.state_rows:,}", f"{last.state_bytes / 1e6:,.1f} MB")
    table.add_row("watermark", totals.watermark, f"the streams tell of {_span()}")
    table.add_row("late rows", f"{totals.late:,}", "dropped, and counted")
    verdict = (
        "[green]correct[/]: the very rows of a plain join of all files"
        if correct
        else "[red]WRONG[/]: a plain join of all files gives other rows"
    )
    table.add_row("check", "", verdict)
    console.print()
    console.print(table)


def show_sample(found: pl.DataFrame, console: Console) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), title="two of the results", title_justify="left")
    for name in found.columns:
        table.add_column(name, overflow="fold")
    for row in found.tail(2).rows():
        table.add_row(*(f"{v:%H:%M:%S}" if isinstance(v, datetime) else str(v) for v in row))
    console.print()
    console.print(table)
