"""The demo: ad views meet clicks, live, on a local Spark.

A thread writes both streams as small Parquet files while the join runs; the
terminal shows how it goes. In the end the results are compared, row by row,
with a plain join of all the files.

That comparison needs no list of the rows that Spark found late. The data are
made so that it does not matter: every row that could match comes within its
stream's delay, and the clicks that come later than that belong to ads that
were viewed before the demo began.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import watersmeet as wm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WITHIN = timedelta(minutes=5)
VIEW_DELAY = timedelta(seconds=10)
CLICK_DELAY = timedelta(seconds=20)

VIEW_COLUMNS = "ad_id bigint, user_id bigint, campaign string, price double, viewed_at timestamp"
CLICK_COLUMNS = "ad_id bigint, device string, clicked_at timestamp"

#: The streams tell of so much time, however long they flow.
SPAN = timedelta(minutes=20)
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
#: A file of each stream is written every so many seconds.
TICK = 0.5
#: A folder with this file in it is the demo's own.
MARK = ".watersmeet-demo"

_CAMPAIGNS = ("spring sale", "new shoes", "city trips", "coffee club", "phone plan", "museum night")
_DEVICES = ("phone", "tablet", "desktop")
_CLICKS_PER_VIEW = 0.2


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    seconds: float
    rows: int
    output: Path


def run(settings: Settings) -> int:
    """Run the demo; the process's exit code."""
    console = Console(highlight=False)
    try:
        log = _prepare(settings.output)
    except FileExistsError as error:
        console.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
        return 2
    # The folder may be in use to the last: by the writer if the query fails.
    with tempfile.TemporaryDirectory("-watersmeet-demo", ignore_cleanup_errors=True) as folder:
        try:
            return _run(settings, Path(folder), log, console)
        except KeyboardInterrupt:
            console.print("Stopped.")
            return 130
        except Exception as error:
            reason = str(error).strip().partition("\n")[0]
            console.print(
                f"[red]The demo failed:[/] {type(error).__name__}: {escape(reason)}\n"
                f"Spark's log is in {escape(str(log))}",
                soft_wrap=True,
            )
            return 1


def _run(settings: Settings, folder: Path, log: Path, console: Console) -> int:
    results = settings.output / "results"
    console.print("Starting Spark ...\n")
    # A JVM whose start is interrupted would stay behind for ever: see it through.
    with _interruptible() as interrupted:
        spark = _started_spark(folder, log)
    try:
        if interrupted.is_set():
            raise KeyboardInterrupt
        for name in ("views", "clicks"):
            (folder / name).mkdir()
        plan = _plan(spark, folder)
        _show_plan(plan, settings, console)
        query = (
            plan.dataframe()
            .writeStream.format("parquet")
            .option("path", str(results))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )
        with _interruptible() as interrupted:
            writer = Writer(folder, settings, interrupted)
            with console.status("Starting the query ..."):
                writer.write_next()
                query.processAllAvailable()
            writer.start()
            totals = _watch(query, writer, settings, console)
        query.stop()
        found = pl.DataFrame(pl.from_arrow(spark.read.parquet(str(results)).toArrow()))
        correct = _same_rows(found, _expected(folder))
    finally:
        spark.stop()
    _show_summary(totals, found, correct, console)
    _show_sample(found, console)
    console.print(
        f"\nThe results are in [bold]{escape(str(results))}[/] (Parquet).", soft_wrap=True
    )
    if interrupted.is_set():
        console.print("The streams were ended early, by Ctrl-C.")
        return 130
    return 0 if correct else 1


def _prepare(output: Path) -> Path:
    """Empty the demo's own folder, or make it; the path of Spark's log in it."""
    mark, log = output / MARK, output / "spark.log"
    if output.exists() and not mark.exists() and (output.is_file() or any(output.iterdir())):
        raise FileExistsError(
            f"{output} is there already and is not the demo's: choose another --output."
        )
    output.mkdir(parents=True, exist_ok=True)
    mark.touch()
    shutil.rmtree(output / "results", ignore_errors=True)
    log.unlink(missing_ok=True)
    return log


# --- Spark


def _started_spark(folder: Path, log: Path) -> SparkSession:
    with _output_to(log):
        spark = wm.local_session(name="watersmeet demo")
    spark.conf.set("spark.watersmeet.cache.folder", str(folder / "cache"))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


