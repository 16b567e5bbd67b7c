"""Run the multiway paper's experiments: ``python -m experiments.multiway [OUTPUT]``."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.multiway.figures import ALL
from experiments.report import run

if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("experiment-output/multiway")
    run("Driver Input Selection for Main-Memory Multi-way Joins", ALL, output)
