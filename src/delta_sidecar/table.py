"""The table a user holds. Where `deltalake` has a name and an argument form, ours is the same."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from delta_sidecar.errors import (
    CorruptLogError,
    CorruptTableError,
    InputError,
    NotOfferedError,
    TableNotFoundError,
    UnsupportedTableError,
)
from delta_sidecar.index.read.opening import open_snapshot
from delta_sidecar.limits import ReaderLimits
from delta_sidecar.log.segment import CheckpointFiles
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.scan.file_infos import FileInfo, file_infos
from delta_sidecar.settings import Settings, settings_of
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.given_store import store_at
from delta_sidecar.storage.metered import Cost, MeteredStore
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.uri import parse_location, resolve_log_path

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.compute as pc
    import pyarrow.dataset as pds
    import pyarrow.fs as pa_fs

    from delta_sidecar.data.dataset import DeltaDataset
    from delta_sidecar.data.row_stream import RowStream
    from delta_sidecar.predicates.expression import Expression
    from delta_sidecar.predicates.predicate_tuples import Filters
    from delta_sidecar.scan.file_scan import FileScan
    from delta_sidecar.scan.scan_position import ScanPosition
    from delta_sidecar.storage.given_store import GivenStore
    from delta_sidecar.storage.store import Store
    from delta_sidecar.values.types import StructType

_FILE_COLUMNS = ("path", "size", "partition_values", "deletion_vector")


class TableMetadata(NamedTuple):
    """What the table says of itself: the return value of `DeltaTable.metadata`.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> DeltaTable("events").metadata().partition_columns
        ['_event_hour']
    """

    id: str
    name: str | None
    description: str | None
    partition_columns: list[str]
    created_time: int | None
    configuration: dict[str, str]


class ProtocolVersions(NamedTuple):
    """What the table asks of readers and writers: the return value of `DeltaTable.protocol`.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> DeltaTable("events").protocol().min_reader_version
        1
    """

    min_reader_version: int
    min_writer_version: int
    writer_features: list[str] | None
    reader_features: list[str] | None


class TableConfig(NamedTuple):
    """How the table is loaded, in `deltalake`'s words."""

    without_files: bool
    """Always False: files are never loaded ahead, and always there when they are asked for."""
    log_buffer_size: int
    """Commits fetched at once."""
    skip_stats: bool
    """Always False, for the same reason."""


class _NotOffered:
    """Stands for what `deltalake` has under that name and this table has not: a call, or whatever is asked of it, is
    an error that names the tool to use."""

    def __init__(self, instead: str) -> None:
        self._instead = instead
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<DeltaTable.{self._name}: not offered>"

    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise self._error()

    def __getattr__(self, name: str) -> NoReturn:
        # Copying, pickling and consoles look for names with underscores, and must find that there are none.
        raise AttributeError(name) if name.startswith("_") else self._error()

    def _error(self) -> NotOfferedError:
        return NotOfferedError(f"DeltaTable.{self._name} is not offered: this table is for reading; {self._instead}")


_WRITERS: Final = "use the deltalake package or Spark"


