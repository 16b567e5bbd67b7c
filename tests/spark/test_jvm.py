"""Only one room names Py4J and the private parts of PySpark that lead to the JVM."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import watersmeet
from watersmeet.spark import jvm

SOURCES = Path(watersmeet.__file__).parent
ROOM = Path(jvm.__file__).parent
#: What leads to the JVM, of a session, a context, a DataFrame, a column, a writer or a reader.
ATTRIBUTES = {"_jvm", "_jdf", "_jsparkSession", "_jsc", "_gateway", "_jconf", "_jc", "_jq"}
PACKAGES = ("py4j", "pyspark.java_gateway")


def named(code: str) -> Iterator[str]:
    """What a module names that only that room may."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node.attr
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(PACKAGES))
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGES):
            yield str(node.module)


@pytest.mark.parametrize(
    "code",
    [
        "plan = df._jdf.queryExecution()",
        "import py4j",
        "from py4j.protocol import Py4JError",
        "from pyspark.java_gateway import ensure_callback_server_started",
    ],
)
def test_a_name_of_the_jvms_is_noticed(code: str) -> None:
    assert [*named(code)]


def test_no_other_module_names_the_jvm() -> None:
    others = [path for path in SOURCES.rglob("*.py") if ROOM not in path.parents]
    assert len(others) > 100
    found = {str(path.relative_to(SOURCES)): [*named(path.read_text("utf8"))] for path in others}
    assert {path: names for path, names in found.items() if names} == {}
