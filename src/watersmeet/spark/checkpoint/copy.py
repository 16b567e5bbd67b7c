"""A copy of a checkpoint without its stored state, which is written anew.

Beside the stores, Spark describes the state: its variables and their types. That is copied too.
"""

from __future__ import annotations

from watersmeet.spark.checkpoint.checkpoint import STATE
from watersmeet.spark.jvm.hadoop import HadoopFiles


def copy_without_state(files: HadoopFiles, source: str, target: str) -> None:
    """Copy all of a checkpoint but what is stored; what was there is removed."""
    files.remove(target)
    for name in files.names(source):
        if name != STATE:
            files.copy(f"{source}/{name}", f"{target}/{name}")
    _copy_descriptions(files, f"{source}/{STATE}", f"{target}/{STATE}")


def rename_in_descriptions(files: HadoopFiles, folder: str, before: str, after: str) -> None:
    """Spark notes absolute names of the files that describe state: let them be those of another
    folder."""
    for operator in files.names(f"{folder}/{STATE}"):
        versions = f"{folder}/{STATE}/{operator}/_metadata/v2"
        for name in files.names(versions):
            path = f"{versions}/{name}"
            text = files.read(path) or ""
            files.write(path, text.replace(f'"{before}/', f'"{after}/'))


def _copy_descriptions(files: HadoopFiles, source: str, target: str) -> None:
    """Copy what describes state: of an operator; or, for operators that have their schemas there,
    of its first shard or of the stores in it."""
    folders = files.folders(source)
    for name in files.names(source):
        if name.startswith("_"):
            files.copy(f"{source}/{name}", f"{target}/{name}")
        elif name in folders:
            _copy_descriptions(files, f"{source}/{name}", f"{target}/{name}")
