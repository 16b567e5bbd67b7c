"""The house stays tidy: what was agreed about functions, files and names is checked here.

A rule may have exceptions. Each is listed with its reason, and one that is needed no more fails.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SRC = Path(__file__).parent.parent / "src" / "watersmeet"
MODULES = sorted(SRC.rglob("*.py"))

FUNCTION_LINES, FILE_LINES, THIN_LINES = 45, 300, 40

#: Longer functions: their lines are arguments, listed once.
LONG_FUNCTIONS = {
    "api/enrich.py:plan_enrich": "the arguments of the call, and the record that is made of them",
    "api/joins.py:plan": "the arguments of the call, and the record that is made of them",
}
#: Longer files.
LONG_FILES: dict[str, str] = {}
#: Small modules with a single user.
THIN: dict[str, str] = {}
#: What stands in several rooms under one name, because it is the same thing there.
ROOMS = {
    "chain": "each family's operators",
    "counters": "what is counted, and how counters travel",
    "enrich": "the family's room, its public call, its way on Spark, its second backend",
    "explain": "what a family says of its plan",
    "family": "the contract, and each family's entry",
    "fan_out": "the rule, and how a family knows a row",
    "joins": "the families, their public calls, their second backend",
    "keys": "key columns in a call, and keys of stored rows",
    "layout": "of rows, and of a family's operator",
    "plan": "planning, and a family's plan",
    "policy": "how a join runs, and how a family's does",
    "predicate": "as the user gives it, and as it is evaluated",
    "relocation": "what moves, and how Spark's checkpoint is rewritten",
    "spec": "plain data, and a family's",
    "state": "what is kept, and what a family keeps",
    "step": "a family's step",
    "stream": "",
}
BANNED = {"manager", "helper", "helpers", "util", "utils", "misc", "impl", "stuff"}
#: Spark, Python or a user calls these by name.
CALLED_FROM_OUTSIDE = {
    "construct_array_type",  # pandas
    "expected_share",
    "handleExpiredTimer",
    "handleInputRows",
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


def code_lines(path: Path) -> int:
    """The lines that are neither blank, nor a comment, nor in a docstring."""
    documented = set[int]()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            documented |= docstring_lines(node)
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
        module = "watersmeet." + ".".join(path.relative_to(SRC).with_suffix("").parts)
        if users[module] < 2:
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


def test_a_module_name_means_one_thing() -> None:
    places = defaultdict(list)
    for path in MODULES:
        stem = path.parent.name if path.name == "__init__.py" else path.stem
        if path.parent != SRC:
            places[stem].append(name_of(path))
    twice = {stem: found for stem, found in places.items() if len(found) > 1 and stem not in ROOMS}
    assert twice == {}
    assert [stem for stem in ROOMS if len(places[stem]) < 2] == []


def words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_are_of_the_domain() -> None:
    names = [path.stem for path in MODULES]
    names += [node.name for path in MODULES for node in classes(path)]
    assert [name for name in names if words(name) & BANNED] == []


def test_every_name_is_used() -> None:
    """Of functions and classes that no line of the package uses, but the one that defines them."""
    used = Counter[str]()
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Name):
                used[node.id] += 1
            elif isinstance(node, ast.Attribute):
                used[node.attr] += 1
            elif isinstance(node, ast.alias):
                used[node.name] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.update(re.findall(r"\w+", node.value) if len(node.value) < 200 else [])
    unused = sorted(
        f"{name_of(path)}:{node.name}"
        for path in MODULES
        for node in definitions(path)
        if not used[node.name]
        and not node.name.startswith("__")
        and node.name not in CALLED_FROM_OUTSIDE
    )
    assert unused == []
