"""The rows of one data file.

If there is a predicate, a row group is read in two steps: the columns of the predicate first, the others only if
some row matches. Deleted rows are dropped by position, before the predicate. Row groups that fit `group_bytes` are read
whole, larger ones in batches, so no file is ever held whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_sidecar.arrays import booleans, streaming_pool
from delta_sidecar.data.data_files import DataFile
from delta_sidecar.data.deletion_vectors import ChosenRows, DeletedRows, chosen_rows_of, deleted_rows_of
from delta_sidecar.data.file_bytes import OpenParquet, Sources, open_parquet
from delta_sidecar.data.file_column import is_file_column, repeated_file
from delta_sidecar.data.file_columns import Columns, StoredColumns, stored_columns
from delta_sidecar.data.groups import RowSpan, promising_groups, row_spans
from delta_sidecar.data.read_metrics import ReadMetrics
from delta_sidecar.data.request import RowRequest
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.values.types import StructField

if TYPE_CHECKING:
    from delta_sidecar.data.arrow_step import ArrowStep

_PARALLEL_BYTES = 8 << 20
"""From here the columns of a row group are decoded in parallel; smaller ones are not worth the hand-over."""

_QUICK_BYTES = 64 << 10
"""Up to here a column at hand is decoded sooner than its statistics are asked."""

_SMALLEST_BATCH = 1024
"""A small limit reads small batches of a large row group, but none smaller."""


_BATCH_BYTES = 1 << 20
"""A batch of a large row group may have that many bytes, however little memory there is."""


class RowReader:
    """Reads the rows of a table's files, any number of them at once, in threads of the caller's."""

    def __init__(
        self,
        request: RowRequest,
        sources: Sources,
        step: ArrowStep | None = None,
        metrics: ReadMetrics | None = None,
        choose: Callable[[DataFile], DeletedRows | ChosenRows | None] | None = None,
    ) -> None:
        """`choose` says which rows of a file are wanted, instead of its deletion vector."""
        self._request = request
        self._sources = sources
        self._step = step
        self._choose = choose
        self._columns_by_schema = _ColumnsBySchema(request)
        self.metrics = metrics or ReadMetrics()

    @property
    def schema(self) -> pa.Schema:
        """The rows that are read."""
        return self._request.schema if self._step is None else self._step.schema

    def read(self, file: DataFile) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a file that live and match, in file order."""
        if self._step is None:
            yield from self._matching(file)
            return
        with closing(self._matching(file)) as batches:
            for batch in batches:
                if (stepped := self._step.apply(batch)).num_rows:
                    yield stepped

    def _matching(self, file: DataFile) -> Generator[pa.RecordBatch, None, None]:
        constants = file.constants()
        if not _may_match_by_partition(self._request, constants):
            self.metrics.add(files_skipped=1)
        elif self._request.needs_files or file.live_records is None:
            yield from self._read_parquet(file, constants)
        else:
            yield from _Rows(self._request, constants).counted(file.live_records)

    def promised_rows(self, file: DataFile) -> int:
        """The rows the file is sure to give, from the log alone."""
        filtered = self._request.file_predicate is not None or self._request.row_predicate is not None
        filtered = filtered or (self._step is not None and self._step.filter is not None)
        return 0 if filtered else file.live_records or 0

    def _read_parquet(self, file: DataFile, constants: Mapping[str, pa.Scalar]) -> Iterator[pa.RecordBatch]:
        choice = self._choice(file)
        if isinstance(choice, ChosenRows) and not len(choice):
            return
        with open_parquet(self._sources, file.path, file.size) as source:
            self.metrics.add(files_read=1)
            columns = self._columns_by_schema.of(source.parquet)
            yield from _OpenFile(self._request, columns, source, constants, choice, self.metrics).batches()

    def _choice(self, file: DataFile) -> DeletedRows | ChosenRows | None:
        """Which rows of a file are wanted; None for all."""
        if self._choose is not None:
            return self._choose(file)
        if file.only_in is None:
            return deleted_rows_of(file.deletion_vector, self._sources)
        return chosen_rows_of(file.only_in, file.deletion_vector, self._sources)


def _may_match_by_partition(request: RowRequest, constants: Mapping[str, pa.Scalar]) -> bool:
    """Whether the partition values leave a row of the file to match."""
    if request.file_predicate is None:
        return True
    batch = _batch(1, {name: pa.repeat(value, 1) for name, value in constants.items()})
    return bool(matching(request.file_predicate, batch).true_count)


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """The columns to read from files of one schema: the predicate's, the output's, those of the output alone, all."""

    schema: pa.Schema
    filtering: StoredColumns
    output: StoredColumns
    others: StoredColumns
    all: StoredColumns
    is_direct: bool
    """Without a filter, what is read is the output already."""


