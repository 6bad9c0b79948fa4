"""The last step of a read through Arrow: rows cast, filtered and projected by pyarrow's own expressions.

The whole filter is applied here, even the part that was understood and used to skip files: DuckDB and DataFusion do
not check again what they have pushed. It runs in the threads that read, on one batch at a time, so a consumer that
stops stops the reading; pyarrow's own scanner would read up to a gigabyte ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.acero as pac
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pyarrow.types as pat

from delta_sidecar.errors import InputError
from delta_sidecar.predicates.arrow_expression import check_expression
from delta_sidecar.predicates.arrow_tree import ParsedExpression, columns_in

Columns: TypeAlias = Sequence[str] | Mapping[str, pc.Expression] | None
"""Names, or new names with expressions; None for all."""


@dataclass(frozen=True, slots=True)
class ArrowStep:
    names: tuple[str, ...]
    """The columns that are read, by the table's names."""
    source: pa.Schema
    """Those columns in the types in which the expressions find them."""
    schema: pa.Schema
    """The rows that come out."""
    filter: pc.Expression | None
    projection: Mapping[str, pc.Expression] | None
    """Computed columns; None if the output is columns of the source."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that the filter is true of, projected; the batch has the columns `names`."""
        batch = cast_batch(batch, self.source)
        if self.filter is not None:
            batch = _kept(batch, self.filter)
        if self.projection is not None:
            return _computed(batch, self.projection, self.schema)
        if not self.schema.names:
            return _rows_alone(batch.num_rows, self.schema)
        columns = [batch.column(self.source.names.index(name)) for name in self.schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def arrow_step(seen: pa.Schema, columns: Columns = None, filter: ParsedExpression | None = None) -> ArrowStep:  # noqa: A002
    """The step that gives these columns of the rows that a filter is true of; `seen` has the columns there are.

    Raises `UnknownColumnError` or `PredicateError` for a filter that does not fit them; a column that is not there is
    pyarrow's own error.
    """
    if filter is not None:
        check_expression(filter, seen)
    if isinstance(columns, tuple):
        columns = list(columns)
    schema = pds.Scanner.from_batches([], schema=seen, columns=columns).projected_schema
    projection = columns if isinstance(columns, Mapping) else None
    if projection is None and (unknown := [name for name in schema.names if name not in seen.names]):
        raise InputError(f"the column {unknown[0]!r} is special to pyarrow and not offered; leave it out")
    wanted = schema.names if projection is None else _used(map(ParsedExpression, projection.values()), seen)
    needed = {*wanted, *_used([] if filter is None else [filter], seen)}
    if not needed and (filter is not None or projection):
        needed = set(seen.names[:1])  # rows are counted by a column
    source = pa.schema([field for field in seen if field.name in needed])
    condition = None if filter is None else filter.expression
    return ArrowStep(tuple(source.names), source, schema, condition, projection)


def _used(expressions: Iterable[ParsedExpression], seen: pa.Schema) -> set[str]:
    """The columns that expressions need; all, if one of them cannot be read."""
    used: set[str] = set()
    for expression in expressions:
        if expression.tree is None:
            return set(seen.names)
        used.update(columns_in(expression.tree))
    return used


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in the types of a schema with the same columns; a value that does not fit is pyarrow's error."""
    if not schema.names:
        return batch
    arrays = [_cast(array, field.type) for array, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if array.type == data_type:
        return array
    if pat.is_dictionary(data_type):
        return array.cast(data_type.value_type).dictionary_encode().cast(data_type)
    return array.cast(data_type)


def _kept(batch: pa.RecordBatch, condition: pc.Expression) -> pa.RecordBatch:
    mask = _evaluated(batch, [condition], ["kept"]).column(0)
    if pat.is_null(mask.type):
        return batch.slice(0, 0)
    flags = mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask
    return batch if flags.true_count == batch.num_rows else batch.filter(flags)


def _computed(batch: pa.RecordBatch, columns: Mapping[str, pc.Expression], schema: pa.Schema) -> pa.RecordBatch:
    if not columns:
        return _rows_alone(batch.num_rows, schema)
    table = _evaluated(batch, list(columns.values()), list(columns))
    return pa.RecordBatch.from_arrays([_one(column) for column in table.columns], schema=schema)


def _evaluated(batch: pa.RecordBatch, expressions: Sequence[pc.Expression], names: Sequence[str]) -> pa.Table:
    plan: list[Any] = [
        pac.Declaration("table_source", pac.TableSourceNodeOptions(pa.Table.from_batches([batch]))),
        pac.Declaration("project", pac.ProjectNodeOptions(expressions, names)),
    ]
    return pac.Declaration.from_sequence(plan).to_table(use_threads=False)


def _one(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def _rows_alone(count: int, schema: pa.Schema) -> pa.RecordBatch:
    """Rows without columns, which still have a count."""
    return pa.RecordBatch.from_struct_array(
        pa.Array.from_buffers(pa.struct([]), count, [None])
    ).replace_schema_metadata(schema.metadata)
