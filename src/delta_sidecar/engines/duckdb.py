"""A table as a relation of DuckDB.

Files go to DuckDB's own `read_parquet`. The relation holds what it needs by itself: nothing is registered in the
connection, so nothing is left behind there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from delta_sidecar.data.footers import INT96
from delta_sidecar.data.request import RowRequest
from delta_sidecar.engines.duckdb_sql import PredicateSql, duckdb_type, quoted, scalar_literal, text
from delta_sidecar.engines.engine_plan import EngineReading, NotTranslatedError, Refusals, choose_way
from delta_sidecar.engines.extras import imported
from delta_sidecar.engines.file_list import (
    FILE_NAME,
    ROW_NUMBER,
    FileColumn,
    FileGroup,
    FileList,
)
from delta_sidecar.errors import InputError
from delta_sidecar.predicates.expression import Expression, columns_of
from delta_sidecar.values.types import PrimitiveType

if TYPE_CHECKING:
    import duckdb

    from delta_sidecar.table import DeltaTable
    from delta_sidecar.table_access import Predicate

_ROWS: Final = "__sidecar_rows"
_OTHER: Final = "__sidecar_other"
_PATTERN: Final = frozenset("*?[")
_EXTENSIONS: Final = {"s3": "httpfs", "gs": "httpfs", "az": "azure", "abfss": "azure"}


def to_duckdb(
    table: DeltaTable,
    connection: duckdb.DuckDBPyConnection | None = None,
    predicate: Predicate | None = None,
    columns: Sequence[str] | None = None,
    way: str = "auto",
) -> duckdb.DuckDBPyRelation:
    """The rows of a table as a relation on a connection; on DuckDB's default one if none is given."""
    opened = _opened(connection)
    reading = duckdb_reading(table, predicate, columns, way, opened)
    if reading.file_list is None:
        return opened.from_arrow(reading.condition.dataset(table, columns))
    return _Builder(opened, reading.file_list, reading.request).relation()


