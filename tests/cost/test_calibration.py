"""Calibration is quick, plausible, and done once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from watersmeet.cost import calibration
from watersmeet.state.cache.folder import cache_folder


def test_it_takes_less_than_a_second_and_a_scan_is_cheaper_than_a_search() -> None:
    began = time.perf_counter()
    weights = calibration.measure()
    assert time.perf_counter() - began < 1.0
    assert all(value > 0 for value in asdict(weights).values())
    assert weights.scan < weights.search


def test_so_does_what_comparing_and_sending_costs() -> None:
    began = time.perf_counter()
    weights = calibration.measure_slices()
    assert time.perf_counter() - began < 1.0
    assert all(value > 0 for value in asdict(weights).values())
    assert weights.byte < weights.compare < weights.step


def test_measurements_agree_also_on_a_busy_machine() -> None:
    alone = [asdict(calibration.measure_slices()) for _ in range(3)]
    with busy_cores():
        beside = [asdict(calibration.measure_slices()) for _ in range(3)]
    for weight in ("compare", "send", "step"):
        figures = [weights[weight] for weights in alone + beside]
        assert max(figures) < 3 * min(figures), (weight, figures)


@contextmanager
def busy_cores() -> Iterator[None]:
    """A process for each core that does nothing but use it."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def test_what_was_measured_is_used_again(tmp_path: Path) -> None:
    calibration.forget()
    first = calibration.weights(str(tmp_path))
    (file,) = tmp_path.glob("*/*")
    assert file.stat().st_mode & 0o777 == 0o600
    calibration.forget()
    assert calibration.weights(str(tmp_path)) == first
    file.write_text(json.dumps(asdict(first) | {"scan": 99.0}))
    calibration.forget()
    assert calibration.weights(str(tmp_path)).scan == 99.0


def test_a_damaged_file_or_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    for content in ("", "[]", '{"other": 1}'):
        folder = cache_folder(str(tmp_path)).path
        Path(str(folder), f"weights-{calibration._VERSION}.json").write_text(content)
        calibration.forget()
        assert calibration.weights(str(tmp_path)).scan > 0
    calibration.forget()
    assert calibration.weights("/proc/nowhere").scan > 0
    calibration.forget()
