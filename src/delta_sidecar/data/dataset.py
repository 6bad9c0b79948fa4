"""A table's files as a pyarrow dataset, for tables whose rows are exactly the rows of their files.

pyarrow finds a file's columns by their exact names and casts them by its own rules. Before a scan the footers of its
files are looked at; where pyarrow would read one otherwise than `to_batches` does, the rows come from the table's own
reader.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs as pa_fs

from delta_sidecar.data.alike import reads_alike
from delta_sidecar.data.filesystem import StoreHandler
from delta_sidecar.data.request import refuse_unsupported_changes
from delta_sidecar.data.row_stream import RowStream
from delta_sidecar.errors import InputError, UnknownColumnError, UnsupportedTableError
from delta_sidecar.predicates.expression import Column
from delta_sidecar.storage import Store, parse_location, resolve_log_path
from delta_sidecar.storage.store import is_local
from delta_sidecar.values.partition_values import partition_array
from delta_sidecar.values.types import StructType

RowsOf: TypeAlias = Callable[[Iterator[pa.RecordBatch], Sequence[str] | None], RowStream]
"""The rows of files of a listing, of some columns, by the table's own reader."""

_FOOTERS_AT_ONCE: Final = 16
_READ_OPTIONS: Final = ("dictionary_columns", "coerce_int96_timestamp_unit", "binary_type", "list_type")
"""All that pyarrow's read options have: a copy is made of them, the user's object stays as it is."""


class DeltaDataset(pds.FileSystemDataset):  # type: ignore[misc]
    """A `FileSystemDataset` whose fragments are a list: `len(dataset.get_fragments())` is the number of files."""

    _contents: _Contents

    def get_fragments(self, filter: pds.Expression | None = None) -> list[pds.Fragment]:  # noqa: A002
        return list(super().get_fragments(filter))

    def filter(self, expression: pds.Expression) -> DeltaDataset:
        """The dataset without the rows that an expression is not true of."""
        filtered: DeltaDataset = super().filter(expression)
        filtered._contents = self._contents
        return filtered

    def scanner(
        self,
        columns: Any = None,
        filter: pds.Expression | None = None,  # noqa: A002
        **options: Any,
    ) -> pds.Scanner:
        """A scan of the dataset, as every reading of it begins. Where the table's own reader is needed, it can be used
        once."""
        kept: pds.Expression | None = self._scan_options.get("filter")
        both = filter if kept is None else kept if filter is None else kept & filter
        fragments = list(self._contents.files.get_fragments(both))
        if self._contents.are_plain(fragments):
            return super().scanner(columns=columns, filter=filter, **options)
        names: list[str] = self.schema.names
        if both is None and isinstance(columns, list) and set(columns) <= set(names):
            names = list(dict.fromkeys(columns))
        rows = self._contents.rows([fragment.path for fragment in fragments], names).to_reader()
        rows = rows.cast(pa.schema([self.schema.field(name) for name in names]))
        options.pop("fragment_scan_options", None)
        return pds.Scanner.from_batches(rows, columns=columns, filter=both, **options)


class _Contents:
    """The files of a dataset as the listing has them, and how their rows are read without pyarrow's dataset."""

    def __init__(self, schema: StructType, partition_columns: Sequence[str], rows_of: RowsOf) -> None:
        self._stored = [field for field in schema if field.name not in partition_columns]
        self._rows_of = rows_of
        self.files: pds.FileSystemDataset
        """The same files, without a filter."""
        self._batches: list[pa.RecordBatch] = []
        self._places: dict[str, tuple[int, int]] = {}
        self._plain: set[str] = set()
        """Files whose footers have been looked at."""

    def add(self, batch: pa.RecordBatch, paths: Sequence[str]) -> None:
        """Files of the listing, and their paths in the dataset."""
        self._places |= {path: (len(self._batches), row) for row, path in enumerate(paths)}
        self._batches.append(batch)

    def are_plain(self, fragments: Sequence[pds.Fragment]) -> bool:
        """Whether pyarrow reads all of these files as the table's own reader does."""
        new = [fragment for fragment in fragments if fragment.path not in self._plain]
        if not new:
            return True
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            plain = list(pool.map(self._is_plain, new))
        self._plain |= {fragment.path for fragment, ok in zip(new, plain, strict=True) if ok}
        return all(plain)

    def _is_plain(self, fragment: pds.Fragment) -> bool:
        return reads_alike(pa.struct(list(fragment.physical_schema)), StructType(tuple(self._stored)))

    def rows(self, paths: Sequence[str], columns: Sequence[str]) -> RowStream:
        """The rows of some files, in their order."""
        places = [self._places[path] for path in paths]
        return self._rows_of((self._batches[at].slice(row, 1) for at, row in places), columns)


