"""The changes of a table as a DataFrame: which versions, from where, and up to where.

The range is found in the log by our own reader, before Spark is asked, so that each reason for no answer is an error of
its own, on classic Spark and on Connect. Its end is pinned: what others commit later is not in it.

| first version                        | when                                                         |
|--------------------------------------|--------------------------------------------------------------|
| the one that is asked for            | `start_version` or `start_timestamp` is given                |
| the one after the cursor             | there is a cursor that has processed some                    |
| none: all rows at the end, as inserts | otherwise; the next reading begins with the version after it |
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import msgspec

from delta_sidecar.data.change_files import TIMESTAMP, TYPE, VERSION
from delta_sidecar.data.changed_schema import check_schemas
from delta_sidecar.data.changes import change_schema
from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    NoChangeFeedError,
    ObjectNotFoundError,
    OptionError,
    OtherTableError,
    SchemaChangedError,
    VersionAfterLatestError,
    VersionRangeError,
)
from delta_sidecar.lake.cursors import NOTHING_YET, CdfCursor, CdfCursorStore
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.change_range import ChangeRange, TableState, change_range, still_there
from delta_sidecar.log.commit_changes import changes_of_commit
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.log_names import commit_name
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.log.travel import commit_info, milliseconds_of, version_from, version_until
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.projection import value
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import set_storage_options
from delta_sidecar.storage.opening import open_store
from delta_sidecar.values.bucket_columns import quoted
from delta_sidecar.values.column_names import folded
from delta_sidecar.values.types import ArrayType, DataType, MapType, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED_COLUMNS: Final = (TYPE, VERSION, TIMESTAMP)


class ChangeFilter(Enum):
    """Which kinds of changes to return.

    Example:
        >>> from delta_sidecar.lake import ChangeFilter
        >>> ChangeFilter("inserts_only")
        <ChangeFilter.INSERTS_ONLY: 'inserts_only'>
    """

    INCLUDE_ALL = "include_all"
    INSERTS_AND_UPDATES_ONLY = "inserts_and_updates_only"
    """No deletes. The rows before an update stay: without them an update of the key leaves the old row behind."""
    INSERTS_ONLY = "inserts_only"

    @property
    def condition(self) -> str | None:
        """The filter as a SQL condition; None if all changes are returned."""
        return _CONDITIONS[self]


_CONDITIONS: Final = {
    ChangeFilter.INCLUDE_ALL: None,
    ChangeFilter.INSERTS_AND_UPDATES_ONLY: f"{TYPE} <> 'delete'",
    ChangeFilter.INSERTS_ONLY: f"{TYPE} = 'insert'",
}


@dataclass(frozen=True, slots=True)
class CdfReadOptions:
    """What to read of a table's changes.

    Raises:
        OptionError: Two options contradict each other.

    Example:
        >>> from delta_sidecar.lake import CdfCursorStore, CdfReadOptions
        >>> options = CdfReadOptions(cursor_store=CdfCursorStore("state"), dataset_name="events")
        >>> options.change_filter
        <ChangeFilter.INCLUDE_ALL: 'include_all'>
    """

    start_version: int | None = None
    """The first version; it takes precedence over the cursor."""
    end_version: int | None = None
    """The last version; the newest if not given."""
    start_timestamp: str | datetime | None = None
    """Begin with the first version at or after this time."""
    end_timestamp: str | datetime | None = None
    """End with the last version at or before this time."""
    cursor_store: CdfCursorStore | None = None
    dataset_name: str | None = None
    """The name of the cursor."""
    columns: Sequence[str] | None = None
    """Exactly these columns, of the table or of the feed; all if not given."""
    predicate: str | None = None
    """A condition in Spark's SQL, on columns of the table and of the feed."""
    change_filter: ChangeFilter = ChangeFilter.INCLUDE_ALL
    max_versions: int | None = None
    """The largest number of versions in one result."""

    def __post_init__(self) -> None:
        if self.start_version is not None and self.start_timestamp is not None:
            raise OptionError("start_version and start_timestamp both name the first version; give one of them")
        if self.end_version is not None and self.end_timestamp is not None:
            raise OptionError("end_version and end_timestamp both name the last version; give one of them")
        if (self.cursor_store is None) != (self.dataset_name is None):
            raise OptionError("a cursor needs both cursor_store and dataset_name")
        if self.max_versions is not None and self.max_versions < 1:
            raise OptionError(f"max_versions is {self.max_versions}; give 1 or more")

    @property
    def is_from_start(self) -> bool:
        """Whether the options name the first version, whatever a cursor says."""
        return self.start_version is not None or self.start_timestamp is not None


