"""Files and folders that Hadoop's file systems reach: this machine's, HDFS, object stores."""

from __future__ import annotations

from pyspark.sql import SparkSession

from watersmeet.spark.jvm.objects import JavaObject, hadoop_settings, packages


class HadoopFiles:
    """Files and folders by their paths, as a session reaches them."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = packages(spark)
        self._settings = hadoop_settings(spark)

    def resolved(self, path: str) -> str:
        """The full path, with its file system."""
        return str(self._path(path).toString())

    def is_escaped(self, path: str) -> bool:
        """Does a path have characters that are others as a URI?"""
        address = self._path(path).toUri()
        return bool(address.getRawPath() != address.getPath())

    def exists(self, path: str) -> bool:
        file = self._path(path)
        return bool(self._system(file).exists(file))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none, if it is not there."""
        return [str(each.getPath().getName()) for each in self._statuses(folder)]

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder; none, if it is not there."""
        inside = [each.getPath() for each in self._statuses(folder) if each.isDirectory()]
        return [str(path.getName()) for path in inside]

    def read(self, path: str) -> str | None:
        """The text of a file; None, if there is none."""
        if not self.exists(path):
            return None
        file = self._path(path)
        stream = self._system(file).open(file)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return str(text)

    def write(self, path: str, text: str) -> None:
        """Make a file with a text, or replace it."""
        file = self._path(path)
        stream = self._system(file).create(file, True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def copy(self, source: str, target: str) -> None:
        """Copy a file, or a folder with all that is in it."""
        begin, goal = self._path(source), self._path(target)
        copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
        copy(self._system(begin), begin, self._system(goal), goal, False, self._settings)

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        file = self._path(path)
        self._system(file).delete(file, True)

    def rename(self, source: str, target: str) -> bool:
        """Give a file or folder another path; False: it could not be done."""
        file = self._path(source)
        return bool(self._system(file).rename(file, self._path(target)))

    def _statuses(self, folder: str) -> list[JavaObject]:
        """What Hadoop knows of all that is in a folder; nothing, if it is not there."""
        path = self._path(folder)
        system = self._system(path)
        return list(system.listStatus(path)) if system.exists(path) else []

    def _path(self, path: str) -> JavaObject:
        java = self._jvm.org.apache.hadoop.fs.Path(path)
        return self._system(java).makeQualified(java)

    def _system(self, path: JavaObject) -> JavaObject:
        """The file system that a path is in."""
        return path.getFileSystem(self._settings)
