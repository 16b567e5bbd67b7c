"""Do the tests notice small faults? Puts faults into the code, one at a time, and runs the tests.

    python scripts/mutants.py --count 100 --seed 1

A fault is one of Cosmic Ray's: another operator or number, a condition the other way round, a
loop that ends at once, a decorator left out. Each fault is at a place of its own, and the places
are drawn at random. A fault is *noticed* if a test that needs no JVM fails, or does not end.

The checkout is left alone: the work is done in copies of it, one for each process. What survives
is printed as a difference, to be read: an equivalent fault, or a test that is missing?
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, WorkResult

ROOT = Path(__file__).parent.parent
MUTATED = tuple(
    f"src/watersmeet/{name}" for name in ("joins", "table", "state", "segments", "conditions")
)
TESTS = (
    *(f"tests/{name}" for name in ("state", "segments", "conditions", "rows", "table")),
    "tests/joins",
    "tests/conformance",
    *MUTATED,
)
#: What is only one family's is run by no other tests.
OF_FAMILY = {
    "enrich": ("tests/joins/enrich",),
    "ring": ("tests/joins/ring", "tests/conformance/test_ring.py"),
    "table": ("tests/table", "tests/joins/enrich"),
}
#: A fault that makes the tests take that many times as long counts as noticed: it may never end.
PATIENCE = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="how many faults")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="only files whose path contains this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(suffix="-mutants") as folder:
        first = copied(Path(folder) / "first")
        started = time.monotonic()
        subprocess.run(test_command(TESTS), cwd=first, env=environment(first), check=True)
        limit = PATIENCE * (time.monotonic() - started) * options.processes
        drawn = sample(first, options.only, options.count, options.seed)
        print(f"{len(drawn)} faults, seed {options.seed}; at most {limit:.0f} s each", flush=True)
        report(drawn, tried(drawn, Path(folder), limit, options.processes))


def copied(to: Path) -> Path:
    """The files of this checkout that git knows, as they are now."""
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for name in names:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    return to


def test_command(tests: Iterable[str]) -> list[str]:
    options = ["-x", "-q", "-m", "not spark", "-p", "no:cacheprovider", "--no-header"]
    return [sys.executable, "-m", "pytest", *options, *tests]


def tests_of(module: Path, checkout: Path) -> list[str]:
    """The tests that may run a module. First the module itself, for its doctests, and test files
    with its name: they tell soonest. (Pytest runs no test twice.)"""
    files = (checkout / "tests").rglob(f"test_*{module.stem}*.py")
    near = [path for path in (module, *sorted(files)) if "spark" not in path.parts]
    others = next((OF_FAMILY[name] for name in module.parts if name in OF_FAMILY), TESTS)
    return [*(str(path.relative_to(checkout)) for path in near), *others]


def environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{checkout / 'src'}:{checkout}"}


def sample(checkout: Path, only: str, count: int, seed: int) -> list[MutationSpec]:
    """So many faults, each at another place: of a place's possible faults, one at random."""
    places: dict[Any, list[MutationSpec]] = {}
    for fault in all_faults(checkout, only):
        places.setdefault((fault.module_path, fault.start_pos, fault.end_pos), []).append(fault)
    choose = random.Random(seed)
    chosen = [choose.choice(faults) for _, faults in sorted(places.items())]
    return choose.sample(chosen, min(count, len(chosen)))


def all_faults(checkout: Path, only: str) -> Iterator[MutationSpec]:
    modules = [
        path
        for folder in MUTATED
        for path in sorted((checkout / folder).rglob("*.py"))
        if only in str(path.relative_to(checkout))
    ]
    with use_db(str(checkout / "faults.sqlite"), WorkDB.Mode.create) as db:
        init(modules, db, operator_cfgs={})
        faults = [item.mutations[0] for item in db.work_items]
    ignored = {path: not_run(path) for path in modules}
    for fault in faults:
        if not any(start <= fault.start_pos < end for start, end in ignored[fault.module_path]):
            yield fault


Span = tuple[tuple[int, int], tuple[int, int]]


def not_run(path: Path) -> list[Span]:
    """The parts of a module that are for readers and type checkers (that a dataclass is frozen,
    too): a fault there is none."""
    spans: list[Span] = []
    for node in ast.walk(ast.parse(path.read_text())):
        parts: Sequence[ast.expr | ast.stmt | None] = []
        if isinstance(node, ast.FunctionDef):
            parts = [node.returns]
        elif isinstance(node, ast.arg | ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.ClassDef):
            parts = [call for call in node.decorator_list if isinstance(call, ast.Call)]
        elif isinstance(node, ast.Assert):
            parts = [node.msg]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            parts = [node]
        spans += [_span(part) for part in parts if part is not None]
    return spans


def _span(part: ast.expr | ast.stmt) -> Span:
    return (part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)


def tried(
    drawn: list[MutationSpec], folder: Path, limit: float, processes: int
) -> list[WorkResult]:
    """The tests' answer to each fault."""
    results: list[Any] = [None] * len(drawn)
    # Each process works in a copy of its own; a fork would share what has been imported.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        running = {
            pool.submit(notice, fault, folder, limit): number for number, fault in enumerate(drawn)
        }
        for done, future in enumerate(as_completed(running), start=1):
            number = running[future]
            results[number] = future.result()
            fault = drawn[number]
            where = f"{Path(*fault.module_path.parts[-3:])}:{fault.start_pos[0]}"
            print(
                f"{done}/{len(drawn)} {answer(results[number]):11} {where} {fault.operator_name}",
                flush=True,
            )
    return results


def answer(result: WorkResult) -> str:
    if not result.is_killed:
        return "SURVIVED"
    return "did not end" if result.output == "timeout" else "noticed"


def notice(fault: MutationSpec, folder: Path, limit: float) -> WorkResult:
    own = folder / f"process-{os.getpid()}"
    if not own.exists():
        shutil.copytree(folder / "first", own)
    os.chdir(own)
    os.environ.update(environment(own))
    here = MutationSpec(
        module_path=own / fault.module_path.relative_to(folder / "first"),
        operator_name=fault.operator_name,
        occurrence=fault.occurrence,
        start_pos=fault.start_pos,
        end_pos=fault.end_pos,
        operator_args=fault.operator_args,
    )
    command = shlex.join(test_command(tests_of(here.module_path, own)))
    return mutate_and_test([here], command, limit)


def report(drawn: list[MutationSpec], results: list[WorkResult]) -> None:
    survived = [result for result in results if not result.is_killed]
    for result in survived:
        print(f"\n{result.diff}")
    share = 1 - len(survived) / len(drawn)
    print(f"\n{len(drawn) - len(survived)} of {len(drawn)} noticed: {share:.0%}")


if __name__ == "__main__":
    main()
