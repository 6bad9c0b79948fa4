"""`DeltaTable`, the main class of the library. Names and arguments that `deltalake` also has are the same."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import pyarrow as pa

from delta_sidecar.errors import (
    CorruptTableError,
    InputError,
    NotOfferedError,
    TableNotFoundError,
    UnsupportedTableError,
    VersionAfterLatestError,
    VersionNotFoundError,
    needs_extra,
)
from delta_sidecar.index.read.opening import open_snapshot
from delta_sidecar.limits import CommitLimits, ReaderLimits
from delta_sidecar.log.segment import CheckpointFiles
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.scan.file_infos import FileInfo, file_infos
from delta_sidecar.settings import Settings, settings_of
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.metered import Cost, MeteredStore
from delta_sidecar.storage.opening import open_store, store_at
from delta_sidecar.storage.uri import parse_location, resolve_log_path
from delta_sidecar.table_access import Predicate, TableAccess

if TYPE_CHECKING:
    import datafusion
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow.dataset as pds
    import pyarrow.fs as pa_fs

    from delta_sidecar.data.file_bytes import StoreOpener
    from delta_sidecar.data.row_stream import RowStream
    from delta_sidecar.engines.dataset import TableDataset
    from delta_sidecar.engines.engine_plan import EnginePlan
    from delta_sidecar.scan.file_scan import FileScan
    from delta_sidecar.scan.scan_position import ScanPosition
    from delta_sidecar.storage.given_store import GivenStore
    from delta_sidecar.values.types import StructType


class TableMetadata(NamedTuple):
    """The metadata of a table: the return value of `DeltaTable.metadata`.

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
    """The protocol versions and features of a table: the return value of `DeltaTable.protocol`.

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
    """How the table is loaded, with the field names of `deltalake`."""

    without_files: bool
    """Always False: files are never loaded in advance, but always available."""
    log_buffer_size: int
    """Commits fetched at once."""
    skip_stats: bool
    """Always False, for the same reason."""


class _NotOffered:
    """Stands for a method that `deltalake` has and this table has not. Calling it, or using an attribute of it, raises
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
        return NotOfferedError(f"DeltaTable.{self._name} is not offered: DeltaTable only reads; {self._instead}")


_WRITERS: Final = "use the deltalake package or Spark"


