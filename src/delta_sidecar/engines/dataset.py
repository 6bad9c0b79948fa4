"""A table as a pyarrow dataset: what DuckDB, Polars, DataFusion, pandas and pyarrow read through.

Nothing is listed before someone scans. A scan takes the engine's filter and projection: files that the filter rules out
are left out through the index, the table's own reader makes the rows (deletion vectors, column mapping, widened types,
partition values), and the whole filter is applied to them.

pyarrow's classes are made for C++ datasets, and the methods that ask for one would end the process if there were none.
So a `TableDataset` is a union of one dataset that refuses to be read, and every public method is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pyarrow.fs as pa_fs

from delta_sidecar import arrays
from delta_sidecar.data.arrow_step import ArrowStep, Columns, arrow_step
from delta_sidecar.data.data_files import FILE_COLUMNS
from delta_sidecar.data.file_column import with_file_column, with_file_type, without_file_column
from delta_sidecar.data.request import refuse_unsupported_changes
from delta_sidecar.data.row_stream import RowStream
from delta_sidecar.errors import InputError, UnknownColumnError
from delta_sidecar.predicates.arrow_expression import implied
from delta_sidecar.predicates.arrow_tree import ParsedExpression, columns_in, is_arrow_expression
from delta_sidecar.predicates.binding import Binder
from delta_sidecar.predicates.expression import Expression, all_of
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location, resolve_log_path
from delta_sidecar.values.partition_values import partition_array
from delta_sidecar.values.types import StructType

if TYPE_CHECKING:
    from delta_sidecar.scan.file_scan import FileScan
    from delta_sidecar.table import DeltaTable
    from delta_sidecar.table_access import Predicate


Filter: TypeAlias = pc.Expression | pa.BooleanScalar | bool | None
"""What a scan takes: an engine may give a filter that it has reduced to true or false."""
Meaning: TypeAlias = Callable[[pc.Expression, pa.Schema], pc.Expression]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a scan asks for, and what that means."""

    schema: pa.Schema
    key: tuple[Any, ...] | None
    """A key that identifies columns and filter; None if there is none."""
    filter: ParsedExpression | None
    step: ArrowStep
    understood: Expression | None
    """What the filter implies of files and rows."""


class _LastPlan:
    """The plan of the last scan: DataFusion asks the same of every file."""

    def __init__(self) -> None:
        self.plan: _Plan | None = None

    def __reduce__(self) -> tuple[type[_LastPlan], tuple[()]]:
        return _LastPlan, ()


@dataclass(frozen=True)
class _Contents:
    """What a dataset is of, and how it is read. It can be pickled, as the table can."""

    table: DeltaTable
    schema: pa.Schema
    """The columns, in the types the dataset gives them."""
    file_predicate: Expression | None = None
    """A predicate that leaves out files; rows are not filtered by it."""
    filter: pc.Expression | None = None
    filesystem: pa_fs.FileSystem | None = None
    rows: Expression | None = None
    """A predicate of ours that all rows fulfil; the table's reader applies it."""
    meaning: Meaning | None = None
    """What an engine means by a filter that it gives, if not what pyarrow does."""
    hidden: tuple[pa.Field, ...] = ()
    """Columns that the filter needs and the dataset does not offer."""
    file_column: str | None = None
    """The column that says which file a row is from, if there is one."""
    last: _LastPlan = field(default_factory=_LastPlan, repr=False, compare=False)

    def store(self) -> Store | None:
        return self.table._access.store_on(self.filesystem)

    def condition(self, given: Filter) -> pc.Expression | None:
        """What is true of the rows of a scan with this filter."""
        if isinstance(given, bool | pa.BooleanScalar):
            given = pc.scalar(given)
        if given is not None and self.meaning is not None:
            given = self.meaning(given, self.schema)
        return _both(self.filter, given)

    def plan(self, schema: pa.Schema, columns: Columns, filter: ParsedExpression | None) -> _Plan:  # noqa: A002
        """How a scan is done that sees the columns in the types of a schema."""
        last, key = self.last.plan, _key(columns, filter)
        is_known = last is not None and key is not None and last.key == key
        if last is not None and is_known and last.schema.equals(schema, check_metadata=True):
            return last
        seen = self.seen(schema)
        step = arrow_step(seen, schema.names if columns is None and seen is not schema else columns, filter)
        plan = self.last.plan = _Plan(schema, key, filter, step, self.understood(filter, schema))
        return plan

    def seen(self, schema: pa.Schema) -> pa.Schema:
        """A schema with the columns that only the filter sees."""
        more = [field for field in self.hidden if field.name not in schema.names]
        return pa.schema([*schema, *more]) if more else schema

    def understood(self, expression: ParsedExpression | None, schema: pa.Schema) -> Expression | None:
        """What is understood of a filter, and the predicate of the rows."""
        if expression is None:
            return self.rows
        schema_of_rows, partitions = self.table._access.row_schema(self.file_column)
        binder = Binder(schema_of_rows, frozenset(partitions), self.table.settings.partition_timezone)
        return all_of([self.rows, implied(expression, binder, self.seen(schema))])

    def listing(self, understood: Expression | None, columns: Sequence[str] = FILE_COLUMNS) -> FileScan:
        """The files that may hold rows."""
        listed = without_file_column(all_of([self.file_predicate, understood]))
        return self.table._access.listing(listed, columns)


