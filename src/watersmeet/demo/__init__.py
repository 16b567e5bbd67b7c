"""The demo: ad views meet clicks on a local Spark, twice: by Watersmeet and by Spark's own join.

Both join the same files, one after the other. Both are warmed up first, and then race for the same
time. In the end the results of each are compared, row by row, with a plain join of the files that
it has read.

That comparison needs no list of the rows that Spark found late. The data are
made so that it does not matter: every row that could match comes within its
stream's delay, and the clicks that come later than that belong to ads that
were viewed before the demo began.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console
from rich.markup import escape

import watersmeet as wm
from watersmeet.demo import ads, race
from watersmeet.demo.screen import (
    Outcome,
    Screen,
    show_next,
    show_plan,
    show_sample,
    show_summary,
    show_verdict,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A folder with this file in it is the demo's own.
MARK = ".watersmeet-demo"


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    rows: int
    seconds: int
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
    with console.status("Starting Spark ..."):
        spark = _started_spark(folder, log)
    try:
        with console.status("Writing the streams ..."):
            rows = ads.write(folder, settings.rows)
        plan, first = race.ours(spark, folder, results)
        contenders = (first, race.sparks_own(spark, folder))
        show_plan(plan, rows, settings.seconds, console)
        warm_ups = _warm_up(contenders, console)
        ads.add_the_rest(folder)
        outcomes = _race(contenders, warm_ups, settings.seconds, console)
        with console.status("Comparing the results ..."):
            found = {each.name: _rows_of(spark, each) for each in contenders}
            correct = {
                each.name: _same_rows(found[each.name], ads.expected(folder, each.joined_files()))
                for each in contenders
            }
    finally:
        spark.stop()
    show_sample(found[first.name], console)
    show_summary(outcomes, found, console)
    show_verdict(outcomes, correct, console)
    show_next(results, console)
    return 0 if all(correct.values()) else 1


def _warm_up(contenders: tuple[race.Contender, ...], console: Console) -> dict[str, float]:
    """Have all join the first files; how many seconds each took."""
    seconds = dict[str, float]()
    for contender in contenders:
        began = time.monotonic()
        with console.status(f"Warming up {contender.name} ..."):
            race.run(contender)
        seconds[contender.name] = time.monotonic() - began
    return seconds


def _race(
    contenders: tuple[race.Contender, ...],
    warm_ups: dict[str, float],
    seconds: int,
    console: Console,
) -> dict[str, Outcome]:
    """Have one after the other go on with the files, for the same time."""
    outcomes = dict[str, Outcome]()
    with Screen(console, [contender.name for contender in contenders], seconds) as screen:
        for contender in contenders:
            name = contender.name
            watch = functools.partial(screen.show, name)
            query = race.run(contender, seconds=seconds, watch=watch)
            steps = tuple(wm.metrics(query))
            outcomes[name] = Outcome(race.Run.of(query).steady, warm_ups[name], steps)
    return outcomes


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


def _rows_of(spark: SparkSession, contender: race.Contender) -> pl.DataFrame:
    rows = pl.from_arrow(spark.read.parquet(str(contender.results)).toArrow())
    assert isinstance(rows, pl.DataFrame)
    return rows


def _same_rows(found: pl.DataFrame, expected: pl.DataFrame) -> bool:
    columns = expected.columns
    return found.select(columns).sort(columns).equals(expected.sort(columns))