@dataclass(frozen=True, slots=True, eq=False)
class FeedRange:
    """What a reading will read: pinned, and known to be readable. Nothing of it needs Spark."""

    head: Snapshot
    """The newest version of the table."""
    start: int
    end: int
    """Before `start` if nothing is new."""
    at_end: TableState
    """Schema and properties at the end."""
    changes: ChangeRange | None
    """None for a snapshot, and if nothing is new."""

    @property
    def is_snapshot(self) -> bool:
        """Whether all rows at the end are read, rather than changes."""
        return self.changes is None and not self.is_empty

    @property
    def is_empty(self) -> bool:
        """Whether nothing is new."""
        return self.end < self.start

    @property
    def table_id(self) -> str:
        return self.at_end.metadata.id

    @property
    def schema(self) -> StructType:
        """The table's columns at the end."""
        return self.at_end.schema()

    def has_changed_files(self) -> bool:
        """Whether any commit of the range changes rows, as far as its files tell: those that rewrite files do not."""
        if self.changes is None:
            return self.is_snapshot
        maker = KeyMaker(self.head.store.root_uri)
        for timed in self.changes.commits:
            with still_there(timed.version):
                found = changes_of_commit(self.changes.bytes, timed.commit.file, maker)
                if any(files for files in found.files):
                    return True
        return False

    def end_time_ms(self) -> int | None:
        """The time of the last version in milliseconds; None if its commit is no longer in the log."""
        meta = self.head.listing.commits.get(self.end)
        if meta is None:
            return None
        inside = (commit_info(self.head.commits, meta) or {}).get("inCommitTimestamp")
        return inside if isinstance(inside, int) else meta.last_modified_ms


def commit_digest(head: Snapshot, version: int) -> str | None:
    """A digest of what a commit says of itself; None if it is no longer in the log, or says nothing."""
    try:
        meta = head.store.head(f"{head.dialect.directory}/{commit_name(version)}")
    except ObjectNotFoundError:
        return None
    info = commit_info(head.commits, meta)
    return None if info is None else blake2b(msgspec.json.encode(info, order="sorted"), digest_size=16).hexdigest()


def feed_range(head: Snapshot, options: CdfReadOptions, cursor: CdfCursor | None, needs_feed: bool = True) -> FeedRange:
    """The versions that the options mean on a table whose newest version is `head`."""
    if cursor is not None:
        cursor.check_table(head.metadata.id, head.store.root_uri)
        if cursor.last_commit is not None and cursor.last_version <= head.version:
            cursor.check_commit(commit_digest(head, cursor.last_version), head.store.root_uri)
    start, end = _start(head, options, cursor), _end(head, options)
    state = TableState(head.version, head.protocol, head.metadata)
    if start is None:
        return _snapshot(head, end, needs_feed)
    if start == head.version + 1 or (end < start and not options.is_from_start):
        return FeedRange(head, start, start - 1, state, None)
    if options.max_versions is not None:
        end = min(end, start + options.max_versions - 1)
    if not needs_feed:
        return FeedRange(head, end, end, _state_at(head, end), None)
    changes = change_range(head, start, end, CommitLimits())
    change_schema(changes.end)
    check_schemas(changes)
    return FeedRange(head, start, end, changes.end, changes)


def _start(head: Snapshot, options: CdfReadOptions, cursor: CdfCursor | None) -> int | None:
    where, latest = head.store.root_uri, head.version
    if options.start_timestamp is not None:
        return version_from(head.store, head, milliseconds_of(options.start_timestamp))
    if options.start_version is not None:
        if options.start_version < 0:
            raise InputError(f"changes cannot start at version {options.start_version}; give 0 or more")
        if options.start_version > latest + 1:
            raise VersionAfterLatestError(
                f"no version {options.start_version} at {where}: the newest is {latest}; start there or before"
            )
        return options.start_version
    if cursor is None or cursor.last_version == NOTHING_YET:
        return None
    if cursor.last_version > latest:
        raise OtherTableError(
            f"cursor {cursor.dataset_name!r} is at version {cursor.last_version}, but the newest at {where} is "
            f"{latest}: the table was restored or created again; reset the cursor to start over"
        )
    return cursor.next_version


def _end(head: Snapshot, options: CdfReadOptions) -> int:
    end = options.end_version
    if options.end_timestamp is not None:
        end = version_until(head.store, head, milliseconds_of(options.end_timestamp))
    if end is not None and options.start_version is not None and end < options.start_version:
        raise VersionRangeError(
            f"the range of changes ends at version {end}, before its start {options.start_version}; swap them"
        )
    return head.version if end is None else min(end, head.version)