class TableDataset(pds.UnionDataset):  # type: ignore[misc]
    """A version of a table as a `pyarrow.dataset.Dataset`. It can be scanned any number of times, also at once.

    Made by `DeltaTable.to_pyarrow_dataset`. It can be pickled as its table can.

    Example:
        >>> import pyarrow.dataset as pds
        >>> from delta_sidecar import DeltaTable
        >>> dataset = DeltaTable("events").to_pyarrow_dataset()
        >>> len(dataset.get_fragments(pds.field("id") > 5))
        1
        >>> dataset.to_table(columns=["id"], filter=pds.field("id") > 5).to_pydict()
        {'id': [6, 7]}
    """

    def __init__(self, contents: _Contents) -> None:
        super().__init__(contents.schema, [_unreadable(contents.schema)])
        self._contents = contents

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._contents,)

    def __repr__(self) -> str:
        return f"<TableDataset of {self._contents.table!r}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._contents.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """What is true of every row: nothing in particular."""
        return pc.scalar(True)

    @property
    def children(self) -> NoReturn:
        raise InputError("a TableDataset has no children; get_fragments gives its files")

    def scanner(
        self,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002
        batch_size: int | None = None,
        **options: Any,
    ) -> TableScanner:
        """A scan that has not begun: of some columns, or of expressions by the names they shall have, and of the rows
        that a filter is true of. What else pyarrow's scans take (`use_threads`, `batch_readahead`, …) has no effect."""
        _check_options(options)
        return TableScanner(self._contents, None, columns, self._contents.condition(filter), batch_size)

    def to_batches(self, columns: Columns = None, filter: Any = None, **options: Any) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """The rows as batches, read as they are taken."""
        return self.scanner(columns, filter, **options).to_batches()

    def to_table(self, columns: Columns = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """The rows in memory."""
        return self.scanner(columns, filter, **options).to_table()

    def head(self, num_rows: int, columns: Columns = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """The first rows; no more is read than they need."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: Any = None, **options: Any) -> pa.Table:  # noqa: A002
        """Rows by their numbers."""
        return self.scanner(columns, filter, **options).take(indices)

    def count_rows(self, filter: Any = None, **options: Any) -> int:  # noqa: A002
        """The number of rows; without a filter from the log, where it says so."""
        return self.scanner([], filter, **options).count_rows()

    def filter(self, expression: pc.Expression) -> TableDataset:
        """The dataset without the rows that an expression is not true of."""
        return TableDataset(replace(self._contents, filter=_both(self._contents.filter, expression)))

    def replace_schema(self, schema: pa.Schema) -> TableDataset:
        """The dataset with other columns or types; the names are those of the table."""
        return _checked(replace(self._contents, schema=schema))

    def get_fragments(self, filter: Filter = None) -> list[TableFragment]:  # noqa: A002
        """The files, without those that partition values and statistics rule out: their number is their `len`."""
        with self._listing(filter) as files:
            return [TableFragment(self._contents, batch, row) for batch in files for row in range(batch.num_rows)]

    def explain(self, filter: Filter = None) -> str:  # noqa: A002
        """The plan of a scan: its predicate is what is understood of the filter. Nothing is read."""
        with self._listing(filter) as files:
            return str(files.plan)

    def _listing(self, expression: Filter) -> FileScan:
        contents = self._contents
        return contents.listing(contents.understood(_parsed(contents.condition(expression)), contents.schema))

    def sort_by(self, sorting: Any, **options: Any) -> pds.InMemoryDataset:
        """The rows in memory, sorted."""
        return pds.InMemoryDataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: pds.Dataset, *arguments: Any, **options: Any) -> pds.InMemoryDataset:
        """The rows joined with another dataset's, in memory."""
        return _in_memory(self).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: pds.Dataset, *arguments: Any, **options: Any) -> pds.InMemoryDataset:
        """The rows joined with the nearest of another dataset's, in memory."""
        return _in_memory(self).join_asof(_in_memory(right_dataset), *arguments, **options)


class TableScanner:
    """A scan of a dataset or of one file of it. Each method that reads starts over, so it can be used again.

    It has the methods of a `pyarrow.dataset.Scanner`, and is an Arrow stream for those who take one.
    """

    def __init__(
        self,
        contents: _Contents,
        files: Sequence[pa.RecordBatch] | None,
        columns: Columns,
        filter: pc.Expression | None,  # noqa: A002
        batch_size: int | None,
        schema: pa.Schema | None = None,
    ) -> None:
        """`files` are rows of a listing; without them the table is asked when the scan begins. A batch has no more rows
        than the table's settings say, or fewer if `batch_size` is smaller."""
        self.dataset_schema: pa.Schema = contents.schema if schema is None else schema
        self._contents = contents
        self._files = files
        self._plan = contents.plan(self.dataset_schema, columns, _parsed(filter))
        self._batch_size = batch_size

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that come out."""
        return self._plan.step.schema

    def to_batches(self) -> RowStream:
        """The rows as batches, read as they are taken. Reading stops when it is closed or garbage-collected."""
        return self._read(self._plan)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as Arrow's own reader."""
        return self.to_batches().to_reader()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self) -> pa.Table:
        """The rows in memory."""
        return _collected(self.to_batches())

    def head(self, num_rows: int) -> pa.Table:
        """The first rows; no more is read than they need."""
        return _collected(self._read(self._plan, num_rows))

    def take(self, indices: Any) -> pa.Table:
        """Rows by their numbers."""
        return self.to_table().take(indices)

    def count_rows(self) -> int:
        """The number of rows; without a filter from the log, where it says so."""
        with self._read(self._contents.plan(self.dataset_schema, [], self._plan.filter)) as rows:
            return sum(batch.num_rows for batch in rows)

    def _read(self, plan: _Plan, limit: int | None = None) -> RowStream:
        access, step, understood = self._contents.table._access, plan.step, plan.understood
        files: Iterable[pa.RecordBatch]
        if self._files is None:
            wanted = access.file_columns(step.names, understood, self._contents.file_column)
            files = self._contents.listing(understood, wanted)
        else:
            files = self._files
        return access.rows(
            iter(files),
            step.names,
            understood,
            limit,
            store=self._contents.store(),
            step=step,
            batch_size=self._batch_size,
            file_column=self._contents.file_column,
        )