@contextlib.contextmanager
def _output_to(path: Path) -> Iterator[None]:
    """Send what this process and its children print to a file. A child that was
    started meanwhile, as Spark's JVM, goes on writing there."""
    streams = (1, 2)
    kept = [os.dup(stream) for stream in streams]
    with path.open("ab") as file:
        for stream in streams:
            os.dup2(file.fileno(), stream)
        try:
            yield
        finally:
            for stream, copy in zip(streams, kept, strict=True):
                os.dup2(copy, stream)
                os.close(copy)


@contextlib.contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets; the second Ctrl-C interrupts as usual. PySpark's
    own handler would cancel the micro-batch that is running."""
    interrupted = threading.Event()

    def handle(number: int, frame: Any) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _plan(spark: SparkSession, folder: Path) -> wm.Plan:
    reader = spark.readStream.format("parquet")
    views_df = reader.schema(VIEW_COLUMNS).load(str(folder / "views"))
    clicks_df = reader.schema(CLICK_COLUMNS).load(str(folder / "clicks"))
    views = wm.stream(views_df, "views", time="viewed_at", delay=VIEW_DELAY)
    clicks = wm.stream(clicks_df, "clicks", time="clicked_at", delay=CLICK_DELAY)
    return wm.plan([views, clicks], on="ad_id", within=WITHIN)


# --- The data


class Ads:
    """People see ads and click on some, a little out of order.

    :meth:`step` tells what arrives in the next stretch of time. A view arrives up
    to 8 seconds after its time, a click up to 15. One in five views is clicked on,
    a minute later on average, now and then more than ``WITHIN`` later, and
    sometimes twice. From a quarter of ``SPAN`` on there are late clicks too, from
    phones that were offline for minutes.
    """

    def __init__(self, views_per_second: float, *, seed: int = 7) -> None:
        self._rate = views_per_second
        self._random = np.random.default_rng(seed)
        self._now = 0.0
        self._next_ad = 1_000_000
        self._coming = pl.DataFrame(
            schema={"ad_id": pl.Int64, "clicked_at": pl.Float64, "arrives": pl.Float64}
        )

    def step(self, seconds: float) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The views and the clicks that arrive within the next ``seconds``."""
        start, self._now = self._now, self._now + seconds
        views = self._views(start, round(self._rate * seconds))
        self._coming = pl.concat([self._coming, self._clicks_on(views)])
        arrived = self._coming.filter(pl.col("arrives") < self._now).sort("arrives")
        self._coming = self._coming.filter(pl.col("arrives") >= self._now)
        if start >= SPAN.total_seconds() / 4:
            arrived = pl.concat([arrived, self._late(start, len(arrived) // 200)])
        clicks = arrived.with_columns(device=self._choice(_DEVICES, len(arrived)))
        return (
            views.with_columns(_as_time("viewed_at")),
            clicks.select("ad_id", "device", _as_time("clicked_at")),
        )

    def _views(self, start: float, count: int) -> pl.DataFrame:
        random = self._random
        ids = np.arange(self._next_ad, self._next_ad + count)
        self._next_ad += count
        arrives = np.sort(random.uniform(start, self._now, count))
        held_up = random.uniform(0, 8, count) * (random.random(count) < 0.1)
        return pl.DataFrame(
            {
                "ad_id": ids,
                "user_id": random.integers(1, 5_000_000, count),
                "campaign": self._choice(_CAMPAIGNS, count),
                "price": random.gamma(4, 0.3, count).round(3),
                "viewed_at": arrives - held_up,
            }
        )

    def _clicks_on(self, views: pl.DataFrame) -> pl.DataFrame:
        random = self._random
        often = random.poisson(_CLICKS_PER_VIEW, len(views))
        ads = np.repeat(views["ad_id"].to_numpy(), often)
        times = np.repeat(views["viewed_at"].to_numpy(), often)
        times = times + random.exponential(60, len(ads))
        arrives = times + random.uniform(0, 15, len(ads))
        return pl.DataFrame({"ad_id": ads, "clicked_at": times, "arrives": arrives})

    def _late(self, start: float, count: int) -> pl.DataFrame:
        ads = self._random.integers(0, 1_000_000, count)
        times = start - self._random.uniform(300, 600, count)
        arrives = np.full(count, start)
        return pl.DataFrame({"ad_id": ads, "clicked_at": times, "arrives": arrives})

    def _choice(self, names: tuple[str, ...], count: int) -> pl.Series:
        return pl.Series(names).gather(self._random.integers(0, len(names), count))


def _as_time(column: str) -> pl.Expr:
    micros = (pl.col(column) * 1e6).cast(pl.Int64).cast(pl.Duration("us"))
    return (pl.lit(NOON) + micros).alias(column)


class Writer(threading.Thread):
    """Writes the streams, file by file, until they end or ``stop`` is set."""

    def __init__(self, folder: Path, settings: Settings, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self._tick, self._ticks = 0, round(settings.seconds / TICK)
        views_per_second = settings.rows / (1 + _CLICKS_PER_VIEW) / SPAN.total_seconds()
        self._ads = Ads(views_per_second)
        self._stop_early = stop
        self.rows = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            due = time.monotonic()
            while self._tick < self._ticks:
                if self._stop_early.wait(max(0.0, due - time.monotonic())):
                    return
                self.write_next()
                due += TICK
        except Exception as error:
            self.error = error

    def write_next(self) -> None:
        """Write the next file of each stream."""
        views, clicks = self._ads.step(SPAN.total_seconds() / self._ticks)
        self._write("views", views)
        self._write("clicks", clicks)
        self._tick += 1
        self.rows += len(views) + len(clicks)

    def _write(self, stream: str, rows: pl.DataFrame) -> None:
        """Spark passes over names with a dot in front: it never sees half a file."""
        path = self._folder / stream / f"{self._tick:05}.parquet"
        hidden = path.with_name(f".{path.name}")
        rows.write_parquet(hidden, compression="snappy")
        hidden.rename(path)


def _expected(folder: Path) -> pl.DataFrame:
    """The result by a plain join of all that was written."""
    apart = pl.col("clicked_at") - pl.col("viewed_at")
    return (
        pl.scan_parquet(folder / "views" / "*.parquet")
        .join(pl.scan_parquet(folder / "clicks" / "*.parquet"), on="ad_id")
        .filter(apart.abs() <= WITHIN)
        .with_columns(event_time=pl.max_horizontal("viewed_at", "clicked_at"))
        .collect()
    )


def _same_rows(found: pl.DataFrame, expected: pl.DataFrame) -> bool:
    columns = expected.columns
    return found.select(columns).sort(columns).equals(expected.sort(columns))


# --- What the terminal shows


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


def _watch(query: StreamingQuery, writer: Writer, settings: Settings, console: Console) -> Totals:
    """Show how the query goes until it has read all that is written."""
    totals = Totals()
    began = time.monotonic()
    with _Screen(console, settings.rows) as screen:
        while writer.is_alive() or totals.rows < writer.rows:
            time.sleep(0.5)
            if writer.error is not None:
                raise writer.error
            if not query.isActive:
                raise RuntimeError(f"the query ended by itself: {query.exception()}")
            totals.update(query, time.monotonic() - began)
            screen.show(totals, settings.rows if writer.is_alive() else writer.rows)
        # One more batch, without rows, in which the last watermark takes effect.
        query.processAllAvailable()
        totals.update(query, totals.seconds)
        screen.show(totals, writer.rows)
    return totals


class _Screen:
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

    def __enter__(self) -> _Screen:
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


def _show_plan(plan: wm.Plan, settings: Settings, console: Console) -> None:
    console.print(Text(plan.explain()), soft_wrap=not console.is_terminal)
    console.print(
        f"\nViews and clicks of {_span()} flow in {settings.seconds:g} seconds; "
        "Ctrl-C ends them early.\n",
        soft_wrap=not console.is_terminal,
    )


def _span() -> str:
    return f"{NOON:%H:%M} to {NOON + SPAN:%H:%M}"


def _show_summary(totals: Totals, found: pl.DataFrame, correct: bool, console: Console) -> None:
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


def _show_sample(found: pl.DataFrame, console: Console) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), title="two of the results", title_justify="left")
    for name in found.columns:
        table.add_column(name, overflow="fold")
    for row in found.tail(2).rows():
        table.add_row(*(f"{v:%H:%M:%S}" if isinstance(v, datetime) else str(v) for v in row))
    console.print()
    console.print(table)
