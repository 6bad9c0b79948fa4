"""The files of a range of changes, commit by commit, with what is the same for all their rows."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.data.change_pruning import InsertPruner
from delta_sidecar.data.data_files import DataFile
from delta_sidecar.data.deletion_vectors import Descriptor
from delta_sidecar.errors import UnsupportedTableError
from delta_sidecar.log.actions import DeletionVector
from delta_sidecar.log.change_range import ChangeRange, TimedCommit, still_there
from delta_sidecar.log.commit_changes import FileChange, changes_of_commit
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import FILE_SCHEMA
from delta_sidecar.values.partition_values import partition_column
from delta_sidecar.values.types import PrimitiveType, StructField, arrow_type

TYPE: Final = "_change_type"
VERSION: Final = "_commit_version"
TIMESTAMP: Final = "_commit_timestamp"

RECORDED_TYPE: Final = StructField(TYPE, PrimitiveType("string"), physical_name=TYPE)
"""The kind of change, where each row of a file has its own."""
GIVEN_TYPE: Final = StructField(TYPE, PrimitiveType("string"))
"""The kind of change, where it is the same for all rows of a file. Like the next two, it is in no file: it has no
physical name, so that no column of a file is taken for it."""
COMMIT_VERSION: Final = StructField(VERSION, PrimitiveType("long"))
COMMIT_TIMESTAMP: Final = StructField(TIMESTAMP, PrimitiveType("timestamp"))


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with changed rows."""

    file: DataFile
    """Its constants are the partition values and what is known of the commit."""
    version: int
    change_type: str | None
    """None if each row has its own."""


class ChangedFiles:
    """The files of a range one by one, oldest commit first; closing it stops the reading of commits."""

    def __init__(
        self,
        changes: ChangeRange,
        root_uri: str,
        constants: Sequence[StructField],
        partition_timezone: str,
        pruner: InsertPruner,
    ) -> None:
        """`constants` are the columns that are the same for all rows of a file, as far as they are needed."""
        self._pruner = pruner
        self._judged_since = changes.same_schema_since
        self._range = changes
        self._maker = KeyMaker(root_uri)
        self._fields = [field for field in constants if field.name not in (TYPE, VERSION, TIMESTAMP)]
        self._needed = {field.name for field in constants}
        self._timezone = partition_timezone
        self._files = self._all()

    def __next__(self) -> ChangedFile:
        return next(self._files)

    def close(self) -> None:
        self._files.close()
        self._range.bytes.cancel()

    def _all(self) -> Generator[ChangedFile, None, None]:
        for timed in self._range.oldest_first():
            with still_there(timed.version):
                is_judged = self._pruner.needs_stats and timed.version >= self._judged_since
                changes = changes_of_commit(self._range.bytes, timed.commit.file, self._maker, is_judged)
                time_ms = timed.file_time_ms if changes.in_commit_timestamp is None else changes.in_commit_timestamp
                constants = {VERSION: _long(timed.version), TIMESTAMP: _time(time_ms)}
                constants = {name: value for name, value in constants.items() if name in self._needed}
                for files in changes.files:
                    yield from self._of_commit(timed, self._pruner.kept(files), constants)

    def _of_commit(
        self, timed: TimedCommit, changes: Sequence[FileChange], constants: Mapping[str, pa.Scalar]
    ) -> Generator[ChangedFile, None, None]:
        if not changes:
            return
        for change, values in zip(changes, self._partition_values(timed, changes), strict=True):
            fixed = {**values, **constants}
            if change.change_type is not None and TYPE in self._needed:
                fixed[TYPE] = _TYPES[change.change_type]
            hidden, only = _descriptor(change.hidden), _descriptor(change.only)
            yield ChangedFile(
                DataFile(change.path, change.size, fixed, hidden, only), timed.version, change.change_type
            )

    def _partition_values(self, timed: TimedCommit, changes: Sequence[FileChange]) -> list[dict[str, pa.Scalar | None]]:
        if not self._fields:
            return [{} for _ in changes]
        for change in changes:
            if change.partition_values is None:
                raise UnsupportedTableError(
                    f"version {timed.version} names {change.path!r} without its partition values, which its rows "
                    f"need; leave column {self._fields[0].name!r} out, or start after version {timed.version}"
                )
        values = [dict(change.partition_values or {}) for change in changes]
        maps = arrays.record_batch({"partition_values": values}, FILE_SCHEMA).column(0)
        columns = {field.name: partition_column(maps, field, self._timezone) for field in self._fields}
        return [
            {name: column.values[row] if column.known[row].as_py() else None for name, column in columns.items()}
            for row in range(len(changes))
        ]


def _long(value: int) -> pa.Scalar:
    return arrays.int64s([value])[0]


def _time(milliseconds: int) -> pa.Scalar:
    return arrays.primitives([milliseconds * 1000], arrow_type(COMMIT_TIMESTAMP.type), np.int64)[0]


_TYPES: Final = {name: arrays.strings([name])[0] for name in ("insert", "delete")}


def _descriptor(vector: DeletionVector | None) -> Descriptor | None:
    if vector is None:
        return None
    return Descriptor(
        vector.storageType, vector.pathOrInlineDv, vector.offset, vector.sizeInBytes or 0, vector.cardinality or 0
    )