class TableFragment:
    """One file of a dataset. It has the methods of a `pyarrow.dataset.Fragment`, and can be pickled."""

    def __init__(self, contents: _Contents, files: pa.RecordBatch, row: int) -> None:
        """The file is a row of a listing."""
        self._contents = contents
        self._files = files
        self._row = row

    def __reduce__(self) -> tuple[Any, ...]:
        return TableFragment, (self._contents, self._files.take(arrays.indices(np.array([self._row]))), 0)

    def __repr__(self) -> str:
        return f"<TableFragment {self.path!r}>"

    @property
    def path(self) -> str:
        """Where the file is: a local path, or a URI, decoded."""
        table = parse_location(self._contents.table.table_uri)
        return resolve_log_path(table, self._files.column("path")[self._row].as_py()).text

    @property
    def physical_schema(self) -> pa.Schema:
        """The columns of its rows: those of the dataset."""
        return self._contents.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """What is true of all its rows: the partition values."""
        table, row = self._contents.table, self._files.slice(self._row, 1)
        zone, expression = table.settings.partition_timezone, pc.scalar(True)
        names = [name for name in table.snapshot.partition_columns if name in self._contents.schema.names]
        for place, name in enumerate(names):
            (field,) = table.schema().resolve([name])
            value = partition_array(row.column("partition_values"), field, zone, strict=True)[0]
            term = _equals(name, value, self._contents.schema.field(name).type)
            expression = expression & term if place else term
        return expression

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: Columns = None,
        filter: Filter = None,  # noqa: A002
        batch_size: int | None = None,
        **options: Any,
    ) -> TableScanner:
        """A scan of the file, as `TableDataset.scanner`; `schema` has the columns and types, if not the dataset's."""
        _check_options(options)
        files = [self._files.slice(self._row, 1)]
        condition = self._contents.condition(filter)
        return TableScanner(self._contents, files, columns, condition, batch_size, schema)

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows as batches, read as they are taken."""
        return self.scanner(schema, **options).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """The rows in memory."""
        return self.scanner(schema, **options).to_table()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """The first rows."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Rows by their numbers."""
        return self.scanner(**options).take(indices)

    def count_rows(self, filter: Filter = None, **options: Any) -> int:  # noqa: A002
        """The number of rows."""
        return self.scanner(columns=[], filter=filter, **options).count_rows()


