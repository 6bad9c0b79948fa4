"""The pruned files of a listing as an engine's own Parquet scanner needs them, and why files alone may not do.

Files go to an engine by groups. Those of one group store the wanted columns in one way, so that one scan with one
projection reads them all: a column has another name there, another type that widens without a loss, or is missing.
The footers say which, because the log does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.data.convert import StoredTypeError, converter
from delta_sidecar.data.data_files import FILE_COLUMNS
from delta_sidecar.data.deletion_vectors import DeletedRows, Descriptor, deleted_rows_of
from delta_sidecar.data.file_bytes import Sources
from delta_sidecar.data.file_columns import leaf_ranges
from delta_sidecar.data.footers import INT96, FileToLookAt, FooterSchema, footer_schemas
from delta_sidecar.data.request import RowRequest
from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.expression import Expression
from delta_sidecar.storage.uri import Location, resolve_log_path
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.partition_values import partition_array
from delta_sidecar.values.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_type,
)

if TYPE_CHECKING:
    from delta_sidecar.scan.scan_plan import ScanPlan
    from delta_sidecar.table import DeltaTable

_MOST_GROUPS: Final = 16
"""Ways in which files store the columns; more scans than that in one query cost more than they gain."""


FILE_NAME: Final = "__sidecar_file"
"""The column of a scan that has the path of each row's file."""
ROW_NUMBER: Final = "file_row_number"
"""The column of DuckDB's scan that has the place of each row in its file."""
KNOWN_FILE: Final = "__sidecar_known"
"""The column of a join that says that a path was given to the scan."""
_TAKEN: Final = frozenset((FILE_NAME, ROW_NUMBER, KNOWN_FILE))


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of the table in the files of one group."""

    field: StructField
    stored_name: str | None
    """The file's name for it; None where the files do not have it."""
    stored_type: pa.DataType | None
    """What the files store where it is another type than the table's; None where it is the same."""
    arrow_type: pa.DataType | None
    """What Arrow takes it for: text may be a dictionary there."""
    written_type: pa.DataType | None
    """Its type in the Arrow schema that the writer left in the files, which some readers follow; None without one."""


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files that store the wanted columns in one way."""

    columns: tuple[FileColumn, ...]
    files: tuple[int, ...]
    """Their places in the list."""
    zones: frozenset[str] = frozenset()
    """The time zones of all columns in the Arrow schema that the writer left in the files."""


@dataclass(frozen=True, slots=True, eq=False)
class FileList:
    """The files that may hold rows, as an engine needs them."""

    paths: tuple[str, ...]
    """Local paths or URIs, decoded."""
    partition: pa.Table
    """The values of the partition columns that the rows or the predicate need, a row for each file."""
    deletion_vectors: tuple[Descriptor | None, ...]
    groups: tuple[FileGroup, ...]
    """Empty until `with_groups` has read the footers."""
    reason: str | None
    """Why files alone do not give the rows; None if they do."""
    listing: ScanPlan
    """How the files were found."""
    headline: str
    """What that took, in one line."""
    is_complete: bool
    """Whether these are all the files: a listing that grows too long is left."""
    _log_files: tuple[FileToLookAt, ...]
    _sources: Sources

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self._log_files)

    @property
    def has_deletion_vectors(self) -> bool:
        return any(vector is not None for vector in self.deletion_vectors)

    def deleted_rows(self, file: int) -> DeletedRows | None:
        """The deleted rows of a file; None without a deletion vector."""
        return deleted_rows_of(self.deletion_vectors[file], self._sources)

    def by_partition(self, files: Sequence[int]) -> list[tuple[dict[str, pa.Scalar], list[int]]]:
        """Files by their partition values."""
        if not self.partition.num_columns:
            return [({}, list(files))]
        rows = self.partition.take(pa.array(files, pa.int64()))
        encoded = [_codes(column.combine_chunks()) for column in rows.columns]
        found: dict[tuple[Any, ...], list[int]] = {}
        for place, key in enumerate(zip(*encoded, strict=True)):
            found.setdefault(key, []).append(place)
        return [
            ({name: rows.column(name)[places[0]] for name in rows.column_names}, [files[place] for place in places])
            for places in found.values()
        ]


def _codes(values: pa.Array) -> list[int | None]:
    """A number for each distinct value: NaN is one, and zero and minus zero are two."""
    codes: list[int | None] = values.dictionary_encode().indices.to_pylist()
    return codes


def list_files(table: DeltaTable, request: RowRequest, predicate: Expression | None, most: int) -> FileList:
    """The files of a table that may hold rows of a request; a listing of more than `most` is left. None is opened."""
    access = table._access
    batches: list[pa.RecordBatch] = []
    with access.listing(predicate, (*FILE_COLUMNS, "modification_time")) as scan:
        for batch in scan:
            batches.append(batch)
            if sum(b.num_rows for b in batches) > most:
                break
        found = pa.Table.from_batches(batches, scan.schema)
        plan, headline = scan.plan, scan.headline()
    is_complete = found.num_rows <= most
    partition = _partition(found, request, table.settings.partition_timezone)
    if request.file_predicate is not None and found.num_rows:
        found, partition = _settled(request.file_predicate, found, partition)
    root = access.location
    paths: list[str] = found.column("path").to_pylist()
    sizes: list[int] = found.column("size").to_pylist()
    times: list[int | None] = found.column("modification_time").to_pylist()
    vectors = [None if row is None else Descriptor.from_row(row) for row in found.column("deletion_vector").to_pylist()]
    places = [resolve_log_path(root, path) for path in paths]
    reason = f"there are more than {most:,} files" if not is_complete else _misplaced(root, places)
    return FileList(
        paths=tuple(place.text for place in places),
        partition=partition,
        deletion_vectors=tuple(vectors),
        groups=(),
        reason=reason or _taken(request.partition_fields),
        listing=plan,
        headline=headline,
        is_complete=is_complete,
        _log_files=tuple(FileToLookAt(*file) for file in zip(paths, sizes, times, strict=True)),
        _sources=access.sources(),
    )


def with_groups(files: FileList, request: RowRequest) -> FileList:
    """The list with its files in groups, or with the reason why there are none; the footers are read."""
    groups, reason = _grouped(files._log_files, files._sources, request)
    return replace(files, groups=groups, reason=reason)


def _taken(fields: Iterable[StructField]) -> str | None:
    for field in fields:
        if folded(field.name) in _TAKEN:
            return f"column {field.name!r} has a name that scans use themselves"
    return None


def _misplaced(root: Location, places: Sequence[Location]) -> str | None:
    """Files in another store than the table's, where an engine may need other credentials, or two that are one: a scan
    knows a file by its path."""
    seen: set[str] = set()
    for place in places:
        if place.text in seen:
            return f"the log has {place.text} twice"
        seen.add(place.text)
        if (place.scheme, place.authority) != (root.scheme, root.authority):
            return f"{place.uri} lies in another store than the table"
    return None


def _partition(found: pa.Table, request: RowRequest, timezone: str) -> pa.Table:
    maps = found.column("partition_values").combine_chunks()
    fields = request.partition_fields
    arrays = [partition_array(maps, field, timezone) for field in fields]
    return pa.Table.from_arrays(arrays, [field.name for field in fields])


def _settled(predicate: Expression, found: pa.Table, partition: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The files whose partition values fulfil the predicate."""
    batch = partition.combine_chunks().to_batches()[0]
    keep = matching(predicate, batch)
    return found.filter(keep), partition.filter(keep)