class _ColumnsBySchema:
    """The columns to read by file schema; a table has few schemas."""

    _KEPT = 8

    def __init__(self, request: RowRequest) -> None:
        self._request = request
        self._known: list[ReadColumns] = []
        self._lock = threading.Lock()

    def of(self, parquet: pq.ParquetFile) -> ReadColumns:
        schema = parquet.schema_arrow.remove_metadata()
        for known in self._known:
            if known.schema.equals(schema, check_metadata=True):
                return known
        new = self._new(schema)
        with self._lock:
            self._known = [new, *self._known][: self._KEPT]
        return new

    def _new(self, schema: pa.Schema) -> ReadColumns:
        filtering, others = self._request.filter_fields, self._request.other_fields
        unfiltered = self._stored(schema, others)
        return ReadColumns(
            schema,
            filtering=self._stored(schema, filtering),
            output=self._stored(schema, [f for f in filtering if f in self._request.output] + list(others)),
            others=unfiltered,
            all=self._stored(schema, filtering + others),
            is_direct=unfiltered.is_plain and others == self._request.output,
        )

    def _stored(self, schema: pa.Schema, fields: Sequence[StructField]) -> StoredColumns:
        return stored_columns(schema, fields, self._request.match)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Makes output batches of the columns read and the file's constants."""

    request: RowRequest
    constants: Mapping[str, pa.Scalar]
    repeated: dict[str, pa.Array] = field(default_factory=dict)
    """The columns of constants so far."""

    def counted(self, count: int) -> Iterator[pa.RecordBatch]:
        """Rows of which only the number and the constants are wanted."""
        size = self.request.batch_size
        for start in range(0, count, size):
            yield from self.output({}, min(size, count - start), None)

    def direct(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Rows that need nothing but their schema."""
        for batch in table.to_batches(max_chunksize=self.request.batch_size):
            if batch.num_rows:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self.request.schema)

    def filtering(self, columns: Columns, count: int) -> pa.ChunkedArray:
        """Which of the rows the predicate is true for."""
        assert self.request.row_predicate is not None
        table = _table(count, {**columns, **self._repeated(count, self.constants)})
        masks = [matching(self.request.row_predicate, batch) for batch in table.to_batches()]
        return pa.chunked_array(masks, pa.bool_())

    def output(self, columns: Columns, count: int, keep: pa.ChunkedArray | None) -> Iterator[pa.RecordBatch]:
        """The rows to keep, in the request's schema."""
        data = {f.name: columns[f.name] for f in self.request.output if f.name in columns}
        table = _table(count, data)
        if keep is not None and _count(keep) < count:
            table = pc.filter(table, keep, memory_pool=streaming_pool())
        for batch in table.to_batches(max_chunksize=self.request.batch_size) if data else [_batch(table.num_rows, {})]:
            if batch.num_rows:
                yield self._completed(batch, list(data))

    def _completed(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        if not self.request.output:
            return batch
        count, constants = batch.num_rows, [f for f in self.request.output if f.name in self.constants]
        plain = self._repeated(count, [f.name for f in constants if not is_file_column(f)])
        files = {f.name: repeated_file(self.constants[f.name], count) for f in constants if is_file_column(f)}
        arrays = dict(zip(names, batch.columns, strict=True)) | plain | files
        return pa.RecordBatch.from_arrays([arrays[f.name] for f in self.request.output], schema=self.request.schema)

    def _repeated(self, count: int, names: Iterable[str]) -> dict[str, pa.Array]:
        """Constants as columns. Batches share them: each is made once, a little longer, and cut to size."""
        columns: dict[str, pa.Array] = {}
        for name in names:
            if name not in self.repeated or len(self.repeated[name]) < count:
                length = max(count, min(2 * count, self.request.batch_size))
                self.repeated[name] = pa.repeat(self.constants[name], length)
            columns[name] = self.repeated[name].slice(0, count)
        return columns


@dataclass(frozen=True, slots=True)
class _OpenFile:
    """One open Parquet file and what is wanted of it."""

    request: RowRequest
    columns: ReadColumns
    source: OpenParquet
    constants: Mapping[str, pa.Scalar]
    choice: DeletedRows | ChosenRows | None
    """None for all rows."""
    metrics: ReadMetrics

    def batches(self) -> Iterator[pa.RecordBatch]:
        rows = _Rows(self.request, self.constants)
        if not self.request.needs_files:
            total = self.source.parquet.metadata.num_rows
            yield from rows.counted(total if self.choice is None else self.choice.count(total))
            return
        for span in self._spans():
            live = self._live(span)
            if _any(live):
                self.metrics.add(row_groups_read=len(span.groups))
                yield from self._at_once(rows, span, live) if span.whole else self._in_batches(rows, span, live)

    def _spans(self) -> Iterator[RowSpan]:
        metadata = self.source.parquet.metadata
        if self._is_quickly_filtered(metadata):
            return row_spans(self.request, self.columns.all, metadata, [True])
        wanted = promising_groups(self.request, self.columns.schema, metadata)
        self.metrics.add(row_groups_pruned=wanted.count(False))
        return row_spans(self.request, self.columns.all, metadata, wanted)

    def _is_quickly_filtered(self, metadata: pq.FileMetaData) -> bool:
        """Whether testing statistics costs more than filtering: the statistics of a file's one row group repeat what
        the log already said."""
        if metadata.num_row_groups != 1 or self.source.ranged is not None:
            return False
        group = metadata.row_group(0)
        sizes: list[int] = [group.column(leaf).total_uncompressed_size for leaf in self.columns.filtering.leaves]
        return sum(sizes) <= _QUICK_BYTES

    def _at_once(self, rows: _Rows, span: RowSpan, keep: pa.ChunkedArray | None) -> Iterator[pa.RecordBatch]:
        """A span that fits the memory it may take: the columns already read for the predicate are kept."""
        columns = Columns()
        if keep is None and self.request.row_predicate is None and self.columns.is_direct:
            yield from rows.direct(self._table(span, self.columns.others))
            return
        if self.request.row_predicate is not None:
            columns = self.columns.filtering.read(self._table(span, self.columns.filtering))
            keep = _both(keep, rows.filtering(columns, span.count))
            if not _any(keep):
                return
        columns |= self.columns.others.read(self._table(span, self.columns.others))
        yield from rows.output(columns, span.count, keep)

    def _in_batches(self, rows: _Rows, span: RowSpan, keep: pa.ChunkedArray | None) -> Iterator[pa.RecordBatch]:
        """A row group too large to hold: once over the predicate's columns, once more if a row matches."""
        if self.request.row_predicate is not None:
            chunks = [rows.filtering(columns, n).chunks for columns, n in self._stream(span, self.columns.filtering)]
            keep = _both(keep, pa.chunked_array([mask for masks in chunks for mask in masks], pa.bool_()))
            if not _any(keep):
                return
        start, left = 0, span.count if keep is None else _count(keep)
        for columns, count in self._stream(span, self.columns.output):
            kept = None if keep is None else keep.slice(start, count)
            start += count
            if _any(kept):
                yield from rows.output(columns, count, kept)
            left -= count if kept is None else _count(kept)
            if not left:
                # A few rows at the beginning of a large row group need not the rest of it.
                return

    def _live(self, span: RowSpan) -> pa.ChunkedArray | None:
        """Which rows of a span are wanted; None for all."""
        live = None if self.choice is None else self.choice.kept(span.start, span.start + span.count)
        return None if live is None else pa.chunked_array([booleans(live)])

    def _table(self, span: RowSpan, stored: StoredColumns) -> pa.Table:
        """The columns as the file stores them."""
        if not stored.leaves:
            return _table(span.count, {})
        self.source.announce(span.groups, stored.leaves)
        return self.source.parquet.reader.read_row_groups(
            span.groups, column_indices=stored.leaves, use_threads=span.bytes >= _PARALLEL_BYTES
        )

    def _stream(self, span: RowSpan, stored: StoredColumns) -> Iterator[tuple[Columns, int]]:
        if not stored.leaves:
            yield stored.read(_table(span.count, {})), span.count
            return
        size = self._batch_rows(span)
        self.source.announce(span.groups, stored.leaves)
        for batch in self.source.parquet.reader.iter_batches(
            size, row_groups=span.groups, column_indices=stored.leaves, use_threads=span.bytes >= _PARALLEL_BYTES
        ):
            yield stored.read(pa.Table.from_batches([batch])), batch.num_rows

    def _batch_rows(self, span: RowSpan) -> int:
        """Rows of a batch: no more than the memory for a row group holds, however large a row is."""
        request = self.request
        most = min(request.batch_size, max(request.limit or request.batch_size, _SMALLEST_BATCH))
        held = max(request.group_bytes, _BATCH_BYTES) * span.count // max(span.bytes, 1)
        return max(1, min(most, held))


def _both(left: pa.ChunkedArray | None, right: pa.ChunkedArray) -> pa.ChunkedArray:
    return right if left is None else pc.and_(left, right)


def _any(keep: pa.ChunkedArray | None) -> bool:
    return keep is None or _count(keep) > 0


def _count(keep: pa.ChunkedArray) -> int:
    return sum(chunk.true_count for chunk in keep.chunks)


def _batch(count: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """A batch that knows its number of rows even without columns."""
    if columns:
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), count, [None]))


def _table(count: int, columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    if columns:
        return pa.Table.from_arrays(list(columns.values()), names=list(columns))
    return pa.Table.from_batches([_batch(count, {})])
