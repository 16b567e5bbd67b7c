"""Run the window paper's experiments: ``python -m experiments.window [OUTPUT]``."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.report import run
from experiments.window.figures import ALL

if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("experiment-output/window")
    run("Evaluating Window Joins over Unbounded Streams", ALL, output)
