"""The command line, from outside."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

import watersmeet as wm
from watersmeet.cli import app
from watersmeet.demo.ads import CLICK_DELAY, NOON, SPAN, VIEW_DELAY, WITHIN, Ads
from watersmeet.demo.race import Run
from watersmeet.demo.screen import show_verdict


@pytest.mark.parametrize("asked", ["version", "--version"])
def test_version_prints_the_version(asked: str) -> None:
    result = CliRunner().invoke(app, [asked])

    assert result.exit_code == 0
    assert result.output.strip() == wm.__version__


#: Runs the command line as where the package is in a zip alone, and not installed.
FROM_ZIP = """
import importlib.metadata as metadata, runpy, sys
found = metadata.Distribution.from_name
def from_name(name):
    if name == "watersmeet":
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.Distribution.from_name = from_name
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("watersmeet", run_name="__main__")
"""


def test_a_zip_of_the_package_works_as_spark_submit_takes_it(tmp_path: Path) -> None:
    package, archive = Path(wm.__file__).parent, tmp_path / "watersmeet.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.rglob("*.py"):
            file.write(path, path.relative_to(package.parent))
    command = [sys.executable, "-c", FROM_ZIP, str(archive), "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == wm.__version__, done.stderr


def test_help_names_the_commands() -> None:
    result = CliRunner().invoke(app, ["--help"])

    assert result.exit_code == 0
    assert "demo" in result.output
    assert "version" in result.output


def test_the_demo_leaves_a_folder_alone_that_is_not_its_own(tmp_path: Path) -> None:
    letter = tmp_path / "results" / "letter.txt"
    letter.parent.mkdir()
    letter.write_text("dear")

    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path)])

    assert result.exit_code == 2
    assert "is not the demo's" in " ".join(result.output.split())
    assert letter.read_text() == "dear"


def test_make_demo_installs_the_runtime_only() -> None:
    root = Path(__file__).parent.parent
    command = ["make", "--dry-run", "--always-make", "VENV=none", "demo"]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert "pip install --constraint none/versions.txt --editable ." in shown
    assert "--requirement" not in shown, "the lock file has linters and tests in it"


def test_rows_that_could_match_come_within_their_streams_delay() -> None:
    ads = Ads(views_per_second=50)
    seen = {"viewed_at": NOON, "clicked_at": NOON}
    for _ in range(80):
        views, clicks = ads.step(SPAN.total_seconds() / 80)
        known = clicks.filter(pl.col("ad_id") >= 1_000_000)
        for rows, time, delay in (
            (views, "viewed_at", VIEW_DELAY),
            (known, "clicked_at", CLICK_DELAY),
        ):
            if len(rows):
                times = rows[time].to_list()
                assert min(times) > seen[time] - delay
                seen[time] = max(seen[time], *times)


def test_the_race_is_counted_as_a_whole_and_once_it_is_warm() -> None:
    # Given a run whose first micro-batch is slow,
    run = Run(((100, 8.0), (100, 1.0), (200, 0.5), (200, 0.5)))
    # then the whole has all of it, and the second half tells how it goes on.
    assert (run.rows, run.seconds, run.rate) == (600, 10.0, 60.0)
    assert (run.warm.rows, run.warm.rate) == (400, 400.0)
    assert Run().warm.rate == Run().rate == 0.0


def test_the_verdict_has_both_ratios(capsys: pytest.CaptureFixture[str]) -> None:
    fast, slow = Run(((100, 4.0), (100, 1.0))), Run(((100, 4.0), (100, 6.0)))
    runs = {"Watersmeet": fast, "Spark's own": slow}
    show_verdict(runs, dict.fromkeys(runs, True), Console(width=200))
    told = capsys.readouterr().out
    assert (
        "6.0 times as fast as Spark's own join, on this machine, once warm; 2.0 times over" in told
    )


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_joins_what_it_wrote_and_says_so(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [str(Path(sys.executable).parent / "watersmeet"), "demo"]

    done = subprocess.run(
        [*command, "--rows", "20000", "--output", str(output)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for line in ("inner join of views and clicks", "rows in", "state rows now", "late rows"):
        assert line in done.stdout
    assert "times as fast as Spark's own join, on this machine, once warm" in done.stdout
    assert "rows/s, warm" in done.stdout
    assert "Both gave the same rows, those of a plain join of all files: correct." in done.stdout
    results = pl.read_parquet(output / "results" / "*.parquet")
    assert f"{len(results):,}" in done.stdout
    assert len(results) > 1_000
    assert results.filter(pl.col("clicked_at") - pl.col("viewed_at") > WITHIN).is_empty()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
