"""What to read of every data file: columns, predicate, sizes. Decided once, before the first file is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from delta_sidecar.data.data_files import FILE_COLUMNS
from delta_sidecar.data.file_column import file_arrow_field, is_file_column
from delta_sidecar.data.match import FieldMatch, field_match
from delta_sidecar.errors import UnsupportedTypeError
from delta_sidecar.predicates.expression import And, Expression, all_of, columns_of
from delta_sidecar.values.type_changes import unsupported_changes
from delta_sidecar.values.types import StructField, StructType, arrow_field


@dataclass(frozen=True, slots=True)
class RowRequest:
    """A read of rows, the same for every file."""

    output: tuple[StructField, ...]
    """The columns asked for, in order; partition columns among them."""
    schema: pa.Schema
    """The Arrow schema of the rows, in logical names."""
    partition_names: frozenset[str]
    """The logical names of the table's partition columns."""
    partition_fields: tuple[StructField, ...]
    """The partition columns that the output or the predicate needs."""
    filter_fields: tuple[StructField, ...]
    """The columns of the file that the predicate needs: they are read first."""
    other_fields: tuple[StructField, ...]
    """The columns of the file that only the output needs."""
    file_predicate: Expression | None
    """The part of the predicate that partition values settle, once per file."""
    row_predicate: Expression | None
    """The rest of it, for every row."""
    match: FieldMatch
    by_id: bool
    """Whether columns are matched by field id."""
    limit: int | None
    batch_size: int
    group_bytes: int
    """Row groups up to this size (uncompressed) are read whole, larger ones in batches."""

    @property
    def needs_files(self) -> bool:
        """Whether any column is read from the data files themselves."""
        return bool(self.filter_fields or self.other_fields)


def plan_request(
    schema: StructType,
    partition_columns: Sequence[str],
    *,
    mapping_mode: str,
    columns: Sequence[str] | None,
    predicate: Expression | None,
    limit: int | None,
    batch_size: int,
    group_bytes: int,
) -> RowRequest:
    """The request a call means; unknown columns and unreadable types are refused here."""
    output = schema.fields if columns is None else schema.select(columns).fields
    if output or predicate is not None:
        refuse_unsupported_changes(schema)
    partitions = frozenset(schema.select(partition_columns).names)
    file_predicate, row_predicate = _split(predicate, partitions)
    filtered = _fields_of(row_predicate)
    needed = _distinct([*output, *_fields_of(file_predicate), *filtered])
    filter_fields = tuple(f for f in filtered if f.name not in partitions)
    return RowRequest(
        output=output,
        schema=pa.schema([_arrow_field(f) for f in output]),
        partition_names=partitions,
        partition_fields=tuple(f for f in needed if f.name in partitions),
        filter_fields=filter_fields,
        other_fields=tuple(f for f in _distinct(output) if f.name not in partitions and f not in filter_fields),
        file_predicate=file_predicate,
        row_predicate=row_predicate,
        match=field_match(mapping_mode),
        by_id=mapping_mode == "id",
        limit=limit,
        batch_size=batch_size,
        group_bytes=group_bytes,
    )


def file_columns(
    schema: StructType, partition_columns: Sequence[str], columns: Sequence[str] | None, predicate: Expression | None
) -> tuple[str, ...]:
    """What a listing must say of files to read these columns of the matching rows: if nothing is read from the files
    themselves, also how many rows they have, so that none is opened."""
    needed = set(schema.names if columns is None else schema.select(columns).names)
    needed.update(field.name for field in _fields_of(predicate))
    is_in_files = needed - set(schema.select(partition_columns).names)
    return FILE_COLUMNS if is_in_files else (*FILE_COLUMNS, "num_records")


def refuse_unsupported_changes(schema: StructType) -> None:
    """Values written before a change of their column's type that this reader does not know must not be guessed at."""
    for change in unsupported_changes(schema):
        raise UnsupportedTypeError(
            f"{change}, which this reader does not support: it can list the table's files, but not read rows"
        )


def _split(predicate: Expression | None, partitions: frozenset[str]) -> tuple[Expression | None, Expression | None]:
    """The terms that name partition columns alone, and the others."""
    if predicate is None:
        return None, None
    terms = predicate.terms if isinstance(predicate, And) else (predicate,)
    settled = [t for t in terms if all(c.path[0] in partitions for c in columns_of(t))]
    return all_of(settled), all_of([t for t in terms if t not in settled])


def _fields_of(predicate: Expression | None) -> tuple[StructField, ...]:
    """The top-level columns a predicate mentions."""
    return _distinct([c.fields[0] for c in columns_of(predicate)]) if predicate is not None else ()


def _distinct(fields: Sequence[StructField]) -> tuple[StructField, ...]:
    return tuple({f.name: f for f in fields}.values())


def _arrow_field(column: StructField) -> pa.Field:
    if is_file_column(column):
        return file_arrow_field(column)
    try:
        return arrow_field(column)
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(f"column {column.name!r}: {error}") from None
