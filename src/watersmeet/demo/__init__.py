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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.console import Console
from rich.markup import escape

import watersmeet as wm
from watersmeet.demo import ads
from watersmeet.demo.screen import Screen, Totals, show_plan, show_sample, show_summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: A folder with this file in it is the demo's own.
MARK = ".watersmeet-demo"


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
        show_plan(plan, settings.seconds, console)
        query = (
            plan.dataframe()
            .writeStream.format("parquet")
            .option("path", str(results))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="1 second")
            .start()
        )
        with _interruptible() as interrupted:
            writer = ads.Writer(folder, settings.seconds, settings.rows, interrupted)
            with console.status("Starting the query ..."):
                writer.write_next()
                query.processAllAvailable()
            writer.start()
            totals = _watch(query, writer, settings, console)
        query.stop()
        found = pl.DataFrame(pl.from_arrow(spark.read.parquet(str(results)).toArrow()))
        correct = _same_rows(found, ads.expected(folder))
    finally:
        spark.stop()
    show_summary(totals, found, correct, console)
    show_sample(found, console)
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
    views_df = reader.schema(ads.VIEW_COLUMNS).load(str(folder / "views"))
    clicks_df = reader.schema(ads.CLICK_COLUMNS).load(str(folder / "clicks"))
    views = wm.stream(views_df, "views", time="viewed_at", delay=ads.VIEW_DELAY)
    clicks = wm.stream(clicks_df, "clicks", time="clicked_at", delay=ads.CLICK_DELAY)
    return wm.plan([views, clicks], on="ad_id", within=ads.WITHIN)


def _watch(
    query: StreamingQuery, writer: ads.Writer, settings: Settings, console: Console
) -> Totals:
    """Show how the query goes until it has read all that is written."""
    totals = Totals()
    began = time.monotonic()
    with Screen(console, settings.rows) as screen:
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


def _same_rows(found: pl.DataFrame, expected: pl.DataFrame) -> bool:
    columns = expected.columns
    return found.select(columns).sort(columns).equals(expected.sort(columns))
