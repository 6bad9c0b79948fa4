"""Whatever rows come from, as a dataset: a Delta table, files, a dataset, or a stream that can be scanned once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as pds

from delta_sidecar.data.arrow_step import ArrowStep, Columns, arrow_step
from delta_sidecar.errors import ConsumedStreamError, InputError, OptionError, UnknownColumnError, did_you_mean
from delta_sidecar.predicates.arrow_tree import ParsedExpression
from delta_sidecar.scan.one_reading import NotPickled
from delta_sidecar.table import DeltaTable

_FORMATS: Final = ("delta", "parquet", "csv", "json", "feather", "arrow", "ipc", "orc")
_HIVE: Final = "hive"


@dataclass(frozen=True, slots=True)
class DatasetSourceOptions:
    """How a source is opened.

    Args:
        dataset_format: `delta`, or a format that pyarrow reads: `parquet`, `csv`, `json`, `feather`, `arrow`, `ipc`,
            `orc`.
        filesystem: A pyarrow or fsspec file system; for a Delta table its root must be the table.
        files: The files, instead of all below the source. Not for `delta`: the log says which they are.
        partitioning: How directories are named; `hive` or a `pyarrow.dataset.Partitioning`. Not for `delta`.
        storage_options: Credentials and settings of the store. Only for `delta`; others take a `filesystem`.
        delta_version: The version of a Delta table; the newest if not given.
        delta_timestamp: A time, as text or `datetime`: the version at that time. Not with `delta_version`.

    Raises:
        OptionError: There is no such format, or options contradict each other.

    Example:
        >>> from delta_sidecar.lake import DatasetSourceOptions
        >>> DatasetSourceOptions(delta_version=3).dataset_format
        'delta'
    """

    dataset_format: str = "delta"
    filesystem: Any = None
    files: Sequence[str] | None = None
    partitioning: str | pds.Partitioning | None = _HIVE
    storage_options: Mapping[str, str] | None = None
    delta_version: int | None = None
    delta_timestamp: str | datetime | None = None

    def __post_init__(self) -> None:
        if self.dataset_format not in _FORMATS:
            near = did_you_mean(str(self.dataset_format), _FORMATS)
            raise OptionError(f"no dataset format {self.dataset_format!r}{near}; known: {', '.join(_FORMATS)}")
        if self.delta_version is not None and self.delta_timestamp is not None:
            raise OptionError("delta_version and delta_timestamp are both given; give one of them")
        if self.files is not None:
            object.__setattr__(self, "files", tuple(self.files))
        for name, reason in self._misplaced():
            raise OptionError(f"{name} is not for the format {self.dataset_format}: {reason}; leave it out")

    def __repr__(self) -> str:
        """Without the storage options, which may be secrets."""
        return f"DatasetSourceOptions(dataset_format={self.dataset_format!r}, …)"

    def _misplaced(self) -> Iterator[tuple[str, str]]:
        if self.dataset_format == "delta":
            if self.files is not None:
                yield "files", "the table's log says which files it has"
            if self.partitioning not in (_HIVE, None):
                yield "partitioning", "the table's log says how it is partitioned"
            return
        for name in ("delta_version", "delta_timestamp"):
            if getattr(self, name) is not None:
                yield name, "only Delta tables have versions"
        if self.storage_options is not None:
            yield "storage_options", "pyarrow opens files through a filesystem"


Source: TypeAlias = Any
"""A location, a `DeltaTable`, a dataset, a pyarrow table or batch, or any Arrow stream."""


class OneShotDataset(NotPickled):
    """Rows that can be scanned once: a stream with the methods of a dataset. A second scan is an error.

    The scan closes its source at its end, when it is garbage-collected, or when `close` is called.

    Args:
        source: A `RowStream`, a `pyarrow.RecordBatchReader`, another Arrow stream, or a dataset.

    Raises:
        ConsumedStreamError: It was scanned or closed before.
        UnknownColumnError: A scan asks for a column that does not exist.
        InputError: The source is none of these.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> from delta_sidecar.lake import OneShotDataset
        >>> rows = OneShotDataset(DeltaTable("events").to_batches(["id"]))
        >>> rows.to_table().num_rows
        8
    """

    def __init__(self, source: Source) -> None:
        if not isinstance(source, pds.Dataset) and not hasattr(source, "__arrow_c_stream__"):
            raise InputError(f"a {type(source).__name__} is neither an Arrow stream nor a dataset; give one of these")
        if not isinstance(source, pds.Dataset) and not hasattr(source, "schema"):
            source = pa.RecordBatchReader.from_stream(source)
        self._source = source
        self._used: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._source.schema

    @property
    def is_scanned(self) -> bool:
        """Whether the one scan has begun, or the dataset was closed."""
        return self._used is not None

    def to_batches(self, columns: Columns = None, filter: Any = None) -> Iterator[pa.RecordBatch]:  # noqa: A002
        """The rows as batches, read as they are taken: some columns, and the rows that match a filter."""
        step = self._step(columns, filter)
        self._begin("was scanned")
        return self._batches(step, columns, filter)

    def to_reader(self, columns: Columns = None, filter: Any = None) -> pa.RecordBatchReader:  # noqa: A002
        """The rows as Arrow's own reader."""
        schema = self._step(columns, filter).schema
        return pa.RecordBatchReader.from_batches(schema, self.to_batches(columns, filter))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_table(self, columns: Columns = None, filter: Any = None) -> pa.Table:  # noqa: A002
        """The rows in memory."""
        return self.to_reader(columns, filter).read_all()

    def count_rows(self, filter: Any = None) -> int:  # noqa: A002
        """The number of rows."""
        return sum(batch.num_rows for batch in self.to_batches(None if filter is not None else [], filter))

    def close(self) -> None:
        """Close the source without reading it."""
        if self._used is None:
            self._used = "was closed"
            _close(self._source)

    def __enter__(self) -> OneShotDataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, use: str) -> None:
        if self._used is not None:
            raise ConsumedStreamError(f"this dataset {self._used}; it can be scanned only once: open it again")
        self._used = use

    def _step(self, columns: Columns, condition: Any) -> ArrowStep:
        """What a scan does with rows; what it cannot do is refused before it begins."""
        names = self.schema.names
        for name in () if columns is None or isinstance(columns, Mapping) else columns:
            if name not in names:
                near = did_you_mean(name, names)
                raise UnknownColumnError(f"no column {name!r} here{near}; columns here: {', '.join(names[:20])}")
        return arrow_step(self.schema, columns, None if condition is None else ParsedExpression(condition))

    def _batches(self, step: ArrowStep, columns: Columns, condition: Any) -> Iterator[pa.RecordBatch]:
        source = self._source
        try:
            if isinstance(source, pds.Dataset):
                source = source.scanner(columns=columns, filter=condition).to_batches()
                yield from source
            else:
                for batch in source:
                    chosen = pa.RecordBatch.from_arrays([batch.column(n) for n in step.names], schema=step.source)
                    yield step.apply(chosen if step.names else batch)
        finally:
            _close(source)