def _checked(contents: _Contents) -> TableDataset:
    """A dataset, if the rows of its table can be read and its columns are the table's."""
    schema, _ = contents.table._access.row_schema(contents.file_column)
    refuse_unsupported_changes(schema)
    for name in contents.schema.names:
        if name not in schema.names:
            raise UnknownColumnError(
                f"schema names the column {name!r}, which the table lacks; it has {', '.join(schema.names[:20])}"
            )
    return TableDataset(contents)


def dataset_for_pyarrow(
    table: DeltaTable,
    schema: pa.Schema,
    partitions: Predicate | None,
    file_pruning_predicate: Predicate | None,
    filesystem: pa_fs.FileSystem | None,
    read_options: pds.ParquetReadOptions | None,
) -> TableDataset:
    """The dataset for users of pyarrow; see `DeltaTable.to_pyarrow_dataset`."""
    if read_options is not None and not isinstance(read_options, pds.ParquetReadOptions):
        raise InputError(
            f"parquet_read_options takes a pyarrow.dataset.ParquetReadOptions, not a {type(read_options).__name__}"
        )
    access = table._access
    access.store_on(filesystem)
    file_predicate = access.bind_all([partitions, file_pruning_predicate])
    filtered = partitions if is_arrow_expression(partitions) else None
    coded = set() if read_options is None else read_options.dictionary_columns - set(table.snapshot.partition_columns)
    coded_schema = _with_dictionaries(schema, coded)
    return _checked(_Contents(table._at_this_version(), coded_schema, file_predicate, filtered, filesystem))


