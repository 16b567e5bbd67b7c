"""The house stays tidy: what was agreed about functions, files and names is checked here.

A rule may have exceptions. Each is listed with its reason, and one that is needed no more fails.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parent.parent / "src" / "watersmeet"
MODULES = sorted(SRC.rglob("*.py"))

FUNCTION_LINES, FILE_LINES, THIN_LINES = 45, 300, 40

#: Longer functions, with the reason.
LONG_FUNCTIONS = {
    "api/enrich.py:plan_enrich": "the arguments of the call, and the record that is made of them",
}
#: Longer files, with the reason.
LONG_FILES: dict[str, str] = {}
#: Small modules with a single user, with the reason.
THIN = {
    "__main__.py": "python -m watersmeet",
    "cli.py": "the command line",
    "cost/ring.py": "the equations of a paper, in its symbols",
    "joins/enrich/chain.py": "a room has one: what backends run",
    "joins/enrich/family.py": "a room has one: its entry in the list of families",
    "joins/equi/chain.py": "a room has one: what backends run",
    "joins/equi/family.py": "a room has one: its entry in the list of families",
    "joins/ring/chain.py": "a room has one: what backends run",
    "joins/ring/family.py": "a room has one: its entry in the list of families",
    "joins/ring/search/progress_log.py": "a line in the worker's log, apart from the search",
    "spark/checkpoint/copy.py": "copying files, apart from what becomes of rows",
    "spark/checkpoint/unsafe_rows.py": "a binary format of Spark's, with its drawing",
    "spark/query/store.py": "the state on Spark, as a store",
    "spark/session/driver_worker.py": "it is run as a program",
    "spark/session/warm_up.py": "processes that are started early: nothing else depends on them",
    "spark/sql/ranks.py": "the order of each type's values, apart from what searches by it",
    "spark/tables/temporary.py": "an exit handler of the process",
}
#: Words of the glossary that are easily used for something else, and the names that have them.
WORDS = {
    "partition": {"OpenPartition", "PartitionReader", "PartitionWriter", "partitions"},
    "place": {"InPlace", "in_place", "places"},
    "rank": {"Rank", "ranks"},
    "run": {"FormulaRuns", "LocalRun", "Run", "RunBlock", "Runs", "run", "runs"},
    "settle": set[str](),
}
BANNED = {"manager", "helper", "helpers", "util", "utils", "misc", "impl", "stuff"}
#: Spark, Python or a user calls these by name.
CALLED_FROM_OUTSIDE = {
    "_repr_html_",  # notebooks
    "construct_array_type",  # pandas
    "expected_share",
    "handleExpiredTimer",
    "handleInputRows",
    "init",
    "hit_rate",
    "isna",
    "onQueryIdle",
    "onQueryProgress",
    "onQueryStarted",
    "onQueryTerminated",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(SRC))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef))


def classes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))


def definitions(path: Path) -> list[ast.FunctionDef | ast.ClassDef]:
    return [*functions(path), *classes(path)]


def docstring_lines(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> set[int]:
    if ast.get_docstring(node, clean=False) is None:
        return set()
    return {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}


def docstrings(path: Path) -> set[int]:
    """The lines of all docstrings."""
    documented = set[int]()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            documented |= docstring_lines(node)
    return documented


def constants(path: Path) -> Iterator[str]:
    """The names that a module assigns."""
    for node in tree_of(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def code_lines(path: Path) -> int:
    """The lines that are neither blank, nor a comment, nor in a docstring."""
    documented = docstrings(path)
    lines = enumerate(path.read_text().splitlines(), start=1)
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in documented
        for number, line in lines
    )


def test_functions_are_short() -> None:
    long = {
        f"{name_of(path)}:{function.name}"
        for path in MODULES
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 - len(docstring_lines(function))
        > FUNCTION_LINES
    }
    assert long == LONG_FUNCTIONS.keys()


def test_files_are_short() -> None:
    long = {name_of(path) for path in MODULES if len(path.read_text().splitlines()) > FILE_LINES}
    assert long == LONG_FILES.keys()


def dotted(path: Path) -> str:
    """The name under which a module is imported."""
    return ".".join(("watersmeet", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(
        ".__init__"
    )


def imports(path: Path) -> Iterator[str]:
    """The modules that a module imports, and those whose names it imports."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_a_thin_module_has_two_users() -> None:
    users = Counter[str]()
    for path in MODULES:
        users.update(set(imports(path)))
    thin = set()
    for path in MODULES:
        if path.name == "__init__.py" or code_lines(path) >= THIN_LINES:
            continue
        if users[dotted(path)] < 2:
            thin.add(name_of(path))
    assert thin == THIN.keys()


