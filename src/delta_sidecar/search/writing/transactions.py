"""Write to a search table: each call is one version file, created by put-if-absent.

The next version comes from a listing, never from a counter. If another writer was faster, the log is read again and the
actions are planned anew on what is there now: an append as it was, an overwrite with the splits that came meanwhile, a
merge only if its inputs are still live. If a put was not answered, the file that is there says whose it is.
"""

from __future__ import annotations

import logging
import os
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias

import msgspec

from delta_sidecar.errors import (
    ConflictError,
    CorruptTableError,
    InputError,
    LogGapError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StoreUnavailableError,
    TableNotFoundError,
    UnknownColumnError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from delta_sidecar.flow.backoff import backoff
from delta_sidecar.log.actions import Protocol
from delta_sidecar.log.dialect import Dialect
from delta_sidecar.log.discovery import read_hint
from delta_sidecar.log.log_names import commit_name
from delta_sidecar.log.protocol import check_protocol
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.search.log.actions import (
    MergeSkip,
    RemovedSplit,
    Split,
    SplitKeys,
    Wire,
    encode_commit,
    encode_lines,
    to_wire,
)
from delta_sidecar.search.log.checkpoints import checkpoint_path, encode_checkpoint
from delta_sidecar.search.log.dialect import (
    LOG_DIRECTORY,
    MAX_WRITER_VERSION,
    PARQUET_CHECKPOINT,
    PROVIDER,
    SEARCH,
    WRITER_FEATURES,
)
from delta_sidecar.search.log.opening import open_log
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.state import SearchState, state_of
from delta_sidecar.search.table import SearchTable, forget, path_below, present_ms, store_of
from delta_sidecar.storage.store import Store
from delta_sidecar.values.types import parse_schema

_log = logging.getLogger(__name__)

Place: TypeAlias = str | os.PathLike[str] | SearchTable | Store
"""A table: its location, the open table, or its store."""
Plan: TypeAlias = Callable[[Snapshot], "Sequence[tuple[str, Wire]] | None"]
"""The actions to write on top of a version; None if there is nothing to do."""

COOLDOWN: Final = timedelta(hours=24)
LARGE: Final = 50_000
"""With this many splits or more, a checkpoint is a Parquet file if the table allows it."""
_ATTEMPTS: Final = 200
_PUTS: Final = 4
"""How often a put is repeated that was not answered."""
_LONGEST_PAUSE: Final = 0.25
GRACE: Final = timedelta(hours=1)
"""Version files younger than this are never deleted. A writer that has listed the log may be about to create one: if
others created it meanwhile and it was deleted again, put-if-absent would succeed, and nobody would read it."""
_STALE: Final = GRACE / 6
"""A plan on a listing older than this is made anew."""


@dataclass(frozen=True, slots=True)
class SearchCommit:
    """What a call wrote.

    Example:
        >>> from delta_sidecar.search import Split, append, create_table
        >>> create_table("logs", '{"type":"struct","fields":[]}').version
        0
        >>> commit = append("logs", [Split(path="part-0.split")])
        >>> commit.version, commit.added, commit.conflicts
        (1, 1, 0)
    """

    version: int
    """The version that was written; where there was nothing to do, the newest."""
    id: str | None
    """The id in its `commitInfo`; None where there was nothing to do. For version 0 the id of the table."""
    added: int = 0
    removed: int = 0
    conflicts: int = 0
    """How often another writer was faster."""
    checkpoint: int | None = None
    """The version of the checkpoint that was written with it."""


def create_table(
    table: Place,
    schema: str,
    partition_columns: Sequence[str] = (),
    *,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str] | None = None,
    features: Sequence[str] = (),
    if_exists: str = "error",
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Create a search table: version 0, which nobody can write twice.

    Args:
        table: Its location.
        schema: The columns of the rows, as Spark's JSON.
        partition_columns: Names of columns.
        name: A name for people.
        description: A text for people.
        configuration: Table properties, such as `checkpoint.interval` or `sidecar.timeColumn`.
        features: Features by name, which make the protocol 3/3 instead of 1/2; known is `parquetCheckpoint`.
        if_exists: `error`, or `use` to leave a table with the same columns as it is.
        storage_options: Credentials and settings of the object store.

    Raises:
        InputError: There is a table already, or an argument is wrong.
        UnsupportedFeatureError: A feature is unknown, or the existing table has other columns.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import create_table
        >>> schema = '{"type":"struct","fields":[{"name":"body","type":"string","nullable":true,"metadata":{}}]}'
        >>> create_table("logs", schema).version
        0
        >>> create_table("logs", schema, if_exists="use").id is None
        True
    """
    if if_exists not in ("error", "use"):
        raise InputError(f"if_exists is {if_exists!r}; give error or use")
    store = store_of(table, storage_options, SearchOptions())
    columns = parse_schema(schema)
    for column in partition_columns:
        if column not in columns.names:
            raise UnknownColumnError(f"the partition column {column!r} is not in the schema")
    SearchOptions.of(None, configuration)
    table_id = str(uuid.uuid4())
    metadata: Wire = {
        "id": table_id,
        "name": name,
        "description": description,
        "format": {"provider": PROVIDER, "options": {}},
        "schemaString": schema,
        "partitionColumns": list(partition_columns),
        "configuration": dict(configuration or {}),
        "createdTime": present_ms(),
    }
    actions = [("protocol", _protocol_with(features)), ("metaData", metadata)]
    if _put(store, 0, encode_lines(actions)):
        forget(store)
        return SearchCommit(0, table_id)
    there = _existing(store)
    if if_exists == "error":
        raise InputError(f"there is a search table at {store.root_uri} already, with the id {there.metadata.id}")
    same = parse_schema(there.metadata.schemaString or "{}") == columns if there.metadata.schemaString else False
    if not same or there.partition_columns != list(partition_columns):
        raise UnsupportedFeatureError(
            f"the search table at {store.root_uri} has other columns; schema evolution is not supported, "
            "so create another table"
        )
    return SearchCommit(there.version, None)


def _existing(store: Store) -> Snapshot:
    try:
        return open_log(store)
    except TableNotFoundError as error:
        raise CorruptTableError(f"version 0 of {store.root_uri} exists, but cannot be read ({error})") from None


def append(
    table: Place,
    splits: Iterable[Split],
    *,
    info: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Add splits whose files are there. If other writers commit first, it is tried again at the next version.

    Args:
        table: The table.
        splits: The splits.
        info: More for `commitInfo`, such as a batch id.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Raises:
        InputError: A split is named twice, lies outside the table, or its partition values do not fit.
        ConflictError: Other writers committed first at every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import Split, append, create_table
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> append("logs", [Split(path="part-0.split", size=10, numRecords=2)]).version
        1
    """
    return commit_splits(table, splits, info=info, options=options, storage_options=storage_options)


def overwrite(
    table: Place,
    splits: Iterable[Split],
    *,
    info: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Replace all live splits by others. Splits that other writers add meanwhile are removed, too.

    Args:
        table: The table.
        splits: The splits that the table has then.
        info: More for `commitInfo`.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Raises:
        InputError: As of `append`.
        ConflictError: Other writers committed first at every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import Split, append, create_table, overwrite
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = append("logs", [Split(path="part-0.split"), Split(path="part-1.split")])
        >>> commit = overwrite("logs", [Split(path="part-2.split")])
        >>> commit.version, commit.removed, commit.added
        (2, 2, 1)
    """
    return commit_splits(table, splits, overwrites=True, info=info, options=options, storage_options=storage_options)


def commit_splits(
    table: Place,
    splits: Iterable[Split],
    is_there: Callable[[Snapshot], bool] = lambda _: False,
    *,
    overwrites: bool = False,
    info: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Add splits, in place of all others if wanted, unless the version that they would be added to has them already:
    `is_there` is asked at every attempt. The other arguments and errors are those of `append`."""
    added = list(splits)

    def plan(snapshot: Snapshot) -> Sequence[tuple[str, Wire]] | None:
        if is_there(snapshot):
            return None
        new = _adds(snapshot, added)
        if not overwrites:
            return new or None
        state = state_of(snapshot)
        kept = set(state.keys.keys(added))
        gone = [split for key, split in state.by_key.items() if key not in kept]
        return [*_removes(gone, present_ms(), data_change=True), *new]

    name = "overwrite" if overwrites else "append"
    return _Writer(table, storage_options, options).commit(name, plan, info)


def replace(
    table: Place,
    removed: Iterable[str],
    added: Iterable[Split],
    *,
    data_change: bool = False,
    info: Mapping[str, Any] | None = None,
    check: Callable[[SearchState], None] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Replace some splits by others, as a merge does. It fails if one of them is no longer live.

    Args:
        table: The table.
        removed: Paths of live splits, as the log spells them.
        added: The splits in their place; none, to drop the others.
        data_change: Whether the rows of the table change, as when a partition is dropped.
        info: More for `commitInfo`.
        check: Called at every attempt with the state of the table; it may raise `ConflictError`.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Raises:
        InputError: As of `append`.
        ConflictError: A split to remove is not live: someone else removed it. Or other writers committed first at
            every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import Split, append, create_table, replace
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = append("logs", [Split(path="part-0.split"), Split(path="part-1.split")])
        >>> replace("logs", ["part-0.split", "part-1.split"], [Split(path="merged.split")]).version
        2
    """
    paths = list(dict.fromkeys(removed))
    new = [msgspec.structs.replace(split, dataChange=data_change) for split in added]

    def plan(snapshot: Snapshot) -> Sequence[tuple[str, Wire]] | None:
        state = state_of(snapshot)
        gone = [_live(state, path) for path in paths]
        if check is not None:
            check(state)
        return [*_removes(gone, present_ms(), data_change), *_adds(snapshot, new)] or None

    return _Writer(table, storage_options, options).commit("drop" if data_change and not new else "merge", plan, info)


def skip(
    table: Place,
    path: str,
    reason: str,
    *,
    operation: str = "merge",
    cooldown: timedelta = COOLDOWN,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Note that a merge left a split out, so that the next ones do, until it has cooled down. The split stays live.

    Args:
        table: The table.
        path: The path of a live split, as the log spells it.
        reason: Why, in a few words.
        operation: What left it out.
        cooldown: For how long merges leave it alone.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.

    Raises:
        ConflictError: The split is not live, or other writers committed first at every attempt.
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import SearchTable, Split, append, create_table, skip
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = append("logs", [Split(path="part-0.split")])
        >>> _ = skip("logs", "part-0.split", "its footer is broken")
        >>> table = SearchTable("logs")
        >>> len(table.splits()), len(table.merge_candidates()), table.skips()[0].skipCount
        (1, 0, 1)
    """

    def plan(snapshot: Snapshot) -> Sequence[tuple[str, Wire]]:
        state, now = state_of(snapshot), present_ms()
        split = _live(state, path)
        before = state.skips.get(state.keys.key(path))
        action = MergeSkip(
            path=split.path,
            skipTimestamp=now,
            reason=reason,
            operation=operation,
            partitionValues=split.partitionValues,
            size=split.size,
            retryAfter=now + cooldown // timedelta(milliseconds=1),
            skipCount=1 + (before.skipCount if before else 0),
        )
        return [("mergeskip", to_wire(action))]

    return _Writer(table, storage_options, options).commit("skip", plan, None)


def upgrade_protocol(
    table: Place,
    min_reader_version: int = 1,
    min_writer_version: int = 2,
    features: Sequence[str] = (),
    *,
    storage_options: Mapping[str, str] | None = None,
) -> SearchCommit:
    """Raise the protocol of a table, in its next version. Nothing is ever lowered or taken away.

    Args:
        table: The table.
        min_reader_version: At least this.
        min_writer_version: At least this.
        features: Features by name, which need 3/3; known is `parquetCheckpoint`.
        storage_options: Credentials and settings of the object store.

    Raises:
        UnsupportedFeatureError: A feature or version is unknown to this writer.
        ConflictError: Other writers committed first at every attempt.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import SearchTable, create_table, upgrade_protocol
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = upgrade_protocol("logs", features=["parquetCheckpoint"])
        >>> SearchTable("logs").protocol.readerFeatures
        ['parquetCheckpoint']
    """
    asked = _protocol_with(features)
    wanted = {
        "minReaderVersion": max(min_reader_version, asked["minReaderVersion"]),
        "minWriterVersion": max(min_writer_version, asked["minWriterVersion"]),
    }

    def plan(snapshot: Snapshot) -> Sequence[tuple[str, Wire]] | None:
        state = state_of(snapshot)
        new = dict(state.protocol)
        for name, version in wanted.items():
            new[name] = max(int(new.get(name) or 0), version)
        for name in ("readerFeatures", "writerFeatures"):
            named = dict.fromkeys([*(new.get(name) or ()), *features])
            if named or new[f"min{name[:6].capitalize()}Version"] >= SEARCH.feature_version:
                new[name] = list(named)
        checked = msgspec.convert(new, Protocol)
        check_protocol(checked, SEARCH)
        check_writable(checked)
        return None if new == state.protocol else [("protocol", new)]

    return _Writer(table, storage_options, None).commit("upgrade protocol", plan, None)


def checkpoint(
    table: Place,
    *,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    large: int = LARGE,
) -> int:
    """Write a checkpoint of the newest version, unless there is one. Gives the version.

    Args:
        table: The table.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.
        large: With this many splits or more it is a Parquet file, if the table has the feature `parquetCheckpoint`.

    Raises:
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import Split, append, checkpoint, create_table
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = append("logs", [Split(path="part-0.split")])
        >>> checkpoint("logs")
        1
    """
    writer = _Writer(table, storage_options, options)
    snapshot = writer.open()
    check_writable(snapshot.protocol)
    write_checkpoint(state_of(snapshot), writer.options(snapshot), large)
    return snapshot.version


class _Hint(msgspec.Struct):
    """`_last_checkpoint`."""

    version: int
    timestamp: int
    size: int
    format: str


def write_checkpoint(state: SearchState, options: SearchOptions, large: int = LARGE) -> None:
    """Write the checkpoint of a version, and name it in the hint unless that names a newer one.

    Skips of live splits are kept, the expired ones for their count, and removes as long as the log keeps its files, so
    that a purge knows when a split was removed."""
    store, version, now = state.snapshot.store, state.version, present_ms()
    as_parquet = len(state.splits) >= large and PARQUET_CHECKPOINT in (state.snapshot.protocol.readerFeatures or ())
    since = now - options.log_retention // timedelta(milliseconds=1)
    removed = [gone for gone in state.removed.values() if (gone.deletionTimestamp or now) > since]
    data = encode_checkpoint(
        version,
        state.protocol,
        state.metadata,
        state.splits,
        list(state.skips.values()),
        removed,
        now,
        as_parquet,
        state.batches,
    )
    try:
        store.put_if_absent(checkpoint_path(version, as_parquet), data)
    except ObjectExistsError:
        _log.info("there is a checkpoint of version %d already", version)
    named, _ = read_hint(store, SEARCH)
    if named is None or named < version:
        hint = _Hint(version, now, len(state.splits), "parquet" if as_parquet else "json")
        store.replace(SEARCH.hint, msgspec.json.encode(hint), None)


class _Writer:
    """Commits planned actions to one table."""

    def __init__(
        self,
        table: Place,
        storage_options: Mapping[str, str] | None,
        options: Mapping[str, Any] | SearchOptions | None,
    ) -> None:
        given = SearchOptions.of(options)
        self._given = options
        self._limits = given.commit_limits
        self._store = store_of(table, storage_options, given)

    def open(self) -> Snapshot:
        return open_log(self._store, None, self._limits)

    def options(self, snapshot: Snapshot) -> SearchOptions:
        return SearchOptions.of(self._given, snapshot.metadata.properties)

    def commit(self, operation: str, plan: Plan, info: Mapping[str, Any] | None) -> SearchCommit:
        """Write the planned actions as the next version, whatever number it gets."""
        commit_id = uuid.uuid4().hex
        for conflicts in range(_ATTEMPTS):
            listed = time.monotonic()
            snapshot = self.open()
            check_writable(snapshot.protocol)
            try:
                actions = plan(snapshot)
            except (ObjectNotFoundError, LogGapError, VersionNotFoundError):
                # The version may have been cleaned up since: then there is a newer one to plan on.
                if self.open().version == snapshot.version:
                    raise
                continue
            if actions is None:
                return SearchCommit(snapshot.version, None, conflicts=conflicts)
            version = snapshot.version + 1
            if time.monotonic() - listed > _STALE.total_seconds():
                continue
            about = {**(info or {}), "id": commit_id, "timestamp": present_ms(), "operation": operation}
            if _put(self._store, version, encode_commit(about, actions)):
                forget(self._store)
                self._check_in_time(version, listed)
                return SearchCommit(
                    version,
                    commit_id,
                    added=sum(name == "add" for name, _ in actions),
                    removed=sum(name == "remove" for name, _ in actions),
                    conflicts=conflicts,
                    checkpoint=self._checkpointed(snapshot, version),
                )
            time.sleep(random.uniform(0, backoff(0.002, conflicts, _LONGEST_PAUSE)))
        raise ConflictError(
            f"{operation} of {self._store.root_uri} was not committed: other writers were faster {_ATTEMPTS} times; "
            "run it again"
        )

    def _check_in_time(self, version: int, listed: float) -> None:
        if time.monotonic() - listed > GRACE.total_seconds() / 2:
            raise StoreUnavailableError(
                f"version {version} of {self._store.root_uri} took so long to write that the log may have been cleaned "
                "beyond it meanwhile; see whether the newest version has its splits before it is written again"
            )

    def _checkpointed(self, before: Snapshot, version: int) -> int | None:
        """Write a checkpoint where one is due. The commit is done, so a failure is only logged."""
        try:
            options = self.options(before)
            if version % options.checkpoint_interval:
                return None
            write_checkpoint(state_of(open_log(self._store, version, self._limits)), options)
        except Exception as error:
            _log.warning("version %d of %s has no checkpoint: %s", version, self._store.root_uri, error)
            return None
        return version


def _put(store: Store, version: int, data: bytes) -> bool:
    """Create a version file; False if another writer has. A put that was not answered, here or below us, may have
    succeeded: then the file holds our bytes, in which our id is. It is only repeated as it was, so it cannot succeed
    twice."""
    path = f"{LOG_DIRECTORY}/{commit_name(version)}"
    failure: StorageError | None = None
    for _ in range(_PUTS):
        try:
            store.put_if_absent(path, data)
            return True
        except ObjectExistsError:
            return _holds(store, path, data)
        except StoreUnavailableError as error:
            failure = error
    try:
        return _holds(store, path, data)
    except ObjectNotFoundError:
        raise StoreUnavailableError(f"version {version} of {store.root_uri} is not there: {failure}") from failure
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"whether version {version} of {store.root_uri} was written is not known ({error}); look at {path} before "
            "it is tried again"
        ) from failure


def _holds(store: Store, path: str, data: bytes) -> bool:
    """Whether a version file is ours; a read that is not answered is repeated."""
    for attempt in range(_PUTS):
        try:
            return bytes(store.get(path)) == data
        except StoreUnavailableError:
            if attempt == _PUTS - 1:
                raise
    raise AssertionError("unreachable")


def _protocol_with(features: Sequence[str]) -> Wire:
    unknown = sorted(set(features) - SEARCH.reader_features - WRITER_FEATURES)
    if unknown:
        raise UnsupportedFeatureError(f"unknown features {', '.join(unknown)}; known is {PARQUET_CHECKPOINT}")
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    named = list(dict.fromkeys(features))
    return {"minReaderVersion": 3, "minWriterVersion": 3, "readerFeatures": named, "writerFeatures": named}


def check_writable(protocol: Protocol, dialect: Dialect = SEARCH) -> None:
    """Refuse, by name, to write what this writer does not understand."""
    version = protocol.minWriterVersion
    if version > MAX_WRITER_VERSION or protocol.minReaderVersion in dialect.numbered:
        raise UnsupportedFeatureError(
            f"the table needs writer version {version}, this writer knows up to {MAX_WRITER_VERSION}; "
            "tables of IndexTables' protocol 4 are only read"
        )
    if version < dialect.feature_version:
        return
    unknown = sorted(set(protocol.writerFeatures or ()) - WRITER_FEATURES)
    if unknown:
        raise UnsupportedFeatureError(f"the table needs writer features that are unknown ({', '.join(unknown)})")


def _live(state: SearchState, path: str) -> Split:
    split = state.by_key.get(state.keys.key(path))
    if split is None:
        raise ConflictError(
            f"the split {path} is not live at version {state.version} of {state.snapshot.store.root_uri}: "
            "another writer removed it; plan the change again"
        )
    return split


def _adds(snapshot: Snapshot, splits: Sequence[Split]) -> list[tuple[str, Wire]]:
    keys = SplitKeys(snapshot.store.root_uri)
    seen: set[bytes] = set()
    for split in splits:
        path_below(snapshot.store, split.path)
        key = keys.key(split.path)
        if not split.path or key in seen:
            raise InputError(f"the split {split.path!r} is named twice" if split.path else "a split has no path")
        seen.add(key)
        if set(split.partitionValues) != set(snapshot.partition_columns):
            raise InputError(
                f"the split {split.path} has values for {sorted(split.partitionValues)}, the table is partitioned by "
                f"{snapshot.partition_columns}"
            )
        if split.size < 0 or (split.numRecords or 0) < 0:
            raise InputError(f"the split {split.path} has a negative size or number of records")
    return [("add", to_wire(split)) for split in splits]


def _removes(splits: Iterable[Split], now: int, data_change: bool) -> list[tuple[str, Wire]]:
    return [
        (
            "remove",
            to_wire(
                RemovedSplit(
                    path=split.path,
                    deletionTimestamp=now,
                    dataChange=data_change,
                    partitionValues=split.partitionValues,
                    size=split.size,
                    tags=split.tags,
                )
            ),
        )
        for split in splits
    ]
