"""The columns to read from data files of one schema: which Parquet leaves, and how to convert them.

Files of a table mostly share one schema, so this is decided once per schema and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pat

from delta_sidecar.data.convert import Converter, StoredTypeError, apply, converter
from delta_sidecar.data.match import FieldMatch
from delta_sidecar.errors import CorruptDataError, UnsupportedTypeError
from delta_sidecar.values.types import StructField, arrow_type

Columns: TypeAlias = dict[str, pa.ChunkedArray]
"""Columns of some rows by logical name."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """One wanted column: where it is among the columns read (None: not in the file), and its conversion."""

    name: str
    type: pa.DataType
    place: int | None
    convert: Converter | None

    def read(self, table: pa.Table) -> pa.ChunkedArray:
        if self.place is None:
            return pa.chunked_array([pa.nulls(table.num_rows, self.type)], self.type)
        stored = table.column(self.place)
        if self.convert is None:
            return stored
        try:
            return pa.chunked_array([apply(self.convert, chunk) for chunk in stored.chunks], self.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise CorruptDataError(
                f"column {self.name!r} holds values that do not fit {self.type}: {str(error).splitlines()[0]}"
            ) from None


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """Wanted columns of a file schema."""

    columns: tuple[StoredColumn, ...]
    leaves: tuple[int, ...]
    """The Parquet columns to read, in file order."""

    @property
    def is_plain(self) -> bool:
        """Whether the columns are stored in the wanted order and types, so that nothing is left to do."""
        return all(c.place == i and c.convert is None for i, c in enumerate(self.columns))

    def read(self, table: pa.Table) -> Columns:
        """The columns in the table's types, out of those read from the file."""
        return {column.name: column.read(table) for column in self.columns}


def stored_columns(stored: pa.Schema, wanted: Sequence[StructField], match: FieldMatch) -> StoredColumns:
    """How the wanted columns are read from files of a schema."""
    fields = list(stored)
    places = [match(fields, f) for f in wanted]
    used = sorted({place for place in places if place is not None})
    position = {place: i for i, place in enumerate(used)}
    columns = tuple(_column(f, fields, place, position, match) for f, place in zip(wanted, places, strict=True))
    ranges = leaf_ranges(fields)
    return StoredColumns(columns, tuple(leaf for place in used for leaf in ranges[place]))


def _column(
    wanted: StructField, fields: Sequence[pa.Field], place: int | None, position: dict[int, int], match: FieldMatch
) -> StoredColumn:
    if place is None:
        return StoredColumn(wanted.name, arrow_type(wanted.type), None, None)
    stored = fields[place].type
    try:
        convert = converter(stored, wanted.type, match)
    except StoredTypeError:
        raise UnsupportedTypeError(f"column {wanted.name!r} is {wanted.type}, stored as {stored}") from None
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"column {wanted.name!r} {error}") from None
    return StoredColumn(wanted.name, arrow_type(wanted.type), position[place], convert)


def leaf_ranges(fields: Sequence[pa.Field]) -> list[range]:
    """The Parquet columns of each top-level field. By counting, because dotted names are ambiguous."""
    ranges: list[range] = []
    start = 0
    for field in fields:
        stop = start + _leaf_count(field.type)
        ranges.append(range(start, stop))
        start = stop
    return ranges


def _leaf_count(data_type: pa.DataType) -> int:
    if isinstance(data_type, pa.BaseExtensionType):
        return _leaf_count(data_type.storage_type)
    if pat.is_dictionary(data_type):
        return _leaf_count(data_type.value_type)
    if pat.is_map(data_type):
        return _leaf_count(data_type.key_type) + _leaf_count(data_type.item_type)
    if pat.is_nested(data_type):
        return sum(_leaf_count(data_type.field(i).type) for i in range(data_type.num_fields))
    return 1