def _grouped(
    files: Sequence[FileToLookAt], sources: Sources, request: RowRequest
) -> tuple[tuple[FileGroup, ...], str | None]:
    """The groups of files, or the reason why there are none."""
    wanted = (*request.filter_fields, *request.other_fields)
    if not wanted:
        return (FileGroup((), tuple(range(len(files)))),) if files else (), None
    groups: dict[tuple[tuple[FileColumn, ...], frozenset[str]], list[int]] = {}
    by_schema: dict[int, list[int]] = {}
    for place, schema in enumerate(footer_schemas(files, sources)):
        if id(schema) not in by_schema:
            try:
                layout = _layout(schema, wanted, request)
            except _Unlike as reason:
                return (), f"{reason}, in {files[place].path}"
            by_schema[id(schema)] = groups.setdefault((layout, _zones(schema)), [])
        by_schema[id(schema)].append(place)
    if len(groups) > _MOST_GROUPS:
        return (), f"files store the columns in {len(groups)} different ways"
    return tuple(FileGroup(columns, tuple(places), zones) for (columns, zones), places in groups.items()), None


def _zones(schema: FooterSchema) -> frozenset[str]:
    leaves = [leaf for field in schema.written or () for leaf in _leaves_of(field.type)]
    return frozenset(leaf.tz for leaf in leaves if pat.is_timestamp(leaf) and leaf.tz is not None)


class _Unlike(Exception):
    """A column that an engine would not read as the table's own reader does."""