def test_a_class_name_is_used_once() -> None:
    found = Counter(
        node.name
        for path in MODULES
        for node in tree_of(path).body
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def names() -> list[str]:
    """The names of all modules and classes."""
    return [*{path.stem for path in MODULES}, *(c.name for path in MODULES for c in classes(path))]


def test_names_are_of_the_domain() -> None:
    assert [name for name in names() if words(name) & BANNED] == []


def test_a_word_of_the_glossary_means_one_thing() -> None:
    for word, having in WORDS.items():
        assert {name for name in names() if words(name) & {word, f"{word}s"}} == having
    glossary = (SRC.parent.parent / "docs" / "glossary.md").read_text()
    assert [word for word in WORDS if f"- **{word}" not in glossary] == []


def defined(path: Path) -> set[str]:
    """Every name that a module defines, imports or uses as an attribute."""
    nodes = [*ast.walk(tree_of(path))]
    found = {n.name for n in nodes if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.alias)}
    found |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return found | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def test_references_name_what_is_there() -> None:
    """Of references in docstrings, such as to a class: a name of the module, one behind the name of
    a module, or one that the package or its public interface has."""
    modules = {dotted(path): path for path in MODULES}
    wrong = []
    for path in MODULES:
        folder = path.parent / "__init__.py"
        near = defined(path) | defined(folder) | defined(SRC / "__init__.py")
        for role, target in re.findall(r":(\w+):`~?([\w.]+)`", path.read_text()):
            full = dotted(folder) + target if target.startswith(".") else target
            module = full
            while module and module not in modules:
                module = module.rpartition(".")[0]
            rest = {*full[len(module) :].strip(".").split(".")} - {""}
            known = defined(modules[module]) if module else near
            if (role == "mod" and rest) or not rest <= known:
                wrong.append(f"{name_of(path)}: {target}")
    assert wrong == []


def test_every_name_is_used() -> None:
    """Functions, classes and constants are used by a line of the package other than the one that
    defines them. (Names in short strings count, but for docstrings: annotations, getattr.)"""
    used = Counter[str]()
    for path in MODULES:
        documented = docstrings(path)
        for node in ast.walk(tree_of(path)):
            if getattr(node, "lineno", None) in documented:
                continue
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
            elif isinstance(node, ast.alias):
                used[node.name] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.update(re.findall(r"\w+", node.value) if len(node.value) < 200 else [])
    defined = [
        (path, name)
        for path in MODULES
        for name in [*(node.name for node in definitions(path)), *constants(path)]
    ]
    unused = sorted(
        f"{name_of(path)}:{name}"
        for path, name in defined
        if not used[name] and not name.startswith("__") and name not in CALLED_FROM_OUTSIDE
    )
    assert unused == []


def test_every_family_is_in_the_contracts() -> None:
    """A folder under joins/ is a family: it is in the list, and in both contracts of imports."""
    rooms = {path.parent.name for path in SRC.glob("joins/*/__init__.py")}
    config = tomllib.loads((SRC.parent.parent / "pyproject.toml").read_text())
    contracts = {each["id"]: each for each in config["tool"]["importlinter"]["contracts"]}
    modules = {f"watersmeet.joins.{room}" for room in rooms}
    assert set(contracts["families"]["modules"]) == modules
    assert set(contracts["spark-families"]["forbidden_modules"]) == modules
    listed = (SRC / "joins" / "families.py").read_text()
    assert [room for room in rooms if f"watersmeet.joins.{room}." not in listed] == []
