"""Run the ring paper's experiments: ``python -m experiments.ring [OUTPUT]``."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.report import run
from experiments.ring.figures import all_of, here

if __name__ == "__main__":
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("experiment-output/ring")
    run("Scalable Stream Join Processing with Expensive Predicates", all_of(here()), output)
