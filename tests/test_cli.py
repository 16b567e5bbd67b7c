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
from watersmeet.demo.race import Contender, Run
from watersmeet.demo.screen import Outcome, show_verdict


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


def test_the_race_is_counted_without_its_first_micro_batch() -> None:
    run = Run(((100, 8.0), (100, 1.0), (200, 0.5), (200, 0.5)))
    assert (run.rows, run.seconds, run.rate) == (600, 10.0, 60.0)
    assert (run.steady.rows, run.steady.seconds, run.steady.rate) == (500, 2.0, 250.0)
    assert Run().steady.rate == Run().rate == 0.0


def test_the_results_are_of_the_files_that_the_sink_has_the_rows_of(tmp_path: Path) -> None:
    # Given a query that was stopped when its sink had its third micro-batch, and before the
    # checkpoint said so, while the fourth one was planned,
    contender = Contender("any", None, "", tmp_path / "out", tmp_path / "ck")  # type: ignore[arg-type]
    for folder in (contender.results / "_spark_metadata", contender.checkpoint / "offsets"):
        folder.mkdir(parents=True)
    for number in ("0", "1", "2.compact"):
        (contender.results / "_spark_metadata" / number).touch()
    for batch in range(4):
        offsets = "v1\n{}\n" + 2 * f'{{"logOffset":{batch}}}\n'
        (contender.checkpoint / "offsets" / f"{batch}").write_text(offsets)
    # then its results are of three files.
    assert contender.joined_files() == 3


@pytest.mark.parametrize(
    ("slow", "said"),
    [(Run(((100, 6.0),)), "6.0 times as fast as Spark's own join with"), (Run(), "Too few rows")],
)
def test_the_verdict_is_the_ratio_of_the_race(
    capsys: pytest.CaptureFixture[str], slow: Run, said: str
) -> None:
    runs = {"Watersmeet": Run(((100, 1.0),)), "Spark's own": slow}
    outcomes = {name: Outcome(run, warm_up=1.0, steps=()) for name, run in runs.items()}
    show_verdict(outcomes, {"Watersmeet": True, "Spark's own": False}, Console(width=200))
    told = capsys.readouterr().out
    assert said in told
    assert "other rows than Spark's own" in told


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_joins_what_it_wrote_and_says_so(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [str(Path(sys.executable).parent / "watersmeet"), "demo"]

    done = subprocess.run(
        [*command, "--rows", "40000", "--seconds", "3", "--output", str(output)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for line in ("inner join of views and clicks", "rows in", "state rows now", "late rows"):
        assert line in done.stdout
    assert "Both are warmed up first" in done.stdout
    assert "times as fast as Spark's own join with its default state store" in done.stdout
    assert "rows of a plain join of the files that it read: correct." in done.stdout
    assert 'wm.join([views, clicks], on="ad_id", within="5 minutes")' in done.stdout
    results = pl.read_parquet(output / "results" / "*.parquet")
    assert f"{len(results):,}" in done.stdout
    assert len(results) > 1_000
    assert results.filter(pl.col("clicked_at") - pl.col("viewed_at") > WITHIN).is_empty()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