def make_dataset(
    files: Iterable[pa.RecordBatch],
    schema: StructType,
    partition_columns: Sequence[str],
    mapping_mode: str,
    store: Store,
    partition_timezone: str,
    rows_of: RowsOf,
    arrow_schema: pa.Schema,
    read_options: pds.ParquetReadOptions | None = None,
) -> DeltaDataset:
    """A dataset of the files of a listing, with columns of `schema` in the types of `arrow_schema`; refused where files
    alone do not give the rows."""
    if mapping_mode != "none":
        raise UnsupportedTableError(
            f"the table maps its columns by {mapping_mode}, which a pyarrow dataset cannot follow; "
            "use to_batches, to_pyarrow_table or to_pandas"
        )
    refuse_unsupported_changes(schema)
    places = _Places(store)
    _refuse_unknown_columns(arrow_schema, schema)
    parquet = _format(read_options)
    partition = [Column((schema.resolve([name])[0],), is_partition=True) for name in partition_columns]
    arrow_schema = _with_dictionaries(arrow_schema, parquet.read_options.dictionary_columns - set(map(str, partition)))
    columns = {c: arrow_schema.field(str(c)).type for c in partition if str(c) in arrow_schema.names}
    contents = _Contents(schema, partition_columns, rows_of)
    fragments: list[pds.Fragment] = []
    for batch in files:
        _refuse_deletion_vectors(batch)
        expressions = _partition_expressions(batch, columns, partition_timezone)
        paths = [places.path(path) for path in batch.column("path").to_pylist()]
        contents.add(batch, paths)
        for path, expression in zip(paths, expressions, strict=True):
            fragments.append(parquet.make_fragment(path, places.filesystem, expression))
    contents.files = pds.FileSystemDataset(fragments, arrow_schema, parquet, places.filesystem)
    dataset = DeltaDataset(fragments, arrow_schema, parquet, places.filesystem)
    dataset._contents = contents
    return dataset


def _format(given: pds.ParquetReadOptions | None) -> pds.ParquetFileFormat:
    """Parquet by the user's options; INT96 in microseconds, as the table has them: nanoseconds, which pyarrow takes
    unless told, end in the year 2262."""
    if given is not None and not isinstance(given, pds.ParquetReadOptions):
        raise InputError(
            f"parquet_read_options takes a pyarrow.dataset.ParquetReadOptions, not a {type(given).__name__}"
        )
    options = {} if given is None else {name: getattr(given, name) for name in _READ_OPTIONS}
    if options.get("coerce_int96_timestamp_unit", "ns") == "ns":
        options["coerce_int96_timestamp_unit"] = "us"
    return pds.ParquetFileFormat(read_options=pds.ParquetReadOptions(**options))


def _with_dictionaries(schema: pa.Schema, names: Collection[str]) -> pa.Schema:
    """The schema of rows whose columns of these names are read as dictionaries."""
    coded = [f.name in names and not pa.types.is_dictionary(f.type) for f in schema]
    fields = [f.with_type(pa.dictionary(pa.int32(), f.type)) if c else f for f, c in zip(schema, coded, strict=True)]
    return pa.schema(fields, schema.metadata)


def _refuse_unknown_columns(arrow_schema: pa.Schema, schema: StructType) -> None:
    for name in arrow_schema.names:
        if name not in schema.names:
            raise UnknownColumnError(
                f"schema has the column {name!r}, the table has not; it has {', '.join(schema.names[:20])}"
            )


class _Places:
    """Where files lie, as a pyarrow file system and paths in it."""

    def __init__(self, store: Store) -> None:
        self._table = parse_location(store.root_uri)
        self._local = is_local(store)
        handler = None if self._local else StoreHandler(store)
        self.filesystem: pa_fs.FileSystem = pa_fs.LocalFileSystem() if handler is None else pa_fs.PyFileSystem(handler)

    def path(self, log_path: str) -> str:
        place = resolve_log_path(self._table, log_path)
        if self._local and place.scheme == "file":
            return place.path
        inside = self._table.relative(place)
        if inside is None:
            raise UnsupportedTableError(
                f"the file {log_path!r} lies outside of the table, where a pyarrow dataset cannot follow; "
                "use to_batches, to_pyarrow_table or to_pandas"
            )
        return inside


def _refuse_deletion_vectors(batch: pa.RecordBatch) -> None:
    vectors = batch.column("deletion_vector")
    if vectors.null_count < len(vectors):
        raise UnsupportedTableError(
            "some files have deletion vectors, which a pyarrow dataset cannot apply; "
            "use to_batches, to_pyarrow_table or to_pandas"
        )


def _partition_expressions(
    batch: pa.RecordBatch, columns: Mapping[Column, pa.DataType], timezone: str
) -> list[pds.Expression | None]:
    """What is known of every row of each file."""
    if not columns:
        return [None] * batch.num_rows
    typed = [partition_array(batch.column("partition_values"), c.fields[0], timezone, strict=True) for c in columns]
    return [
        _conjunction([_equals(c, values[row], columns[c]) for c, values in zip(columns, typed, strict=True)])
        for row in range(batch.num_rows)
    ]


def _equals(column: Column, value: pa.Scalar, data_type: pa.DataType) -> pds.Expression:
    field = pds.field(str(column))
    return field == pds.scalar(value.cast(data_type)) if value.is_valid else field.is_null()


def _conjunction(terms: Sequence[pds.Expression]) -> pds.Expression:
    whole = terms[0]
    for term in terms[1:]:
        whole = whole & term
    return whole
