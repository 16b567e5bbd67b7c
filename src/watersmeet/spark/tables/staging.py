"""Staging a table: which of it is written, and in which folder.

A staged table is in a folder that is named after what it was made from (:mod:`.identity`).
So a query that starts again finds it, and queries over the same table share it, if it can be known
to be the same; otherwise it belongs to one plan alone. It is written (:mod:`.stage_job`) in
a folder beside that and renamed when it is complete (:mod:`.folders`): of two queries that stage
the same table at the same time, one gets the name and the other uses it.

Of a table whose rows are each from one file, a newer version shares what it can with the one
before: only files are staged that no layer of that has (:mod:`watersmeet.table.origin`).

A version that no step has used for a day, and on which no query has a lease (:mod:`.tenants`),
belongs to none any more; one that a newer version has superseded, after an hour. It is removed when
a table is staged in the same folder. (One that belongs to one plan alone may go before that:
:mod:`.temporary`.)
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.errors import PythonException
from pyspark.sql import DataFrame

from watersmeet.errors import StagedTableError
from watersmeet.rows.layout import RowLayout
from watersmeet.spark.jvm.objects import JavaError
from watersmeet.spark.sql.analysis import reason
from watersmeet.spark.tables.files import only
from watersmeet.spark.tables.folders import give_name, hidden_folder, remove_idle
from watersmeet.spark.tables.identity import Identity, identity, version_of
from watersmeet.spark.tables.stage_job import cannot_stage, write_table
from watersmeet.table.origin import Origin, kept_layers
from watersmeet.table.staged_table import StagedTable, combine


@dataclass(frozen=True)
class Staging:
    """How a table is staged: its ``layout`` and the ``folder`` of all staged tables, in so many
    ``shards``, with partitions of about ``partition`` bytes. ``in_layers``: may a version have
    several layers? ``owner`` names the plan that it is staged for, and ``function`` the function
    that gives the table, if one does."""

    layout: RowLayout
    folder: str
    shards: int
    partition: int
    in_layers: bool
    owner: str
    function: str | None = None

    def identity(self, table: DataFrame) -> Identity:
        """What names a table that is staged so."""
        return identity(
            table,
            self.layout,
            shards=self.shards,
            partition=self.partition,
            owner=self.owner,
            function=self.function,
        )

    def stage(
        self, table: DataFrame, *, known: Identity | None = None, before: StagedTable | None = None
    ) -> StagedTable:
        """The table, staged now if it is not there as a whole; with what it shares with the version
        ``before`` it. ``known`` is its identity, if that is known."""
        known = known or self.identity(table)
        staged = StagedTable(os.path.join(self.folder, known.version))
        if staged.intact():
            staged.touch()
            return staged
        shared = None
        if before is not None and self.in_layers and known.source is not None:
            shared = self._shared(table, known.source, before)
        if shared is None:
            self._make(staged, lambda folder: self._write_whole(table, folder, known.source))
        return shared or staged

    def stage_unknown(self, table: DataFrame) -> StagedTable:
        """A table of which nobody can tell whether it has changed, staged now."""
        staged = StagedTable(os.path.join(self.folder, uuid.uuid4().hex))
        self._make(staged, lambda folder: self._write(table, folder, None))
        return staged

    def _shared(self, table: DataFrame, now: Origin, before: StagedTable) -> StagedTable | None:
        """The table, in layers of which some are of the version before; None if there are none, or
        a file has changed meanwhile."""
        known = {layer: layer.origin() for layer in before.layers if layer.intact()}
        layers, anew = kept_layers(known, now)
        if not layers:
            return None
        if anew:
            added = Origin(now.series, anew)
            layer = StagedTable(os.path.join(self.folder, version_of(added)))
            if not layer.intact():
                rows = only(table, anew)
                if rows is None:
                    return None
                self._make(layer, lambda folder: self._write(rows, folder, added))
            layers.append(layer)
        staged = StagedTable(os.path.join(self.folder, version_of(now)))
        self._make(staged, lambda folder: combine(folder, layers))
        return staged

    def _make(self, staged: StagedTable, write: Callable[[str], object]) -> None:
        """Write a version in a hidden folder, and give it its name."""
        hidden = hidden_folder(staged.folder)
        try:
            os.makedirs(hidden)
            remove_idle(self.folder)
            write(hidden)
            give_name(hidden, staged)
        except OSError as error:
            raise cannot_stage(self.folder, error) from error
        except PythonException as error:
            said = _said_by_task(str(error))
            if said is None:
                raise
            raise StagedTableError(said) from error
        except JavaError as error:
            raise StagedTableError(f"the table cannot be read: {reason(error)}.") from error
        finally:
            shutil.rmtree(hidden, ignore_errors=True)

    def _write_whole(self, table: DataFrame, folder: str, source: Origin | None) -> None:
        """Write all rows of a table. Those of its files are read from just these: another query
        that uses the same DataFrame may have its files listed anew at any time."""
        rows = None if source is None else only(table, source.files)
        if rows is None:
            self._write(table, folder, None)
        else:
            self._write(rows, folder, source)

    def _write(self, table: DataFrame, folder: str, source: Origin | None) -> None:
        """Write all rows of a table, and complete it."""
        if source is not None:
            StagedTable(folder).note_origin(source)
        write_table(table, self.layout, folder, shards=self.shards, partition=self.partition)


def _said_by_task(text: str) -> str | None:
    """Why a task could not write, by the text of the error that Spark makes of its own.

    >>> _said_by_task("...\\nwatersmeet.errors.StagedTableError: no room\\n at ...")
    'no room'
    """
    said = re.search(rf"{StagedTableError.__name__}: (.+)", text)
    return None if said is None else said[1]
