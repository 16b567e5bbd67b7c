"""What a session's settings say of enrichments: where tables are staged, and how they are read."""

from __future__ import annotations

import os
import re
import tempfile
from urllib.parse import unquote

from pyspark.sql import SparkSession

from watersmeet.errors import PlanError
from watersmeet.joins.enrich.policy import Facilities
from watersmeet.spark.session.master import on_this_machine

STAGE_FOLDER = "spark.watersmeet.stage.folder"
STAGE_COPIES = "spark.watersmeet.stage.copies"
_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
_NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
#: All staged tables of a folder are in this folder there.
_TABLES = "watersmeet-tables"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


def stage_folder(spark: SparkSession, given: str | None) -> str:
    """The folder in which tables are staged: the one that was given, or that of the settings, or
    beside the checkpoints if these have a folder of their own, or, if all runs on this machine, a
    temporary one."""
    folder = spark.conf.get(STAGE_FOLDER, None) if given is None else given
    if folder is None:
        path = _default_folder(spark)
        if path is None:
            raise PlanError(
                "stage: missing. On a cluster the table is staged in a folder that every executor "
                f"reaches: give stage='/a/shared/folder', or set {STAGE_FOLDER}."
            )
    else:
        path = _given_path(folder) if isinstance(folder, str) else None
        if path is None:
            raise PlanError(
                f"stage={folder!r} is not the path of a folder. Give one that every executor "
                "reaches as a path, like '/mnt/shared/tables'."
            )
    return os.path.join(path, _TABLES)


def _default_folder(spark: SparkSession) -> str | None:
    """The folder of the session's checkpoints, if it has one; or, on one machine, a temporary
    one."""
    checkpoints = spark.conf.get(_CHECKPOINTS, None)
    path = None if checkpoints is None else _local_path(checkpoints)
    if path is None and on_this_machine(spark):
        path = os.path.abspath(tempfile.gettempdir())
    return path


def _given_path(folder: str) -> str | None:
    """The path of a folder that was given for staged tables, as Python and its users write paths
    and URIs: in a URI some characters are escaped, and a path may begin at the home folder.

    >>> [_given_path(folder) for folder in ("file:///a/my%20dir", "/a/my%20dir")]
    ['/a/my dir', '/a/my%20dir']
    >>> _given_path("~/x") == os.path.expanduser("~/x")
    True
    """
    uri = folder.startswith("file:")
    return _local_path(unquote(folder) if uri else os.path.expanduser(folder))


def _local_path(folder: str) -> str | None:
    """The path of a folder as Spark reads it, which may be a URI but takes every character as it
    is; None if it is not one of this machine's. Executors may have another working directory, so
    it is absolute.

    >>> [_local_path(uri) for uri in ("/a/b", "file:/a/b", "file:///a/%20", "s3://a/b", "hdfs:/a")]
    ['/a/b', '/a/b', '/a/%20', None, None]
    """
    path = re.sub(r"^file:(//)?(?=/)", "", folder)
    return os.path.abspath(path) if path and not _SCHEME.match(path) else None


def facilities(spark: SparkSession) -> Facilities:
    """What a session does."""
    return Facilities(wakes=_wakes(spark), copies=_copies(spark), hosts=_hosts(spark))


def _wakes(spark: SparkSession) -> bool:
    """Does Spark run a micro-batch without data when the watermark has moved?"""
    return str(spark.conf.get(_NO_DATA, "true")).lower() == "true"


def _copies(spark: SparkSession) -> bool:
    """Does a host keep copies of the partitions that it reads? It does on a cluster, unless the
    settings say otherwise."""
    given = spark.conf.get(STAGE_COPIES, None)
    if given is None:
        return not on_this_machine(spark)
    if given.lower() not in ("true", "false"):
        raise PlanError(f"{STAGE_COPIES}={given!r} is neither 'true' nor 'false'.")
    return given.lower() == "true"


def _hosts(spark: SparkSession) -> int:
    """How many hosts run the query, at most."""
    return 1 if on_this_machine(spark) else spark.sparkContext.defaultParallelism
