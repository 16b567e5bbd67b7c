"""Run the metadata paper's experiments: ``python -m experiments.metadata [OUTPUT]``."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.metadata.figures import ALL
from experiments.report import run

if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("experiment-output/metadata")
    run("MJoin: A Metadata-Aware Stream Join Operator", ALL, output)