def dataset_for_engine(
    table: DeltaTable,
    rows: Expression | None,
    expression: pc.Expression | None,
    columns: Sequence[str] | None,
    file_column: str | None = None,
) -> TableDataset:
    """The rows of a table that fulfil a predicate and an expression, for an engine that filters them further.
    `file_column` adds a column with the file that each row is from."""
    chosen = table.schema() if columns is None else table.schema().select(columns)
    hidden = _hidden(table.schema(), chosen, _parsed(expression))
    offered = with_file_column(chosen, file_column)
    schema = with_file_type(offered.to_arrow(), offered)
    contents = _Contents(
        table._at_this_version(), schema, filter=expression, rows=rows, hidden=hidden, file_column=file_column
    )
    return _checked(contents)


def _hidden(schema: StructType, chosen: StructType, expression: ParsedExpression | None) -> tuple[pa.Field, ...]:
    """The columns that an expression needs beside the chosen ones; all, if it cannot be read."""
    if expression is None:
        return ()
    named = set(schema.names if expression.tree is None else columns_in(expression.tree))
    return tuple(f.to_arrow() for f in schema.fields if f.name in named and f.name not in chosen.names)


def _with_dictionaries(schema: pa.Schema, names: set[str]) -> pa.Schema:
    """The schema of rows whose columns of these names are dictionaries."""
    coded = [f.name in names and not pa.types.is_dictionary(f.type) for f in schema]
    fields = [f.with_type(pa.dictionary(pa.int32(), f.type)) if c else f for f, c in zip(schema, coded, strict=True)]
    return pa.schema(fields, schema.metadata)


def _parsed(expression: pc.Expression | None) -> ParsedExpression | None:
    return None if expression is None else ParsedExpression(expression)


def _key(columns: Columns, filter: ParsedExpression | None) -> tuple[Any, ...] | None:  # noqa: A002
    name = b"" if filter is None else filter.key
    if name is None or isinstance(columns, Mapping):
        return None
    return None if columns is None else tuple(columns), name


def _both(left: pc.Expression | None, right: pc.Expression | None) -> pc.Expression | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


_OPTIONS: Final = frozenset(
    (
        "batch_readahead",
        "fragment_readahead",
        "fragment_scan_options",
        "use_threads",
        "cache_metadata",
        "memory_pool",
    )
)
"""Options of pyarrow's scans that change no row; the table's own settings say how it is read."""


def _check_options(options: Mapping[str, object]) -> None:
    for name in options:
        if name not in _OPTIONS:
            raise TypeError(f"a scan has no option {name!r}")


def _collected(rows: RowStream) -> pa.Table:
    with rows:
        return pa.Table.from_batches(list(rows), rows.schema)


def _in_memory(dataset: pds.Dataset) -> pds.Dataset:
    return pds.InMemoryDataset(dataset.to_table()) if isinstance(dataset, TableDataset) else dataset


def _equals(name: str, value: pa.Scalar, data_type: pa.DataType) -> pc.Expression:
    field = pc.field(name)
    return field == pc.scalar(value.cast(data_type)) if value.is_valid else field.is_null()


class _Unreadable(pa_fs.FileSystemHandler):  # type: ignore[misc]
    """A file system whose files refuse to be opened: what pyarrow's C++ code finds in a `TableDataset`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unreadable)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = pa_fs.FileSystemHandler.__hash__

    def get_type_name(self) -> str:
        return "delta-sidecar"

    def normalize_path(self, path: str) -> str:
        return path

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            "pyarrow's own scan nodes, scanners and unions cannot read this dataset; use its methods, "
            "or give them dataset.scanner().to_reader() or dataset.to_table()"
        )

    get_file_info = get_file_info_selector = open_input_file = open_input_stream = _refuse
    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refuse
    move = copy_file = open_output_stream = open_append_stream = _refuse


def _unreadable(schema: pa.Schema) -> pds.FileSystemDataset:
    filesystem, parquet = pa_fs.PyFileSystem(_Unreadable()), pds.ParquetFileFormat()
    return pds.FileSystemDataset([parquet.make_fragment("rows", filesystem)], schema, parquet, filesystem)