class DeltaTable:
    """One version of a Delta table. The version is chosen when the table is opened; files are listed only on request.

    A table can be pickled, for Spark, Dask or `multiprocessing`: unpickling opens the same version again. The pickle
    holds `storage_options` and `profile`, credentials included, so protect it like a credential. Options from the
    environment are not in the pickle: the process that loads it reads its own environment.

    Args:
        table_uri: The location of the table: a local path or a URI such as `s3://bucket/events`.
        version: The version to open; the newest if not given. `load_as_version` also takes a time.
        storage_options: Credentials and settings of the object store, the same as in `deltalake`.
        without_files: Has no effect; accepted for programs written for `deltalake`.
        log_buffer_size: The number of commits to fetch at the same time, as in `deltalake`.
        skip_stats: Has no effect; accepted for programs written for `deltalake`.
        options: Reader options (`delta.sidecar.…`).
        profile: More storage options. `storage_options` override them; they override the environment.
        store: An obstore store (`S3Store`, `AzureStore`, …) that holds the table, with its own credentials or
            credential provider; `table_uri` says where in the store the table is.
        limits: Thresholds of the reader, for measurements and tests.

    Raises:
        TableNotFoundError: There is no Delta table at that location.
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
        self._open_store: StoreOpener = partial(open_store, storage_options=storage_options, profile=profile)
        self._settings = settings_of(self._options, limits=self._limits)
        self._store = MeteredStore(store_at(table_uri, store, storage_options, profile))
        self._load(_checked_version(version))

    def _load(self, version: int | None) -> None:
        """Open a version. If that fails, the table stays as it was."""
        before, expected = self._store.cost, self._settings.enabled
        snapshot = self._pinned(version, self._settings.commit_limits, expected)
        # Properties of the version itself may turn indexes off, or on again.
        settings = settings_of(self._options, snapshot.metadata.properties, limits=self._limits)
        has_index = not isinstance(snapshot.segment.base, CheckpointFiles | None)
        if settings.enabled != expected and (settings.enabled or has_index):
            snapshot = self._pinned(snapshot.version, settings.commit_limits, settings.enabled)
        if snapshot.commits.limits != settings.commit_limits:
            snapshot = replace(snapshot, commits=snapshot.commits.through(self._store, settings.commit_limits))
        if settings.cache_size != shared_cache.limit:
            shared_cache.resize(settings.cache_size)
        self._snapshot, self._settings = snapshot, settings
        self._opening_cost = self._store.cost - before

    def _pinned(self, version: int | None, limits: CommitLimits, with_index: bool) -> Snapshot:
        if not with_index:
            plain = load_snapshot(self._store, version, limits)
            return replace(plain, notes=(*plain.notes, "delta.sidecar.enabled is false: no index was looked for"))
        return open_snapshot(self._store, version, limits)

    def __repr__(self) -> str:
        return f"DeltaTable({self.table_uri!r}, version={self.version()})"

    def __eq__(self, other: object) -> bool:
        """Whether both are the same version of the same table, opened with the same store or storage options. The
        version of a table can change, so tables are not hashable."""
        if not isinstance(other, DeltaTable):
            return NotImplemented
        ours, theirs = ((t.table_uri, t.version(), t._snapshot.metadata.id) for t in (self, other))
        return ours == theirs and self._has_store_of(other)

    def _has_store_of(self, other: DeltaTable) -> bool:
        if self._store.identity == other._store.identity:
            return True
        return self._given_store is not None and self._given_store == other._given_store

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
        """The arguments that open the table again, at the same version."""
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

    def _at_this_version(self) -> DeltaTable:
        """The same table, which stays at its version when this one is moved; nothing is opened."""
        table = object.__new__(type(self))
        vars(table).update(vars(self))
        return table

    @property
    def _access(self) -> TableAccess:
        """What this class and the engines list and read the open version with."""
        return TableAccess(
            snapshot=self._snapshot,
            settings=self._settings,
            store=self._store,
            open_store=self._open_store,
            storage_options=self._storage_options,
            profile=self._profile,
            has_given_store=self._given_store is not None,
        )

    @staticmethod
    def is_deltatable(table_uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None) -> bool:
        """Whether there is a Delta log at that location, even one that this reader does not support."""
        try:
            load_snapshot(open_store(table_uri, storage_options))
        except TableNotFoundError:
            return False
        except (VersionNotFoundError, UnsupportedTableError, CorruptTableError):
            return True
        return True

    # What the table is

    @property
    def table_uri(self) -> str:
        """The location of the table: a local path, or a URI."""
        return parse_location(self._store.root_uri).text

    @property
    def snapshot(self) -> Snapshot:
        """The version of the table that is open, with its protocol, metadata and log files."""
        return self._snapshot

    @property
    def settings(self) -> Settings:
        """The reader options in effect."""
        return self._settings

    @property
    def opening_cost(self) -> Cost:
        """The requests and bytes that opening the table took."""
        return self._opening_cost

    def version(self) -> int:
        """The version of the table that is open."""
        return self._snapshot.version

    def schema(self) -> StructType:
        """The schema of the table; `to_arrow()` returns it as an Arrow schema."""
        return self._snapshot.schema

    def metadata(self) -> TableMetadata:
        """Id, name, partition columns and properties of the table."""
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
        """The reader and writer versions that the table needs, and its features."""
        protocol = self._snapshot.protocol
        return ProtocolVersions(
            protocol.minReaderVersion, protocol.minWriterVersion, protocol.writerFeatures, protocol.readerFeatures
        )

    @property
    def table_config(self) -> TableConfig:
        """How the table is loaded, with the field names of `deltalake`; `settings` has all options."""
        return TableConfig(False, self._settings.commit_parallelism, False)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The `commitInfo` of each commit up to this version, newest first."""
        from delta_sidecar.listing.request import checked_limit
        from delta_sidecar.log import travel

        limit = checked_limit(limit)
        return list(travel.history(self._store, self.version(), limit, self._settings.commit_limits))

    def transaction_version(self, app_id: str) -> int | None:
        """The last transaction version (`txn`) that an application recorded, or None."""
        from delta_sidecar.log import travel

        return travel.transaction_version(self._snapshot, app_id)

    def load_as_version(self, version: int | str | datetime) -> None:
        """Switch to another version: a number, or the version at a time (ISO text or datetime)."""
        if isinstance(version, (str, datetime)):
            from delta_sidecar.log import travel

            head = load_snapshot(self._store, None, self._settings.commit_limits)
            version = travel.version_at(self._store, head, travel.milliseconds_of(version))
        self._load(_checked_version(version))

    def update_incremental(self) -> None:
        """Switch to the newest version."""
        self._load(None)

    # Its files

    def scan_files(
        self,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        strategy: str | None = None,
        after: ScanPosition | None = None,
    ) -> FileScan:
        """The live files as a stream of Arrow batches, without files that cannot match the predicate.

        Files of new commits come first, those of the newest commit before all others. Those of the base follow: of an
        index, with a limit, by sort key, the greatest first and null last; a checkpoint has no order. Without a limit,
        commits that a log compaction file stands for count as one.

        Args:
            predicate: A condition as SQL text, as tuples like pyarrow's filters, or as a pyarrow expression. Files are
                skipped if the log proves that they hold no matching row. The parts of an expression that the reader
                does not understand skip no files; the plan shows what it understood.
            columns: The columns of the listing; path, size, modification time, partition values
                and deletion vector if not given.
            limit: The largest number of files to list.
            strategy: `reverse`, `forward` or `auto`: whether commits are read one by one or all at once.
            after: The `position` of a listing of the same version with the same predicate. This listing resumes after
                the last batch of that one: it reads the earlier files again, but does not return them.

        Returns:
            A `FileScan`: iterate it, or pass it to anything that takes an Arrow stream.

        Raises:
            PredicateError: The predicate cannot be parsed or does not fit the schema.
            UnknownColumnError: There is no such column.
            OptionError: The limit or strategy is wrong.
            PositionError: `after` belongs to another table, version or predicate, or that listing cannot be repeated.

        Example:
            >>> from delta_sidecar import DeltaTable
            >>> files = DeltaTable("events").scan_files("_event_hour = '2026021022'", columns=["path", "num_records"])
            >>> files.read_all().to_pylist()
            [{'path': '_event_hour=2026021022/part-0.parquet', 'num_records': 2}]
        """
        access = self._access
        return access.listing(access.bind(predicate), columns, limit, strategy, after)

    def file_infos(
        self,
        predicate: Predicate | None = None,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        strategy: str | None = None,
    ) -> Iterator[FileInfo]:
        """The live files as objects, in the order of `scan_files`, in an iterator that reads as it goes."""
        named = None if columns is None else ("path", *columns)
        return _closing(self.scan_files(predicate, named, limit, strategy))

    def file_uris(
        self,
        partition_filters: Predicate | None = None,
        *,
        file_pruning_predicate: Predicate | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """The locations of the live files: local paths, or decoded URIs."""
        bound = self._access.bind_all([partition_filters, file_pruning_predicate, predicate])
        table = parse_location(self._store.root_uri)
        with self._access.listing(bound, ["path"], limit) as scan:
            return [resolve_log_path(table, p).text for batch in scan for p in batch.column("path").to_pylist()]

    def file_uri(self, path: str) -> str:
        """The location of a file, given its `path` as in the log."""
        return resolve_log_path(parse_location(self._store.root_uri), path).text

    def partitions(
        self,
        partition_filters: Predicate | None = None,
        *,
        file_pruning_predicate: Predicate | None = None,
    ) -> list[dict[str, str | None]]:
        """The distinct partition values of the live files, by logical name, as texts of the log; an empty list for a
        table without partition columns."""
        if not self._snapshot.partition_columns:
            return []
        bound = self._access.bind_all([partition_filters, file_pruning_predicate])
        physical = {c: self.schema().resolve([c])[0].physical_name for c in self._snapshot.partition_columns}
        with self._access.listing(bound, ["path", "partition_values"]) as scan:
            seen = {id(f.partition_values): f.partition_values for f in file_infos(scan)}
        # The columns in the table's order: a file may have them in another one.
        named = (tuple((c, values[k]) for c, k in physical.items() if k in values) for values in seen.values())
        return [dict(entries) for entries in dict.fromkeys(named)]

    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """All live files in memory, with the columns of `deltalake`: `path`, `size_bytes`, `modification_time`,
        `num_records`, and typed structs `null_count`, `min`, `max` and `partition`; with `flatten`, columns `min.x`,
        `partition.p` and so on instead of structs. `scan_files` streams every field that the log has for a file."""
        from delta_sidecar.scan.add_actions import add_actions

        return add_actions(self._snapshot, self._settings, flatten)

    def deletion_vectors(self) -> pa.RecordBatchReader:
        """The deletion vectors of all files that have one: `filepath` (the file's URI) and `selection_vector` (a list
        with a boolean for each row of the file, False if the row is deleted)."""
        from delta_sidecar.data.deletion_masks import COUNTED_FILE_COLUMNS, deletion_masks

        return deletion_masks(self._access.listing(None, COUNTED_FILE_COLUMNS), self._access.sources())

    def get_stats_for_files(self, paths: Sequence[str], columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Statistics of some files, given as paths of the log or as `file_uris` returns them: `path` (as in the log),
        `num_records`, and for each column `min.<column>`, `max.<column>`, `null_count.<column>`. Files that are not
        live are left out."""
        from delta_sidecar.scan.file_stats import file_stats, stats_columns

        given: Any = paths
        is_list = isinstance(given, Iterable) and not isinstance(given, str)
        paths = list(given) if is_list else []
        if not is_list or not all(isinstance(path, str) for path in paths):
            raise InputError("paths takes a list of strings: paths of the log, or what file_uris returns")
        wanted = stats_columns(self.schema(), columns)
        return file_stats(self._snapshot, self._settings, paths, wanted)

    # Its rows

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limit: int | None = None,
        *,
        file_column: str | None = None,
    ) -> RowStream:
        """The rows as a stream of Arrow batches; reading starts before all files are listed. Of a pyarrow expression,
        the part that the reader understands skips files; the whole expression filters the rows. `file_column` adds a
        column of that name, with the file that each row is from, as `file_uris` names it; `columns` and `predicate` may
        name it."""
        return self._access.matching_rows([predicate], columns, limit, file_column=file_column)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, for libraries that take one, as in `pyarrow.table(table)`."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def scan(self, columns: Sequence[str] | None = None, predicate: Predicate | None = None) -> pa.RecordBatchReader:
        """The rows as a `RecordBatchReader`."""
        return self.to_batches(columns, predicate).to_reader()

    def to_pyarrow_table(
        self,
        partitions: Predicate | None = None,
        columns: Sequence[str] | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        filters: Predicate | None = None,
    ) -> pa.Table:
        """The rows in memory. Null in tuples of `filters` means what it means in pyarrow: `not in` keeps null, and `in`
        finds it if the list has None. If `filesystem` is given, files are read through it; its root must be the
        table."""
        access = self._access
        rows_filters: Predicate | RowFilters | None = filters
        if isinstance(filters, (list, tuple)):
            from delta_sidecar.predicates.predicate_tuples import RowFilters

            rows_filters = RowFilters(filters)
        with access.matching_rows([partitions, rows_filters], columns, store=access.store_on(filesystem)) as rows:
            return pa.Table.from_batches(list(rows), rows.schema)

    def to_pandas(
        self,
        partitions: Predicate | None = None,
        columns: Sequence[str] | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        filters: Predicate | None = None,
        types_mapper: Any = None,
    ) -> pd.DataFrame:
        """The rows as a pandas data frame; `InputError` if pandas is not installed."""
        try:
            import pandas  # noqa: F401
        except ImportError:
            raise needs_extra("to_pandas", "pandas", "pandas") from None
        table = self.to_pyarrow_table(partitions, columns, filesystem, filters)
        return table.to_pandas(types_mapper=types_mapper)

    def to_pyarrow_dataset(
        self,
        partitions: Predicate | None = None,
        filesystem: pa_fs.FileSystem | None = None,
        parquet_read_options: pds.ParquetReadOptions | None = None,
        schema: pa.Schema | None = None,
        as_large_types: bool = False,
        file_pruning_predicate: Predicate | None = None,
    ) -> TableDataset:
        """The table as a pyarrow dataset, for DuckDB, Polars, DataFusion, pandas and pyarrow. Their filters skip files
        through the index, and nothing is listed before they ask.

        `partitions` and `file_pruning_predicate` skip files in every scan; a pyarrow expression as `partitions` also
        filters the rows. With `as_large_types`, strings, binaries and lists have 64-bit offsets. `schema` overrides the
        columns and their types; its names must be names of the table. Of `parquet_read_options`, only
        `dictionary_columns` has an effect."""
        from delta_sidecar.engines.dataset import dataset_for_pyarrow

        given = self.schema().to_arrow(as_large_types) if schema is None else schema
        return dataset_for_pyarrow(self, given, partitions, file_pruning_predicate, filesystem, parquet_read_options)

    def count(self) -> int:
        """The number of rows, from the log if it has row counts, otherwise from the files."""
        with self._access.matching_rows([], []) as rows:
            return sum(batch.num_rows for batch in rows)

    # Its changes

    def changes(
        self,
        start: int | str | datetime,
        end: int | str | datetime | None = None,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
    ) -> RowStream:
        """The rows that a range of versions changed, as a stream of Arrow batches, oldest version first.

        The rows have the columns of the table, with the schema at the end of the range, and three more:
        `_change_type` (`insert`, `delete`, `update_preimage`, `update_postimage`), `_commit_version` and
        `_commit_timestamp`. The table needs the property `delta.enableChangeDataFeed` at every version of the range.

        Args:
            start: The first version, or a time (ISO text or datetime): then the first version at or after it.
            end: The last version, or a time: then the last version at or before it. The version that is open if not
                given, or if `end` is after it.
            columns: Columns of the table or of the feed, in the order wanted; all if not given.
            predicate: A condition on these columns as SQL text, tuples, or a pyarrow expression.

        Raises:
            NoChangeFeedError: The feed is off at a version of the range.
            VersionAfterLatestError: The range begins after the version that is open: nothing is new.
            VersionRangeError: The range ends before it starts.
            CleanedUpError: Commits of the range are no longer in the log.
            SchemaChangedError: Rows of the range do not fit the schema at its end.
            MissingDataError: A file of the range is gone, perhaps vacuumed; raised when it is reached.
            PredicateError: The predicate cannot be parsed or does not fit the schema.
            UnknownColumnError: There is no such column.

        Example:
            >>> from delta_sidecar import DeltaTable
            >>> with DeltaTable("events").changes(3, columns=["id", "_change_type", "_commit_version"]) as changes:
            ...     for batch in changes:
            ...         print(batch.to_pylist()[0])
            {'id': 6, '_change_type': 'insert', '_commit_version': 3}
        """
        from delta_sidecar.log import travel

        access = self._access
        if isinstance(start, str | datetime):
            start = travel.version_from(self._store, self._snapshot, travel.milliseconds_of(start))
        if isinstance(end, str | datetime):
            end = travel.version_until(self._store, self._snapshot, travel.milliseconds_of(end))
        for name, version in (("start", start), ("end", start if end is None else end)):
            if type(version) is not int:
                raise InputError(f"{name} is {version!r}; it takes a version or a time")
        return access.changes(start, end, columns, predicate)

    def load_cdf(
        self,
        starting_version: int = 0,
        ending_version: int | None = None,
        starting_timestamp: str | datetime | None = None,
        ending_timestamp: str | datetime | None = None,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        allow_out_of_range: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows of `changes`, with the arguments of `deltalake`. If both a starting version and a starting timestamp
        are given, the later one counts; an ending version takes precedence over an ending timestamp. With
        `allow_out_of_range`, a range that begins after the newest version has no rows instead of being an error."""
        from delta_sidecar.log import travel

        start = starting_version
        if starting_timestamp is not None:
            start = max(
                start, travel.version_from(self._store, self._snapshot, travel.milliseconds_of(starting_timestamp))
            )
        try:
            end = ending_timestamp if ending_version is None else ending_version
            return self.changes(start, end, columns, predicate).to_reader()
        except VersionAfterLatestError:
            if not allow_out_of_range:
                raise
            return self._access.no_changes(columns, predicate).to_reader()

    # Its rows in an engine

    def to_duckdb(
        self,
        connection: duckdb.DuckDBPyConnection | None = None,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
        way: str = "auto",
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, over the files that may hold a matching row.

        Nothing is registered on the connection; the relation stays valid as long as the connection does.

        Args:
            connection: What `duckdb.connect` returns; DuckDB's default connection if not given.
            predicate: A condition as SQL text, tuples, or a pyarrow expression, with the meaning it has in
                `to_batches`: files that cannot match are skipped, and rows that do not match are left out.
            columns: The columns, in the order wanted; all of them if not given.
            way: `files` for DuckDB's own Parquet scanner over the list of files, `dataset` for rows of this library's
                reader, `auto` for the files if they alone give the rows. `engine_plan` says which, and why.

        Raises:
            InputError: DuckDB is not installed, or `connection` is not a DuckDB connection.
            PredicateError: The predicate cannot be parsed or does not fit the schema.
            UnknownColumnError: There is no such column.
            UnsupportedTableError: `way` is `files`, and the files alone do not give the rows.
            CorruptDataError: A file is missing or broken.

        Example:
            >>> from delta_sidecar import DeltaTable
            >>> hour = DeltaTable("events").to_duckdb(predicate="_event_hour = '2026021022'")
            >>> hour.aggregate("count(*)").fetchall()
            [(2,)]
        """
        from delta_sidecar.engines.duckdb import to_duckdb

        return to_duckdb(self, connection, predicate, columns, way)

    def to_polars(
        self,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
        way: str = "auto",
    ) -> pl.LazyFrame:
        """The rows as a lazy Polars frame, over the files that may hold a matching row.

        Args:
            predicate: As in `to_duckdb`.
            columns: The columns, in the order wanted; all of them if not given.
            way: `files` for Polars' own Parquet scanner over the list of files, `dataset` for rows of this library's
                reader, `auto` for the files if they alone give the rows.

        Raises:
            InputError: Polars is not installed.
            PredicateError: The predicate cannot be parsed or does not fit the schema.
            UnknownColumnError: There is no such column.
            UnsupportedTableError: `way` is `files`, and the files alone do not give the rows.
            CorruptDataError: A file is missing or broken.

        Example:
            >>> from delta_sidecar import DeltaTable
            >>> hour = DeltaTable("events").to_polars("_event_hour = '2026021022'")
            >>> hour.select("id").collect().to_series().sort().to_list()
            [4, 5]
        """
        from delta_sidecar.engines.polars import to_polars

        return to_polars(self, predicate, columns, way)

    def to_datafusion(
        self,
        ctx: datafusion.SessionContext,
        name: str,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
        *,
        file_column: str | None = None,
    ) -> None:
        """Register the table in a DataFusion session; a table of that name is replaced.

        Args:
            ctx: The session.
            name: The table's name in SQL.
            predicate: As in `to_duckdb`.
            columns: The columns, in the order wanted; all of them if not given.
            file_column: The name of an extra column with the file that each row is from, as `file_uris` names it.

        Raises:
            InputError: DataFusion is not installed, or `ctx` is not a `SessionContext`.
            PredicateError: The predicate cannot be parsed or does not fit the schema.
            UnknownColumnError: There is no such column.

        Example:
            >>> from datafusion import SessionContext
            >>> from delta_sidecar import DeltaTable
            >>> ctx = SessionContext()
            >>> DeltaTable("events").to_datafusion(ctx, "events")
            >>> ctx.sql("SELECT count(*) AS n FROM events").to_pylist()
            [{'n': 8}]
        """
        from delta_sidecar.engines.datafusion import to_datafusion

        to_datafusion(self, ctx, name, predicate, columns, file_column)

    def engine_plan(
        self,
        engine: str,
        predicate: Predicate | None = None,
        columns: Sequence[str] | None = None,
        way: str = "auto",
    ) -> EnginePlan:
        """How an engine (`duckdb`, `polars` or `datafusion`) would read the table, and why: `print` shows it. If the
        engine may read files, this lists them and reads their footers, as the engine's own call does.

        Example:
            >>> from delta_sidecar import DeltaTable
            >>> plan = DeltaTable("events").engine_plan("polars", "_event_hour = '2026021022'")
            >>> plan.way, plan.reason, plan.files
            ('files', 'the files alone give the rows', 1)
        """
        from delta_sidecar.engines.engine_plan import engine_plan

        return engine_plan(self, engine, predicate, columns, way)

    # What others do

    alter = _NotOffered(f"{_WRITERS} (ALTER TABLE)")
    cleanup_metadata = _NotOffered(f"{_WRITERS}; Spark cleans the log by itself after a checkpoint")
    compact_logs = _NotOffered("use the deltalake package")
    create = _NotOffered(f"{_WRITERS}, or `sidecar ingest`, which creates the table it fills")
    create_checkpoint = _NotOffered(f"{_WRITERS}, or `sidecar maintain --only checkpoint`")
    create_write_transaction = _NotOffered("use the deltalake package, or write files with Spark or `sidecar ingest`")
    delete = _NotOffered(f"{_WRITERS} (DELETE FROM), or delta_sidecar.lake.delete")
    generate = _NotOffered(f"{_WRITERS} (GENERATE symlink_format_manifest)")
    merge = _NotOffered(f"{_WRITERS} (MERGE INTO), or delta_sidecar.lake.merge")
    optimize = _NotOffered(f"{_WRITERS} (OPTIMIZE), or `sidecar maintain`")
    repair = _NotOffered("use the deltalake package, or FSCK REPAIR TABLE on Databricks")
    restore = _NotOffered(f"{_WRITERS} (RESTORE TABLE); load_as_version reads an older version")
    update = _NotOffered(
        f"{_WRITERS} (UPDATE), or delta_sidecar.lake.update; update_incremental reads the newest version"
    )
    vacuum = _NotOffered(f"{_WRITERS} (VACUUM), or `sidecar maintain`")


def _opened_again(kind: type[DeltaTable], table_id: str, opening: Mapping[str, Any]) -> DeltaTable:
    """A table that was pickled or copied, at the version it had."""
    table = kind(**opening)
    if table.metadata().id != table_id:
        raise TableNotFoundError(f"{table.table_uri} is not the table that was pickled; open it again")
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


def _checked_version(version: int | None) -> int | None:
    if version is not None and type(version) is not int:
        raise InputError(f"version is {version!r}; it takes a whole number (load_as_version also takes a time)")
    return version
