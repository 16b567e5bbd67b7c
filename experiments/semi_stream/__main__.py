"""Run the semi-stream paper's experiments: ``python -m experiments.semi_stream [OUTPUT]``."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.report import run
from experiments.semi_stream.figures import FIGURES

if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("experiment-output/semi_stream")
    run("A Memory-Optimal Many-To-Many Semi-Stream Join", FIGURES, output)
