"""A shell script by which this Python starts faster as a worker.

Spark puts an archive of PySpark before the rest of every worker's ``PYTHONPATH``. Modules that are
imported from an archive are not kept compiled: each process compiles them anew, for most of a
second. If PySpark is installed with this Python, its workers find it there. So the script removes
the paths that Spark has added, and runs the interpreter.

Invariant: a worker imports the same PySpark with the script and without it. If that is not certain,
there is no script, and workers are started as Spark would.
"""

from __future__ import annotations

import os
import shlex
import site
import sys
import tempfile
import weakref
from pathlib import Path

import pyspark
from pyspark import SparkContext

from watersmeet.spark.jvm.driver import worker_paths
from watersmeet.spark.jvm.objects import bridge_folder
from watersmeet.spark.session import driver_worker as beside_driver

_SCRIPT = """\
#!/bin/sh
# Starts Python for a worker of Spark's. (Written by Watersmeet.)
added={added}:
paths=$PYTHONPATH:
paths=${{paths#"$added"}}
export PYTHONPATH="${{paths%:}}"
case $2 in {module}) exec {python} {quiet} "$2" ;; esac
exec {python} "$@"
"""
#: What starts this Python in the workers of a context.
_launchers: weakref.WeakKeyDictionary[SparkContext, str] = weakref.WeakKeyDictionary()


def launcher(context: SparkContext) -> str:
    """What Spark is to start, on this machine, where a worker is to run this Python: a script, or
    the interpreter itself."""
    known = _launchers.get(context)
    if known is None or not os.access(known, os.X_OK):
        known = _launchers[context] = _made(context)
    return known


def _made(context: SparkContext) -> str:
    added = worker_paths(context)
    if not is_installed(added):
        return sys.executable
    # Spark's own temporary folder: it is deleted when the JVM ends, which starts the workers.
    local = context._temp_dir
    try:
        # Only this user can open what `mkdtemp` makes.
        path = write_script(Path(tempfile.mkdtemp(prefix="python-", dir=local)), added)
    except OSError:
        return sys.executable
    # A file system may be mounted such that nothing on it can be run.
    return str(path) if os.access(path, os.X_OK) else sys.executable


def is_installed(added: str) -> bool:
    """Does this Python import PySpark from its own packages, and is what Spark has ``added`` to the
    paths of workers the archive that was installed with it?"""
    package = Path(pyspark.__file__).parent
    archives = Path(added.split(os.pathsep)[0]).parent
    return (
        os.access("/bin/sh", os.X_OK)
        and Path(beside_driver.__file__).is_file()
        and archives.resolve() == (package / "python" / "lib").resolve()
        and _is_own(package)
        and _is_own(bridge_folder())
    )


def _is_own(package: Path) -> bool:
    """Is a package where this interpreter looks by itself?"""
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return package.parent.resolve() in {Path(folder).resolve() for folder in folders}


def write_script(folder: Path, added: str) -> Path:
    """Write the script into a folder; ``added`` is what it leaves out of ``PYTHONPATH``."""
    text = _SCRIPT.format(
        added=shlex.quote(added),
        module=beside_driver.MODULE,
        python=shlex.quote(sys.executable),
        quiet=shlex.quote(beside_driver.__file__),
    )
    script = folder / "python"
    script.write_text(text, encoding="utf8")
    script.chmod(0o700)
    return script