def open_dataset(source: Source, options: DatasetSourceOptions | None = None) -> pds.Dataset | OneShotDataset:
    """A source as a dataset. Streams become a `OneShotDataset`; everything else can be scanned any number of times.

    Args:
        source: A location, a `DeltaTable`, a dataset, a pyarrow table or batch, or any Arrow stream.
        options: The format of a location and how it is opened; a Delta table at its newest version if not given.

    Raises:
        InputError: The source is none of these, or cannot be opened.
        OptionError: Options are given for a source that is already open.
        TableNotFoundError: There is no Delta table at the location.

    Example:
        >>> from delta_sidecar.lake import DatasetSourceOptions, open_dataset
        >>> open_dataset("events", DatasetSourceOptions(delta_version=1)).count_rows()
        4
    """
    if isinstance(source, str | os.PathLike):
        return _located(source, options or DatasetSourceOptions())
    if options is not None and options != DatasetSourceOptions():
        raise OptionError(f"options are for a location, and a {type(source).__name__} is already open; leave them out")
    if isinstance(source, DeltaTable):
        return source.to_pyarrow_dataset()
    if isinstance(source, pds.Dataset | OneShotDataset):
        return source
    if isinstance(source, pa.Table | pa.RecordBatch):
        return pds.InMemoryDataset(source)
    return OneShotDataset(source)


def _located(source: str | os.PathLike[str], options: DatasetSourceOptions) -> pds.Dataset:
    if options.dataset_format != "delta":
        return _of_files(source, options)
    table = DeltaTable(source, options.delta_version, storage_options=options.storage_options)
    if options.delta_timestamp is not None:
        table.load_as_version(options.delta_timestamp)
    return table.to_pyarrow_dataset(filesystem=options.filesystem)


def _of_files(source: str | os.PathLike[str], options: DatasetSourceOptions) -> pds.Dataset:
    given = os.fspath(source) if options.files is None else list(options.files)
    try:
        return pds.dataset(
            given, format=options.dataset_format, filesystem=options.filesystem, partitioning=options.partitioning
        )
    except (OSError, pa.ArrowException, ValueError, TypeError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{os.fspath(source)!r} cannot be opened as {options.dataset_format}: {said}") from None


def _close(source: Any) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()