def _snapshot(head: Snapshot, end: int, needs_feed: bool) -> FeedRange:
    """All rows at a version. The changes after it must be recorded, or there would be no second reading."""
    state = _state_at(head, end)
    if needs_feed:
        change_schema(state)
    if needs_feed and not state.has_feed:
        raise NoChangeFeedError(
            f"{head.store.root_uri} has no change feed at version {end}; set its property delta.enableChangeDataFeed "
            "to true, which records changes from then on"
        )
    return FeedRange(head, end, end, state, None)


def _state_at(head: Snapshot, version: int) -> TableState:
    found = head if version == head.version else load_snapshot(head.store, version)
    return TableState(version, found.protocol, found.metadata)


def check_names(found: FeedRange) -> None:
    """Refuse what our own reader can follow and Spark's cannot: columns that are renamed or dropped by mapping."""
    changes = found.changes
    if changes is None or len({_names(state.schema()) for state in changes.states}) == 1:
        return
    last = _names(changes.end.schema())
    for state, following in reversed(list(pairwise(changes.states))):
        gone = sorted(_names(state.schema()) - last)
        if gone:
            raise SchemaChangedError(
                f"version {following.version} renames or drops column {gone[0]!r}, and Spark gives no changes across "
                f"that; end at version {following.version - 1}, or start at {following.version}"
            )


def _names(schema: StructType) -> frozenset[str]:
    return frozenset(name for name in _all_names(schema, ""))


def _all_names(kind: DataType, above: str) -> Iterator[str]:
    match kind:
        case StructType():
            for column in kind.fields:
                yield f"{above}{column.name}"
                yield from _all_names(column.type, f"{above}{column.name}.")
        case ArrayType():
            yield from _all_names(kind.element, f"{above}element.")
        case MapType():
            yield from _all_names(kind.key, f"{above}key.")
            yield from _all_names(kind.value, f"{above}value.")


@dataclass(eq=False)
class CdfReadResult:
    """Changes that are ready to be read, and the cursor that moves once they are processed.

    Example:
        >>> from delta_sidecar.lake import read_changes
        >>> result = read_changes(spark, here / "events")
        >>> result.start, result.end, result.is_snapshot, result.has_changes
        (3, 3, True, True)
    """

    frame: DataFrame
    """The rows, with `_change_type`, `_commit_version` and `_commit_timestamp`."""
    start: int
    """The first version."""
    end: int
    """The last version; before `start` if nothing is new."""
    is_snapshot: bool
    """Whether these are all rows at `end`, as inserts, rather than changes."""
    table_id: str
    options: CdfReadOptions
    source: SourceTable = field(repr=False)
    range: FeedRange = field(repr=False)
    _has_changes: bool | None = field(default=None, repr=False)

    @property
    def has_changes(self) -> bool:
        """Whether there is any row. The first time, Spark may have to look for one."""
        if self._has_changes is None:
            self._has_changes = self.range.has_changed_files() and self._any_row()
        return self._has_changes

    def _any_row(self) -> bool:
        with feed_failures(f"reading the changes of {self.source.uri} failed"):
            return not self.frame.isEmpty()

    def commit(self) -> CdfCursor | None:
        """Mark the changes as processed: the cursor moves to `end`.

        Returns:
            The cursor as it is now; None if nothing was new and there is none.

        Raises:
            OptionError: The changes were read without a cursor.
            CursorError: Another consumer has moved the cursor further.
            OtherTableError: The cursor belongs to another table.

        Example:
            >>> from delta_sidecar.lake import CdfCursorStore, CdfReadOptions, read_changes
            >>> options = CdfReadOptions(cursor_store=CdfCursorStore(here / "state"), dataset_name="events")
            >>> read_changes(spark, here / "events", options).commit().last_version
            3
            >>> read_changes(spark, here / "events", options).has_changes
            False
        """
        cursors, name = self.options.cursor_store, self.options.dataset_name
        if cursors is None or name is None:
            raise OptionError("these changes were read without a cursor: give cursor_store and dataset_name")
        if self.end < self.start:
            return cursors.load(name)
        commit = commit_digest(self.range.head, self.end)
        return cursors.advance(name, self.end, table_id=self.table_id, commit=commit)


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table that Spark reads."""

    spark: SparkSession
    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def path(self) -> str:
        """The location in Spark's words."""
        return spark_uri(self.uri, self.storage_options)

    def rows(self, version: int) -> DataFrame:
        """The rows at a version."""
        return self._load({"versionAsOf": str(version)})

    def feed(self, start: int, end: int) -> DataFrame:
        """Spark's change feed."""
        return self._load({"readChangeFeed": "true", "startingVersion": str(start), "endingVersion": str(end)})

    def _load(self, options: Mapping[str, str]) -> DataFrame:
        reader: Any = self.spark.read.format("delta")
        frame: DataFrame = reader.options(**options).load(self.path)
        return frame