def _opened(connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyConnection:
    module = imported("duckdb")
    if connection is not None and not isinstance(connection, module.DuckDBPyConnection):
        raise InputError(f"connection is a {type(connection).__name__}; it takes what duckdb.connect() returns")
    opened: duckdb.DuckDBPyConnection = module.default_connection() if connection is None else connection
    return opened


def duckdb_reading(
    table: DeltaTable,
    predicate: Predicate | None,
    columns: Sequence[str] | None,
    way: str,
    connection: duckdb.DuckDBPyConnection | None = None,
) -> EngineReading:
    """How DuckDB reads the table."""
    scheme, most_deleted = table._access.location.scheme, table.settings.limits.engines.deleted_rows
    refusals = Refusals(
        by_request=lambda request: _unreachable(scheme, connection, way) or _untranslated(request),
        by_listing=lambda files: _pattern(files) or _too_many_deleted(files, most_deleted),
        # Last: a file that is missing has been found by then.
        by_layout=lambda files, request: _forbidden(files, connection) or _spelled_otherwise(files, connection),
    )
    return choose_way(table, "duckdb", refusals, predicate, columns, way)


def _unreachable(scheme: str, connection: duckdb.DuckDBPyConnection | None, way: str) -> str | None:
    """Remote files are DuckDB's own only where the user asks for it: it has its own credentials for them."""
    if scheme == "file":
        return None
    needed = _EXTENSIONS.get(scheme)
    if needed is None:
        return f"DuckDB cannot read {scheme}://"
    if way != "files":
        return f"DuckDB reads {scheme}:// with credentials of its own, the dataset with the table's"
    sql = f"SELECT count(*) FROM duckdb_extensions() WHERE loaded AND extension_name = '{needed}'"
    if connection is None or not connection.sql(sql).fetchall()[0][0]:
        return f"DuckDB reads {scheme}:// with its extension {needed}, which is not loaded on the connection"
    return None


def _pattern(files: FileList) -> str | None:
    for path in files.paths:
        if not _PATTERN.isdisjoint(path):
            return f"DuckDB reads {path} as a pattern"
    return None


def _forbidden(files: FileList, connection: duckdb.DuckDBPyConnection | None) -> str | None:
    """Settings of a connection that keep DuckDB from files. It does not show all of them, so it is asked for a file;
    where it may open some alone, for all of them."""
    opened, module = _opened(connection), imported("duckdb")
    is_free = opened.sql("SELECT current_setting('enable_external_access')").fetchall()[0][0]
    try:
        _names(opened, files.paths[:1] if is_free else files.paths)
    except module.PermissionException:
        return "the connection does not let DuckDB open the files"
    return None


def _spelled_otherwise(files: FileList, connection: duckdb.DuckDBPyConnection | None) -> str | None:
    """Partition values and deleted rows are joined by the file's name. It is the text that a scan was given, unless
    DuckDB finds the file by another: then rows would be lost, and deleted ones come back."""
    if not files.partition.num_columns and not files.has_deletion_vectors:
        return None
    named = _names(_opened(connection), files.paths)
    differing = (path or name for path, name in zip_longest(files.paths, named) if path != name)
    odd = next(differing, None)
    return None if odd is None else f"DuckDB knows {odd} by another name"


def _names(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> list[str]:
    """How DuckDB names the files of a list, in scans and here."""
    listed = ", ".join(map(text, paths))
    return [name for (name,) in connection.sql(f"SELECT file FROM glob([{listed}])").fetchall()] if paths else []


def _too_many_deleted(files: FileList, most: int) -> str | None:
    deleted = sum(vector.cardinality for vector in files.deletion_vectors if vector is not None)
    return f"{deleted:,} rows are deleted by deletion vectors" if deleted > most else None


def _untranslated(request: RowRequest) -> str | None:
    try:
        for field in (*request.output, *request.filter_fields, *request.partition_fields):
            quoted(field.name)
            duckdb_type(field.type)
        if request.row_predicate is not None:
            PredicateSql().write(request.row_predicate)
    except NotTranslatedError as reason:
        return str(reason)
    return None


class _Builder:
    """Makes the relation of a list of files."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, files: FileList, request: RowRequest) -> None:
        self._connection = connection
        self._files = files
        self._request = request
        self._partition = {field.name: field.type for field in request.partition_fields}

    def relation(self) -> duckdb.DuckDBPyRelation:
        pieces = [piece for group in self._files.groups for piece in self._pieces(group)]
        if not pieces:
            return self._connection.sql(f"SELECT {', '.join(self._nulls())} LIMIT 0")
        whole = pieces[0]
        for piece in pieces[1:]:
            whole = whole.union(piece)
        return whole

    def _nulls(self) -> list[str]:
        return [f"CAST(NULL AS {duckdb_type(f.type)}) AS {quoted(f.name)}" for f in self._request.output]

    def _pieces(self, group: FileGroup) -> list[duckdb.DuckDBPyRelation]:
        """Files with deleted rows apart from those without, which need no numbers of rows."""
        deleted = [file for file in group.files if self._files.deletion_vectors[file] is not None]
        whole = [file for file in group.files if self._files.deletion_vectors[file] is None]
        return [
            *([self._piece(group, whole)] if whole else []),
            *([self._piece(group, deleted, has_deleted=True)] if deleted else []),
        ]

    def _piece(self, group: FileGroup, files: Sequence[int], has_deleted: bool = False) -> duckdb.DuckDBPyRelation:
        by_values = self._files.by_partition(files)
        if not has_deleted and len(by_values) == 1:
            scan = self._scan(group, files, by_values[0][0])
            # In one text: DuckDB binds a relation anew at every step.
            return self._connection.sql(f"SELECT {self._output()} FROM ({scan}){self._where()}")
        constants = by_values[0][0] if len(by_values) == 1 else {}
        rows = self._connection.sql(self._scan(group, files, constants, True, has_deleted))
        if has_deleted:
            rows = self._joined(rows, self._deleted(files), (FILE_NAME, ROW_NUMBER), "anti")
        if len(by_values) > 1:
            rows = self._joined(rows, self._values(files), (FILE_NAME,), "inner")
        if self._request.row_predicate is not None:
            rows = rows.filter(self._condition(self._request.row_predicate))
        return rows.project(self._output())

    def _output(self) -> str:
        return ", ".join(quoted(field.name) for field in self._request.output)

    def _where(self) -> str:
        predicate = self._request.row_predicate
        return "" if predicate is None else f" WHERE {self._condition(predicate)}"

    def _scan(
        self,
        group: FileGroup,
        files: Sequence[int],
        constants: dict[str, pa.Scalar],
        with_file: bool = False,
        with_row: bool = False,
    ) -> str:
        columns = [f"{_stored(column)} AS {quoted(column.field.name)}" for column in group.columns]
        columns += [
            f"{scalar_literal(value, self._partition[name])} AS {quoted(name)}" for name, value in constants.items()
        ]
        columns += [quoted(FILE_NAME)] * with_file + [quoted(ROW_NUMBER)] * with_row
        options = ["hive_partitioning = false", "union_by_name = false", "can_have_nan = true"]
        options += ["binary_as_string = false"]  # The connection may say otherwise.
        options += [f"filename = {text(FILE_NAME)}"] * with_file + ["file_row_number = true"] * with_row
        paths = ", ".join(text(self._files.paths[file]) for file in files)
        return f"SELECT {', '.join(columns)} FROM read_parquet([{paths}], {', '.join(options)})"

    def _deleted(self, files: Sequence[int]) -> pa.Table:
        """File and position of every deleted row."""
        rows = [self._files.deleted_rows(file) for file in files]
        counts = [0 if found is None else len(found) for found in rows]
        names = pa.array([self._files.paths[file] for file in files], pa.string())
        places = pa.array(np.repeat(np.arange(len(files), dtype=np.int32), counts))
        positions = np.concatenate([found.positions.astype(np.int64) for found in rows if found is not None])
        return pa.table({FILE_NAME: names.take(places), ROW_NUMBER: pa.array(positions)})

    def _values(self, files: Sequence[int]) -> pa.Table:
        """The partition values of every file."""
        names = pa.array([self._files.paths[file] for file in files], pa.string())
        return self._files.partition.take(pa.array(files, pa.int64())).append_column(FILE_NAME, names)

    def _joined(
        self, rows: duckdb.DuckDBPyRelation, other: pa.Table, names: Sequence[str], how: str
    ) -> duckdb.DuckDBPyRelation:
        joined = self._connection.from_arrow(other).set_alias(_OTHER)
        condition = " AND ".join(f"{_joined_by(_ROWS, name)} = {_joined_by(_OTHER, name)}" for name in names)
        return rows.set_alias(_ROWS).join(joined, condition, how)

    def _condition(self, predicate: Expression) -> str:
        return PredicateSql(self._has_collation(predicate)).write(predicate)

    def _has_collation(self, predicate: Expression) -> bool:
        if not any(column.type == PrimitiveType("string") for column in columns_of(predicate)):
            return False
        return bool(self._connection.sql("SELECT current_setting('default_collation')").fetchall()[0][0])


def _joined_by(relation: str, name: str) -> str:
    """A column of a join. Paths are bytes: by the collation of a session, two files might be one."""
    return f"{relation}.{quoted(name)}" + (' COLLATE "binary"' if name == FILE_NAME else "")


def _stored(column: FileColumn) -> str:
    """A column of the files in the table's type."""
    if column.stored_name is None:
        return f"CAST(NULL AS {duckdb_type(column.field.type)})"
    name = quoted(column.stored_name)
    if column.stored_type is None:
        return name
    if column.stored_type == INT96:
        # Without a zone, which is UTC; a cast would take the session's.
        return f"timezone('UTC', {name})" if column.field.type == PrimitiveType("timestamp") else name
    return f"CAST({name} AS {duckdb_type(column.field.type)})"