class DeltaTable:
    """One version of a Delta table, pinned when it is opened. Files are found when they are asked for, never before.

    A table can be pickled, for Spark, Dask or `multiprocessing`: loaded, it opens the same version again. The pickle
    holds `storage_options` and `profile`, credentials included: treat it as you treat them. What the environment gives
    is looked up again where the pickle is loaded.

    Args:
        table_uri: Where the table lies: a local path or a URI such as `s3://bucket/events`.
        version: The version to pin; the newest if not given. `load_as_version` also takes a time.
        storage_options: Credentials and settings of the object store, those that `deltalake` takes.
        without_files: Taken for programs written for `deltalake`; nothing is ever loaded ahead here.
        log_buffer_size: Commits that are fetched at the same time, as in `deltalake`.
        skip_stats: Taken for programs written for `deltalake`.
        options: The reader's own options (`delta.sidecar.…`).
        profile: Storage options for what `storage_options` leave out, before the environment is asked.
        store: A store of obstore (`S3Store`, `AzureStore`, …) that holds the table, with the credentials or the
            credential provider it has; `table_uri` says where in it.
        limits: Sizes at which the reader changes its ways, for those who measure.

    Raises:
        TableNotFoundError: There is no Delta table at that place.
        VersionNotFoundError: The table has no such version, or it can no longer be rebuilt.
        UnsupportedFeatureError: The table needs a feature that this reader does not know.
        CorruptTableError: The log is broken.
        OptionError: An option or storage option is wrong.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar import DeltaTable
        >>> table = DeltaTable("events")
        >>> for file in table.file_infos("_event_hour >= '2026021022'"):
        ...     print(file.path)
        _event_hour=2026021023/part-0.parquet
        _event_hour=2026021022/part-0.parquet
    """

    def __init__(
        self,
        table_uri: str | os.PathLike[str],
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        without_files: bool = False,
        log_buffer_size: int | None = None,
        skip_stats: bool = False,
        *,
        options: Mapping[str, Any] | None = None,
        profile: Mapping[str, str] | None = None,
        store: GivenStore | None = None,
        limits: ReaderLimits | None = None,
    ) -> None:
        self._storage_options = None if storage_options is None else dict(storage_options)
        self._profile = None if profile is None else dict(profile)
        self._given_store = store
        self._options = dict(options or {})
        self._limits = limits or ReaderLimits()
        if log_buffer_size is not None:
            self._options.setdefault("delta.commit.parallelism", log_buffer_size)
        self._open_store = partial(open_store, storage_options=storage_options, profile=profile)
        self._settings = settings_of(self._options, limits=self._limits)
        self._store = MeteredStore(store_at(table_uri, store, storage_options, profile))
        self._load(_checked_version(version))

    def _load(self, version: int | None) -> None:
        before = self._store.cost
        self._snapshot = self._pinned(version, self._settings.enabled)
        self._settings = settings_of(self._options, self._snapshot.metadata.properties, limits=self._limits)
        if not self._settings.enabled and not isinstance(self._snapshot.segment.base, CheckpointFiles | None):
            self._snapshot = self._pinned(version, with_index=False)
        if self._settings.cache_size != shared_cache.limit:
            shared_cache.resize(self._settings.cache_size)
        self._opening_cost = self._store.cost - before

    def _pinned(self, version: int | None, with_index: bool) -> Snapshot:
        limits = self._settings.commit_limits
        if not with_index:
            plain = load_snapshot(self._store, version, limits)
            return replace(plain, passed_over="delta.sidecar.enabled is false: no index was looked for")
        return open_snapshot(self._store, version, limits)

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same version of the table at the same place. A table can be moved to another version, so
        it has no hash."""
        if not isinstance(other, DeltaTable):
            return NotImplemented
        return (self.table_uri, self.version()) == (other.table_uri, other.version())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        if self._given_store is not None:
            _check_pickles(self._given_store, self)
        return _opened_again, self._opening()

    def __copy__(self) -> DeltaTable:
        return _opened_again(*self._opening())

    def __deepcopy__(self, memo: object) -> DeltaTable:
        return _opened_again(*self._opening())

    def _opening(self) -> tuple[type[DeltaTable], str, dict[str, Any]]:
        """What it takes to open the table again, at the same version."""
        arguments = {
            "table_uri": self.table_uri,
            "version": self.version(),
            "storage_options": self._storage_options,
            "options": self._options,
            "profile": self._profile,
            "store": self._given_store,
            "limits": self._limits,
        }
        return type(self), self._snapshot.metadata.id, arguments

    @staticmethod
    def is_deltatable(table_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> bool:
        """Is there a Delta log at that place? Its table may still be one this reader refuses."""
        try:
            load_snapshot(open_store(table_uri, storage_options))
        except TableNotFoundError:
            return False
        except (UnsupportedTableError, CorruptTableError):
            return True
        return True

    # What the table is

    @property
    def table_uri(self) -> str:
        """Where the table lies: a local path, or a URI."""
        return parse_location(self._store.root_uri).text

    @property
    def snapshot(self) -> Snapshot:
        """The pinned version, as the reader sees it."""
        return self._snapshot

    @property
    def settings(self) -> Settings:
        """The options in force."""
        return self._settings

    @property
    def opening_cost(self) -> Cost:
        """Requests and bytes it took to pin the version."""
        return self._opening_cost

    def version(self) -> int:
        return self._snapshot.version

    def schema(self) -> StructType:
        """The table's columns; `to_arrow()` gives their Arrow schema."""
        return self._snapshot.schema

    def metadata(self) -> TableMetadata:
        metadata = self._snapshot.metadata
        return TableMetadata(
            id=metadata.id,
            name=metadata.name,
            description=metadata.description,
            partition_columns=list(metadata.partitionColumns),
            created_time=metadata.createdTime,
            configuration=metadata.properties,
        )

    def protocol(self) -> ProtocolVersions:
        protocol = self._snapshot.protocol
        return ProtocolVersions(
            protocol.minReaderVersion, protocol.minWriterVersion, protocol.writerFeatures, protocol.readerFeatures
        )

    @property
    def table_config(self) -> TableConfig:
        """How the table is loaded, in `deltalake`'s words; `settings` are all options."""
        return TableConfig(False, self._settings.commit_parallelism, False)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What each commit up to this version says of itself, newest first."""
        from delta_sidecar.log import travel
        from delta_sidecar.scan.file_scan import checked_limit

        limit = checked_limit(limit)
        return list(travel.history(self._store, self.version(), limit, self._settings.commit_limits))

    def transaction_version(self, app_id: str) -> int | None:
        """The version an application last recorded with its writes."""
        from delta_sidecar.log import travel

        return travel.transaction_version(self._snapshot, app_id)

    def load_as_version(self, version: int | str | datetime) -> None:
        """Pin another version: a number, or the one that was current at a time (ISO text or datetime)."""
        if isinstance(version, (str, datetime)):
            from delta_sidecar.log import travel

            head = load_snapshot(self._store, None, self._settings.commit_limits)
            version = travel.version_at(self._store, head, _milliseconds(version))
        self._load(_checked_version(version))

    def update_incremental(self) -> None:
        """Pin the newest version there is now."""
        self._load(None)

    # Its files

    def scan_files(
        self,
        predicate: str | Filters | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: str | None = None,
        after: ScanPosition | None = None,
    ) -> FileScan:
        """The live files as a stream of Arrow batches, newest first; files that cannot match are left out.

        Args:
            predicate: A condition as SQL text, or tuples as pyarrow takes them. Files that the log shows to hold no
                matching row are left out; the others are listed.
            columns: The columns of the listing; path, size, modification time, partition values
                and deletion vector if not given.
            limit: List no more files than this.
            strategy: `reverse`, `forward` or `auto`: whether commits are read one by one or all at once.
            after: The `position` of a listing of the same version with the same predicate: this one goes on after the
                last batch that was handed out. What comes before is read again, but not listed.

        Returns:
            A `FileScan`: iterate it, or hand it to anything that takes an Arrow stream.

        Raises:
            PredicateError: The predicate cannot be parsed or does not fit the schema.
            UnknownColumnError: There is no such column.
            OptionError: The limit or strategy is wrong.
            PositionError: `after` is of another table, version or predicate, or that listing cannot be repeated.

        Example:
            >>> from delta_sidecar import DeltaTable
            >>> files = DeltaTable("events").scan_files("_event_hour = '2026021022'", columns=["path", "num_records"])
            >>> files.read_all().to_pylist()
            [{'path': '_event_hour=2026021022/part-0.parquet', 'num_records': 2}]
        """
        return self._scan(self._bind(predicate), columns, limit, strategy, after)

    def file_infos(
        self,
        predicate: str | Filters | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        strategy: str | None = None,
    ) -> Iterator[FileInfo]:
        """The live files as objects, lazily, newest first."""
        scan = self.scan_files(predicate, columns, limit, strategy)
        return _closing(scan)

    def file_uris(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: str | Filters | None = None,
        predicate: str | Filters | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Where the live files are: local paths, or URIs, decoded."""
        bound = _all_of([self._bind(p) for p in (partition_filters, file_pruning_predicate, predicate)])
        table = parse_location(self._store.root_uri)
        with self._scan(bound, ["path"], limit, None) as scan:
            return [resolve_log_path(table, p).text for batch in scan for p in batch.column("path").to_pylist()]

    def file_uri(self, path: str) -> str:
        """Where a file of the log is: `path` as the log has it."""
        return resolve_log_path(parse_location(self._store.root_uri), path).text

    def partitions(
        self,
        partition_filters: Filters | None = None,
        *,
        file_pruning_predicate: str | Filters | None = None,
    ) -> list[dict[str, str | None]]:
        """The distinct partition values of the live files, by logical name, as the log writes them; none for a table
        without partition columns."""
        if not self._snapshot.partition_columns:
            return []
        bound = _all_of([self._bind(partition_filters), self._bind(file_pruning_predicate)])
        physical = {self.schema().resolve([c])[0].physical_name: c for c in self._snapshot.partition_columns}
        with self._scan(bound, ["path", "partition_values"], None, None) as scan:
            seen = {id(f.partition_values): f.partition_values for f in file_infos(scan)}
        named = [{physical.get(k, k): v for k, v in values.items()} for values in seen.values()]
        return [dict(entries) for entries in dict.fromkeys(tuple(n.items()) for n in named)]

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """The live files in memory, as `deltalake` gives them: `path`, `size_bytes`, `modification_time`,
        `num_records`, and typed structs `null_count`, `min`, `max` and `partition`; with `flatten`, columns `min.x`,
        `partition.p` and so on instead of structs. `scan_files` streams all that the log says of a file."""
        from delta_sidecar.scan.add_actions import add_actions

        return add_actions(self._snapshot, self._settings, flatten)

    def deletion_vectors(self) -> pa.RecordBatchReader:
        """The deletion vectors, of files that have one: `filepath`, the file's URI, and `selection_vector`, a list with
        a boolean for each row of the file, False where it is deleted."""
        from delta_sidecar.data.deletion_masks import FILE_COLUMNS, deletion_masks
        from delta_sidecar.data.file_bytes import Sources

        sources = Sources(self._store, self._open_store, self._settings.limits.small_file)
        return deletion_masks(self._scan(None, FILE_COLUMNS, None, None), sources)

    def get_stats_for_files(self, paths: Sequence[str], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Statistics of some files, by the path the log has or by their place as `file_uris` gives it: `path` (the
        log's), `num_records`, and for each column `min.<column>`, `max.<column>`, `null_count.<column>`. Files that are
        not live are absent."""
        from delta_sidecar.scan.file_stats import file_stats, stats_columns

        if isinstance(paths, str) or not all(isinstance(path, str) for path in paths):
            raise InputError("paths takes a list of texts: paths of the log, or what file_uris gives")
        wanted = stats_columns(self.schema(), columns)
        return file_stats(self._snapshot, self._settings, list(paths), wanted)

    # Its rows

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        predicate: str | Filters | None = None,
        limit: int | None = None,
    ) -> RowStream:
        """The rows as a stream of Arrow batches, read while the file list is still coming."""
        return self._rows(self._bind(predicate), columns, limit)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for libraries that take one, as in `pyarrow.table(table)`."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def scan(self, columns: Sequence[str] | None = None, predicate: str | None = None) -> pa.RecordBatchReader:
        """The rows as a `RecordBatchReader`."""
        return self.to_batches(columns, predicate).to_reader()

    def to_pyarrow_table(
        self,
        partitions: Filters | None = None,
        columns: Sequence[str] | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        filters: str | Filters | pc.Expression | None = None,
    ) -> pa.Table:
        """The rows in memory. A pyarrow expression as `filters` is applied to the rows of all files; SQL text and
        tuples also leave files out. Files are read through `filesystem`, whose root is the table, if it is given."""
        import pyarrow.compute as pc

        store = self._store_on(filesystem)
        if isinstance(filters, pc.Expression):
            return self._filtered(self._bind(partitions), columns, filters, store)
        with self._rows(_all_of([self._bind(partitions), self._bind(filters)]), columns, None, store) as rows:
            return pa.Table.from_batches(list(rows), rows.schema)

    def to_pandas(
        self,
        partitions: Filters | None = None,
        columns: Sequence[str] | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        filters: str | Filters | pc.Expression | None = None,
        types_mapper: Any = None,
    ) -> pd.DataFrame:
        """The rows as a pandas data frame."""
        table = self.to_pyarrow_table(partitions, columns, filesystem, filters)
        return table.to_pandas(types_mapper=types_mapper)

    def to_pyarrow_dataset(
        self,
        partitions: Filters | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        parquet_read_options: pds.ParquetReadOptions | None = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: str | Filters | None = None,
    ) -> DeltaDataset:
        """The files as a pyarrow dataset; refused for tables whose rows are not just the rows of their files.

        With `as_large_types`, texts, bytes and lists have 64-bit offsets. `schema` gives the columns and their types
        instead; its names are those of the table."""
        from delta_sidecar.data.dataset import make_dataset

        store = self._store_on(filesystem)
        bound = _all_of([self._bind(partitions), self._bind(file_pruning_predicate)])
        with self._scan(bound, _FILE_COLUMNS, None, None) as scan:
            return make_dataset(
                scan,
                self.schema(),
                self._snapshot.partition_columns,
                self._snapshot.mapping_mode,
                self._store if store is None else store,
                self._settings.partition_timezone,
                partial(self._rows_of, predicate=None, limit=None, store=store),
                self.schema().to_arrow(as_large_types) if schema is None else schema,
                parquet_read_options,
            )

    def count(self) -> int:
        """The number of rows, from the log where it says so, else from the files."""
        with self._rows(None, [], None) as rows:
            return sum(batch.num_rows for batch in rows)

    # What others do

    alter = _NotOffered(f"{_WRITERS} (ALTER TABLE)")
    cleanup_metadata = _NotOffered(f"{_WRITERS}; Spark cleans the log by itself after a checkpoint")
    compact_logs = _NotOffered("use the deltalake package")
    create = _NotOffered(f"{_WRITERS}, or `sidecar ingest`, which creates the table it fills")
    create_checkpoint = _NotOffered(f"{_WRITERS}, or `sidecar maintain --only checkpoint`")
    create_write_transaction = _NotOffered("use the deltalake package, or write files with Spark or `sidecar ingest`")
    delete = _NotOffered(f"{_WRITERS} (DELETE FROM)")
    generate = _NotOffered(f"{_WRITERS} (GENERATE symlink_format_manifest)")
    load_cdf = _NotOffered(f"it reads one version, not its changes: {_WRITERS} (readChangeFeed)")
    merge = _NotOffered(f"{_WRITERS} (MERGE INTO)")
    optimize = _NotOffered(f"{_WRITERS} (OPTIMIZE), or `sidecar maintain`")
    repair = _NotOffered("use the deltalake package, or FSCK REPAIR TABLE on Databricks")
    restore = _NotOffered(f"{_WRITERS} (RESTORE TABLE); load_as_version reads an older version")
    update = _NotOffered(f"{_WRITERS} (UPDATE); update_incremental reads the newest version")
    vacuum = _NotOffered(f"{_WRITERS} (VACUUM), or `sidecar maintain`")

    def _bind(self, predicate: str | Filters | None) -> Expression | None:
        if predicate is None:
            return None
        from delta_sidecar.predicates.binding import bind_predicate

        schema, partitions = self._snapshot.schema, self._snapshot.partition_columns
        return bind_predicate(predicate, schema, partitions, self._settings.partition_timezone)

    def _scan(
        self,
        predicate: Expression | None,
        columns: Sequence[str] | None,
        limit: int | None,
        strategy: str | None,
        after: ScanPosition | None = None,
    ) -> FileScan:
        from delta_sidecar.scan.file_scan import FileScan

        return FileScan(self._snapshot, self._settings, predicate, columns, limit, strategy, after)

    def _store_on(self, filesystem: object) -> Store | None:
        """The table's files in a file system of the user's; None without one."""
        if filesystem is None:
            return None
        from delta_sidecar.data.filesystem_store import FilesystemStore, checked_filesystem

        return FilesystemStore(checked_filesystem(filesystem), self._store.root_uri)

    def _rows(
        self,
        predicate: Expression | None,
        columns: Sequence[str] | None,
        limit: int | None,
        store: Store | None = None,
    ) -> RowStream:
        if not self.schema().fields:
            raise CorruptLogError(f"{self.table_uri} has no schema: its files can be listed, its rows not read")
        files = self._scan(predicate, [*_FILE_COLUMNS, "num_records"] if columns == [] else _FILE_COLUMNS, None, None)
        return self._rows_of(iter(files), columns, predicate, limit, store)

    def _filtered(
        self,
        predicate: Expression | None,
        columns: Sequence[str] | None,
        expression: pc.Expression,
        store: Store | None,
    ) -> pa.Table:
        """The rows that a pyarrow expression is true of."""
        import pyarrow.dataset as pds

        if columns is not None:
            self.schema().select(columns)
        with self._rows(predicate, None, None, store) as rows:
            scanner = pds.Scanner.from_batches(rows.to_reader(), columns=columns, filter=expression)
            return scanner.to_table()

    def _rows_of(
        self,
        files: Iterator[pa.RecordBatch],
        columns: Sequence[str] | None,
        predicate: Expression | None,
        limit: int | None,
        store: Store | None = None,
    ) -> RowStream:
        """The rows of files of a listing, read from the table's own store or from another that has them."""
        from delta_sidecar.data.row_scan import read_rows

        settings = self._settings
        return read_rows(
            files,
            self._store if store is None else store,
            self.schema(),
            self._snapshot.partition_columns,
            mapping_mode=self._snapshot.mapping_mode,
            columns=columns,
            predicate=predicate,
            limit=limit,
            threads=settings.read_threads or None,
            memory_budget=settings.memory_budget,
            batch_size=settings.row_batch_size,
            partition_timezone=settings.partition_timezone,
            open_other=self._open_store,
            limits=settings.limits,
        )


def _opened_again(kind: type[DeltaTable], table_id: str, opening: Mapping[str, Any]) -> DeltaTable:
    """A table that was pickled or copied, at the version it had."""
    table = kind(**opening)
    if table.metadata().id != table_id:
        raise TableNotFoundError(f"{table.table_uri} is another table than the one that was pickled; open it anew")
    return table


def _check_pickles(store: object, table: DeltaTable) -> None:
    import pickle

    try:
        pickle.dumps(store)
    except Exception as error:
        raise InputError(
            f"{table!r} was made with store=…, and a {type(store).__name__} cannot be pickled ({type(error).__name__});"
            " open the table by its URI and storage_options"
        ) from None


def _closing(scan: FileScan) -> Iterator[FileInfo]:
    with scan:
        yield from file_infos(scan)


def _all_of(terms: Sequence[Expression | None]) -> Expression | None:
    from delta_sidecar.predicates.expression import And

    conditions = tuple(term for term in terms if term is not None)
    return And(conditions) if len(conditions) > 1 else next(iter(conditions), None)


def _checked_version(version: int | None) -> int | None:
    if version is not None and type(version) is not int:
        raise InputError(f"version is {version!r}; it takes a whole number (load_as_version also takes a time)")
    return version


def _milliseconds(instant: str | datetime) -> int:
    """An instant in milliseconds, rounded down; without a zone it is UTC."""
    if isinstance(instant, str):
        try:
            instant = datetime.fromisoformat(instant)
        except ValueError:
            raise InputError(f"{instant!r} is not a time; write it as 2026-02-10T22:00:00Z") from None
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    elapsed = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000