def read_changes(
    spark: SparkSession,
    source: str | os.PathLike[str],
    options: CdfReadOptions | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
) -> CdfReadResult:
    """The changes of a table since a version, a time or a cursor, as a DataFrame.

    The first version is the one that the options name, or else the one after the cursor. Without either, the result
    is all rows of the table, as inserts, and the next call returns the changes after them. Nothing is read before the
    frame is used, and the cursor moves only when you call `commit` of the result.

    Args:
        spark: The session.
        source: The location of the table.
        options: What to read; see `CdfReadOptions`.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.

    Returns:
        A `CdfReadResult`. If nothing is new, its frame is empty and `end` is before `start`.

    Raises:
        TableNotFoundError: There is no table.
        NoChangeFeedError: The table has no change feed.
        FeedStartsLaterError: It has one, but the range begins before it.
        OtherTableError: The cursor belongs to another table, which was here before.
        CleanedUpError: Commits of the range are no longer in the log.
        SchemaChangedError: Rows of the range do not fit the schema at its end.
        VersionAfterLatestError: The range begins more than one version after the newest.
        VersionRangeError: The range ends before it starts.

    Example:
        >>> from delta_sidecar.lake import CdfReadOptions, read_changes
        >>> result = read_changes(spark, here / "events", CdfReadOptions(start_version=2, end_version=2))
        >>> [(row.id, row._change_type) for row in result.frame.orderBy("id").collect()]
        [(4, 'insert'), (5, 'insert')]
    """
    options = options or CdfReadOptions()
    cursor = None
    if options.cursor_store is not None and options.dataset_name is not None:
        cursor = options.cursor_store.load(options.dataset_name)
    head = load_snapshot(open_store(source, storage_options))
    found = feed_range(head, options, cursor)
    check_names(found)
    set_storage_options(spark, [str(source)], storage_options)
    check_reach(spark, str(source))
    return result_of(SourceTable(spark, str(source), storage_options), options, found)


def result_of(source: SourceTable, options: CdfReadOptions, found: FeedRange) -> CdfReadResult:
    """The frame of a range."""
    with feed_failures(f"reading the changes of {source.uri} failed"):
        frame = _frame(source, found)
        for condition in (options.change_filter.condition, options.predicate):
            frame = frame if condition is None else frame.where(condition)
        if options.columns is not None:
            frame = frame.selectExpr(*(quoted(name) for name in options.columns))
    return CdfReadResult(frame, found.start, found.end, found.is_snapshot, found.table_id, options, source, found)


@contextmanager
def feed_failures(what: str) -> Iterator[None]:
    """Spark's failures in our words; a schema that its feed does not take is an error of its own."""
    try:
        with spark_failures(what):
            yield
    except DeltaSidecarError as error:
        if "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE" not in str(error):
            raise
        raise SchemaChangedError(
            f"{what}: Spark gives no changes across a change of the schema other than new columns; end the range "
            "before it, or take all rows again (strategy replace, or a cursor that is reset)"
        ) from error


def _columns_at_end(changes: DataFrame, schema: StructType) -> list[str]:
    """SQL: the columns of a schema, without fields of structs that came later; types are left as Spark gives them."""
    from pyspark.sql.types import StructType as SparkStruct

    given = {folded(column.name): column.dataType for column in changes.schema.fields}
    columns = []
    for column in SparkStruct.fromJson(msgspec.json.decode(schema.to_json())).fields:
        name = quoted(column.name)
        newest = given.get(folded(column.name))
        is_nested = newest is not None and newest.typeName() in ("struct", "array", "map")
        columns.append(f"{value(name, newest, column.dataType)} AS {name}" if is_nested else name)
    return columns


def _frame(source: SourceTable, found: FeedRange) -> DataFrame:
    """The columns that the table has at the end, and those of the feed. Spark gives those of the newest version."""
    if found.changes is not None:
        changes = source.feed(found.start, found.end)
        return changes.selectExpr(*_columns_at_end(changes, found.schema), *FEED_COLUMNS)
    names = [quoted(name) for name in found.schema.names]
    time = found.end_time_ms()
    when = "CAST(NULL AS TIMESTAMP)" if time is None else f"timestamp_millis({time})"
    feed = (f"'insert' AS {TYPE}", f"CAST({found.end} AS BIGINT) AS {VERSION}", f"{when} AS {TIMESTAMP}")
    rows = source.rows(found.at_end.version).selectExpr(*names, *feed)
    return rows.where("false") if found.is_empty else rows