def _layout(schema: FooterSchema, wanted: Sequence[StructField], request: RowRequest) -> tuple[FileColumn, ...]:
    fields = list(schema.arrow)
    for name in _TAKEN.intersection(folded(field.name) for field in fields):
        raise _Unlike(f"files have a column {name!r}, a name that scanners use themselves")
    leaves = leaf_ranges(fields)
    columns = []
    for field in wanted:
        place = request.match(fields, field)
        if place is None or field.type in (PrimitiveType("void"), PrimitiveType("null")):
            arrow_type(field.type)
            columns.append(FileColumn(field, None, None, None, None))
            continue
        stored = fields[place]
        if [folded(f.name) for f in fields].count(folded(stored.name)) > 1:
            raise _Unlike(f"column {field.name!r} is stored beside one whose name differs by case alone")
        types = [schema.leaves[leaf] for leaf in leaves[place]]
        stored_type = _stored_type(field, stored.type, types, request)
        columns.append(FileColumn(field, stored.name, stored_type, stored.type, _written_type(schema, stored.name)))
    return tuple(columns)


def _written_type(schema: FooterSchema, name: str) -> pa.DataType | None:
    place = -1 if schema.written is None else schema.written.get_field_index(name)
    return None if schema.written is None or place < 0 else schema.written.field(place).type


def _stored_type(
    field: StructField, stored: pa.DataType, leaves: Sequence[pa.DataType | None], request: RowRequest
) -> pa.DataType | None:
    """The type in the files, where it is not the column's own; `_Unlike` if engines might read it differently."""
    unlike = _Unlike(f"column {field.name!r} is {field.type}, stored as {stored}")
    try:
        converter(stored, field.type, request.match)
        target = arrow_type(field.type)
    except (StoredTypeError, UnsupportedTypeError):
        raise unlike from None
    if isinstance(field.type, StructType | ArrayType | MapType):
        if not _same_shape(stored, field.type) or leaves != _leaves_of(target):
            raise _Unlike(f"column {field.name!r} is nested and not stored as the table has it")
        return None
    if field.type == PrimitiveType("variant") or len(leaves) != 1:
        raise unlike
    leaf = leaves[0]
    if leaf == INT96 and pat.is_timestamp(target):
        return INT96
    if leaf is None or leaf != _plain(stored) or not (leaf == target or _widens(leaf, target)):
        raise unlike
    return None if leaf == target else leaf


def _plain(stored: pa.DataType) -> pa.DataType:
    """An Arrow type without the choices that a Parquet file does not know."""
    if pat.is_dictionary(stored):
        return _plain(stored.value_type)
    if pat.is_large_string(stored) or pat.is_string_view(stored):
        return pa.string()
    if pat.is_large_binary(stored) or pat.is_binary_view(stored):
        return pa.binary()
    if pat.is_timestamp(stored) and stored.tz is not None:
        return pa.timestamp(stored.unit, "UTC")
    return stored


def _same_shape(stored: pa.DataType, wanted: DataType) -> bool:
    """Whether a nested type has the fields of the wanted one, by the same names and in the same order."""
    match wanted:
        case StructType(fields):
            names = [f.name for f in stored] if pat.is_struct(stored) else None
            return names == [f.name for f in fields] and all(
                _same_shape(stored.field(i).type, f.type) for i, f in enumerate(fields)
            )
        case ArrayType(element):
            return (pat.is_list(stored) or pat.is_large_list(stored)) and _same_shape(stored.value_type, element)
        case MapType(key, value):
            return pat.is_map(stored) and _same_shape(stored.key_type, key) and _same_shape(stored.item_type, value)
        case PrimitiveType() | DecimalType() if wanted != PrimitiveType("variant"):
            return not pat.is_nested(stored)
    return False


def _leaves_of(data_type: pa.DataType) -> list[pa.DataType]:
    if pat.is_dictionary(data_type):
        return _leaves_of(data_type.value_type)
    if pat.is_map(data_type):
        return [*_leaves_of(data_type.key_type), *_leaves_of(data_type.item_type)]
    if pat.is_nested(data_type):
        return [leaf for i in range(data_type.num_fields) for leaf in _leaves_of(data_type.field(i).type)]
    return [data_type]


def _widens(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether every engine casts the one type to the other without a loss."""
    if pat.is_integer(stored):
        if pat.is_decimal(target):
            return bool(target.precision - target.scale >= _DIGITS[stored.bit_width])
        if pat.is_float64(target):
            return bool(stored.bit_width <= 32)
        return bool(pat.is_integer(target) and stored.bit_width < target.bit_width)
    if pat.is_decimal(stored):
        return bool(
            pat.is_decimal(target)
            and target.scale >= stored.scale
            and target.precision - target.scale >= stored.precision - stored.scale
        )
    if pat.is_timestamp(stored) and pat.is_timestamp(target):
        return bool(stored.unit == "ms" and stored.tz == target.tz)
    if pat.is_date32(stored):
        return bool(pat.is_timestamp(target) and target.tz is None)
    return bool(pat.is_float32(stored) and pat.is_float64(target))


_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
