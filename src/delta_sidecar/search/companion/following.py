"""A companion: a search table over a Delta table, whose documents say where their rows are.

A document has the key of a file of the table and the number of a row in it. The companion indexes every row of a file,
deleted ones too; which rows live is what the Delta table says when it is asked. So a commit that only changes deletion
vectors changes nothing here, and a file that `RESTORE` brings back may still be indexed. A follower compares the files
that are live with those that are indexed: it needs no memory of its own, and can be killed and run again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from delta_sidecar.arrays import indices
from delta_sidecar.data.data_files import FILE_COLUMNS, DataFile, DataFileList
from delta_sidecar.data.deletion_vectors import ChosenRows, DeletedRows, deleted_rows_of
from delta_sidecar.data.reader import RowReader
from delta_sidecar.data.request import plan_request
from delta_sidecar.errors import (
    ConflictError,
    CorruptDataError,
    InputError,
    OptionError,
    OtherTableError,
    TableNotFoundError,
)
from delta_sidecar.flow.ordered import Ordered
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.state import SearchState
from delta_sidecar.search.splits.building import ENGINES, Choices, fields_of, prepare_table
from delta_sidecar.search.splits.column_types import ChangedColumn, changed_columns
from delta_sidecar.search.splits.merging import delete_uncommitted, linked, merged_facts, merged_index
from delta_sidecar.search.splits.rolls import ROWS
from delta_sidecar.search.splits.writer import HEAP, SplitWriter, remove_folder, stored_split
from delta_sidecar.search.table import SearchTable
from delta_sidecar.search.writing.transactions import replace
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.table import DeltaTable

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

DIRECTORY: Final = "_search"
"""Where the companion of a table is, below it, unless told otherwise. Delta leaves such names alone."""
TABLE_ID: Final = "sidecar.companion.tableId"
TABLE_URI: Final = "sidecar.companion.table"
"""The table properties that say whose companion a search table is."""
PROCESS_ROWS: Final = 2_000_000
_BATCH_ROWS: Final = 8192
_ROW_BYTES: Final = 32
"""Of a row in a Parquet file, at least about that."""
_DEAD_SHARE: Final = 0.3
"""A split of which more documents than this belong to files that are gone is written anew without them."""
_ATTEMPTS: Final = 20
_READERS: Final = 8
"""Files whose rows are read side by side: on a remote store each takes two round trips."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a companion is behind its table.

    Example:
        >>> from delta_sidecar.search import Companion, follow
        >>> _ = follow("events", text=["_event_hour"])
        >>> Companion("events").lag().is_in_step
        True
    """

    version: int
    """The version of the Delta table that was looked at."""
    files: int
    """Live files that are not indexed."""
    rows: int | None
    """Their rows, if the log says."""
    gone: int = 0
    """Files that are indexed and no longer live; their rows are not found."""

    @property
    def is_in_step(self) -> bool:
        return self.files == 0


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What a follower did.

    Example:
        >>> from delta_sidecar.search import follow
        >>> report = follow("events", text=["_event_hour"])
        >>> report.indexed_rows == report.indexed_files, report.engine
        (False, 'process')
    """

    table_version: int
    """The version of the Delta table that the companion is in step with."""
    version: int
    """The version of the companion."""
    indexed_files: int = 0
    indexed_rows: int = 0
    added: int = 0
    """Splits that were added."""
    removed: int = 0
    """Splits that were removed, because all or much of what they index is gone."""
    gone_files: int = 0
    """Files that are no longer live."""
    conflicts: int = 0
    engine: str = "process"
    seconds: float = 0.0


class Companion:
    """A Delta table and the search table over it, each pinned at one version.

    Args:
        table: The Delta table: its location, or as it is open.
        search: The location of the search table, or its store; `_search` below the table if not given.
        version: The version of the Delta table to open; the newest if not given.
        storage_options: Credentials and settings of the object store.

    Raises:
        TableNotFoundError: There is no such table, or it has no companion.
        OtherTableError: The search table is the companion of another table.
        CorruptTableError: A log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import Companion, follow
        >>> _ = follow("events", text=["_event_hour"])
        >>> companion = Companion("events")
        >>> companion.lag().files, len(companion.files)
        (0, 4)
    """

    def __init__(
        self,
        table: DeltaTable | str | os.PathLike[str],
        search: str | os.PathLike[str] | Store | None = None,
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._table = _opened(table, version, storage_options)
        self._store = companion_store(self._table, search, storage_options)
        try:
            self._search = SearchTable(self._store)
        except TableNotFoundError:
            raise TableNotFoundError(
                f"{self._table.table_uri} has no companion at {self._store.root_uri}; make one: sidecar splits follow"
            ) from None
        check_companion(self._search, self._table)

    @property
    def table(self) -> DeltaTable:
        return self._table

    @property
    def search(self) -> SearchTable:
        return self._search

    @cached_property
    def files(self) -> dict[int, DataFile]:
        """The live files of the table, by their keys."""
        return dict(live_files(self._table))

    @cached_property
    def indexed(self) -> set[int]:
        """The keys of the files that live splits index."""
        return {key for split in self._search.splits() for key in self.sources(split)}

    @cached_property
    def _sources(self) -> dict[str, list[int]]:
        return {}

    def sources(self, split: Split) -> list[int]:
        """The keys of the files that a split indexes."""
        if split.path not in self._sources:
            keys = PathKeys(self._table)
            self._sources[split.path] = [keys.key(path) for path in split.companionSourceFiles or ()]
        return self._sources[split.path]

    def lag(self) -> Lag:
        """How far the companion is behind the table.

        Raises:
            CorruptTableError: A log is broken.
            StorageError: The store cannot be reached.
        """
        missing = [file for key, file in self.files.items() if key not in self.indexed]
        counts = [file.num_records for file in missing]
        rows = None if any(count is None for count in counts) else sum(count or 0 for count in counts)
        gone = len(self.indexed - set(self.files))
        return Lag(self._table.version(), len(missing), rows, gone)

    @cached_property
    def changed(self) -> tuple[ChangedColumn, ...]:
        """What the table no longer has as the companion indexes it; then `follow` refuses to go on."""
        names = fields_of(self._search).names
        return tuple(changed_columns(self._search.schema(), self._table.schema(), names))

    def live(self, keys: Sequence[int], rows: Sequence[int]) -> NDArray[np.bool_]:
        """Which hits are rows of the table: their file is live, and its deletion vector does not have them.

        Args:
            keys: The key of the file of each hit, from the field `sidecar.path`.
            rows: The number of the row there, from the field `sidecar.row`.

        Raises:
            CorruptTableError: A deletion vector is broken or missing.
            StorageError: The store cannot be reached.
        """
        keep = np.zeros(len(keys), np.bool_)
        for key, places in _by_key(keys).items():
            file = self.files.get(key)
            if file is None:
                continue
            deleted = self._deleted(key, file)
            if deleted is None:
                keep[places] = True
            else:
                keep[places] = ~_among([rows[place] for place in places], deleted.positions)
        return keep

    @cached_property
    def _vectors(self) -> dict[int, DeletedRows | None]:
        return {}

    def _deleted(self, key: int, file: DataFile) -> DeletedRows | None:
        if key not in self._vectors:
            self._vectors[key] = deleted_rows_of(file.deletion_vector, self._table._access.sources())
        return self._vectors[key]

    def rows_of_hits(self, keys: Sequence[int], rows: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of live hits, in the order of the hits, from the table's own files. Of a file only the row groups
        with hits are read.

        Args:
            keys: The key of the file of each hit.
            rows: The number of the row there.
            columns: Names of columns; all if not given.

        Raises:
            InputError: A hit is not a live row of the table; ask `live` first.
            UnknownColumnError: There is no such column.
            CorruptTableError: A data file is broken or missing.
            StorageError: The store cannot be reached.
        """
        if not self.live(keys, rows).all():
            raise InputError("a hit is no live row of the table; leave it out")
        chosen = {
            key: np.asarray(sorted({rows[place] for place in places}), np.uint64)
            for key, places in _by_key(keys).items()
        }
        by_path = {self.files[key].path: ChosenRows(positions) for key, positions in chosen.items()}
        reader = _reader(self._table, columns, lambda file: by_path[file.path], group_bytes=1)

        def task(key: int) -> Callable[[], list[pa.RecordBatch]]:
            return lambda: list(reader.read(self.files[key]))

        begin: dict[int, int] = {}
        read: list[pa.RecordBatch] = []
        count = 0
        of_files = Ordered(map(task, chosen), min(_READERS, len(chosen) - 1), lambda: _READERS)
        for (key, positions), batches in zip(chosen.items(), of_files, strict=True):
            begin[key] = count
            found = sum(batch.num_rows for batch in batches)
            if found != len(positions):
                raise CorruptDataError(f"{self.files[key].path} has fewer rows than its index says; index it again")
            count += found
            read += batches
        table = pa.Table.from_batches(read, reader.schema)
        places = [begin[key] + int(np.searchsorted(chosen[key], row)) for key, row in zip(keys, rows, strict=True)]
        return table.take(indices(np.asarray(places, np.int64)))


def rows_of_hits(
    companion: Companion, keys: Sequence[int], rows: Sequence[int], columns: Sequence[str] | None = None
) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The rows of those hits that are live, in their order, and which they are.

    Args:
        companion: The tables.
        keys: The key of the file of each hit, from the field `sidecar.path`.
        rows: The number of the row there, from the field `sidecar.row`.
        columns: Names of columns; all if not given.

    Raises:
        UnknownColumnError: There is no such column.
        CorruptTableError: A data file or deletion vector is broken or missing.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import Companion, follow, rows_of_hits
        >>> _ = follow("events", text=["_event_hour"])
        >>> companion = Companion("events")
        >>> key = next(iter(companion.files))
        >>> found, is_live = rows_of_hits(companion, [key, 12345], [0, 0], ["id"])
        >>> found.num_rows, is_live.tolist()
        (1, [True, False])
    """
    keep = companion.live(keys, rows)
    left = [place for place, is_live in enumerate(keep.tolist()) if is_live]
    found = companion.rows_of_hits([keys[place] for place in left], [rows[place] for place in left], columns)
    return found, keep


def _among(rows: Sequence[int], positions: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which rows are among positions, which are in order."""
    numbers = np.asarray(rows, np.uint64)
    if not len(positions):
        return np.zeros(len(numbers), np.bool_)
    places = np.minimum(np.searchsorted(positions, numbers), len(positions) - 1)
    found: NDArray[np.bool_] = positions[places] == numbers
    return found


def _by_key(keys: Sequence[int]) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places


class PathKeys:
    """A number for each file of a table: the same for every spelling of its path."""

    def __init__(self, table: DeltaTable) -> None:
        self._maker = KeyMaker(table._access.store.root_uri)

    def key(self, path: str) -> int:
        digest = hashlib.sha256(self._maker.canonical(path)).digest()
        return int.from_bytes(digest[:8], "big", signed=True)


def live_files(table: DeltaTable) -> Iterator[tuple[int, DataFile]]:
    """The live files of a table, each with its key. Keys are hashes: that two files have the same one is all but
    impossible, and then refused."""
    access, keys = table._access, PathKeys(table)
    partitions = [access.snapshot.schema.resolve([name])[0] for name in access.snapshot.partition_columns]
    seen: set[int] = set()
    with access.listing(None, (*FILE_COLUMNS, "num_records")) as scan:
        zone = access.settings.partition_timezone
        for file in DataFileList(scan, partitions, zone, access.location):
            key = keys.key(file.path)
            if key in seen:
                raise CorruptDataError(f"{file.path} has the same key as another file of the table; rewrite it")
            seen.add(key)
            yield key, file


def _reader(
    table: DeltaTable,
    columns: Sequence[str] | None,
    choose: Callable[[DataFile], DeletedRows | ChosenRows | None],
    group_bytes: int = 16 << 20,
) -> RowReader:
    snapshot = table._access.snapshot
    request = plan_request(
        snapshot.schema,
        snapshot.partition_columns,
        mapping_mode=snapshot.mapping_mode,
        columns=columns,
        predicate=None,
        limit=None,
        batch_size=_BATCH_ROWS,
        group_bytes=group_bytes,
    )
    return RowReader(request, table._access.sources(), choose=choose)


def _opened(
    table: DeltaTable | str | os.PathLike[str], version: int | None, storage_options: Mapping[str, str] | None
) -> DeltaTable:
    return table if isinstance(table, DeltaTable) else DeltaTable(table, version, storage_options)


def companion_store(
    table: DeltaTable, search: str | os.PathLike[str] | Store | None, storage_options: Mapping[str, str] | None
) -> Store:
    """The store of a table's companion."""
    if search is not None:
        return open_store(search, storage_options) if isinstance(search, (str, os.PathLike)) else search
    return open_store(f"{parse_location(table.table_uri).text.rstrip('/')}/{DIRECTORY}", storage_options)


def check_companion(search: SearchTable, table: DeltaTable) -> None:
    """Refuse a search table that is not the companion of a table."""
    known = search.metadata.properties.get(TABLE_ID)
    if known is None:
        raise OtherTableError(f"the search table at {search.uri} is no companion of a Delta table; search it as it is")
    if known != str(table.metadata().id):
        raise OtherTableError(
            f"the search table at {search.uri} is the companion of another table, with the id {known}; "
            "delete it, and follow the table again"
        )


# Following.


def follow(
    table: DeltaTable | str | os.PathLike[str],
    search: str | os.PathLike[str] | None = None,
    *,
    text: Sequence[str] = (),
    key: Sequence[str] = (),
    time_column: str | None = None,
    filters: Sequence[str] = (),
    stored: Sequence[str] = (),
    analyzers: Mapping[str, str] | None = None,
    rows_per_split: int = ROWS,
    engine: str = "auto",
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> FollowReport:
    """Bring the companion of a Delta table in step with the table, once. It is made if it is not there.

    New files are indexed, splits whose files are all gone are removed, and splits of which much is gone are written
    anew without it. Commits that only change deletion vectors change nothing here: hits are filtered by the vectors.

    Args:
        table: The Delta table.
        search: The location of the search table; `_search` below the table if not given.
        text: Columns of texts to search in. This and the other choices of columns are made when the companion is made;
            later they can be left out, and must not differ.
        key: Columns that identify a row.
        time_column: The column that says when a row happened.
        filters: More columns to look up, filter and group by.
        stored: Columns whose values are kept; a companion needs none, because hits lead to the table's own rows.
        analyzers: How texts are divided into words, by column; `default` if not given.
        rows_per_split: Rows of a split, about; a file is never divided.
        engine: `process` indexes here, `spark` on Spark; `auto` decides by the number of rows.
        spark: The session to use if Spark is needed; if not given, one is started and stopped.
        master: The master of the session, if one is started.
        conf: Spark settings of the session, if one is started.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.
        progress: Called with one line of text whenever a step begins.

    Raises:
        TableNotFoundError: There is no Delta table at that location.
        OtherTableError: The search table is the companion of another table.
        OptionError: An argument is wrong.
        UnknownColumnError: There is no such column.
        UnsupportedTypeError: A column has a type that cannot be indexed.
        UnsupportedFeatureError: The companion has other fields.
        ConflictError: Other followers were faster at every attempt.
        CorruptTableError: A log or a data file is broken.
        SparkError: Spark is needed and missing, or a job failed.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import follow
        >>> report = follow("events", text=["_event_hour"])
        >>> report.indexed_files, report.added, report.table_version
        (4, 1, 3)
        >>> follow("events").indexed_files
        0
    """
    if engine not in ENGINES:
        raise OptionError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
    began = time.monotonic()
    chosen = Choices(text, key, time_column, filters, stored, analyzers)
    tell = progress or (lambda _: None)
    conflicts = 0
    with ExitStack() as stack:
        for _ in range(_ATTEMPTS):
            opened = _opened(table, None, storage_options)
            step = _Step(opened, companion_store(opened, search, storage_options), chosen, options, storage_options)
            try:
                return step.run(rows_per_split, engine, spark, master, conf, tell, stack, conflicts, began)
            except ConflictError:
                conflicts += 1
                if isinstance(table, DeltaTable):
                    table.update_incremental()
    raise ConflictError("the companion was not updated: other followers were faster at every attempt; run it again")


class _Step:
    """One attempt to bring a companion in step."""

    def __init__(
        self,
        table: DeltaTable,
        store: Store,
        chosen: Choices,
        options: Mapping[str, Any] | SearchOptions | None,
        storage_options: Mapping[str, str] | None,
    ) -> None:
        self._table = table
        self._store = store
        self._options = options
        self._storage_options = storage_options
        self._keys = PathKeys(table)
        place = {TABLE_ID: str(table.metadata().id), TABLE_URI: table.table_uri}
        self._search = prepare_table(store, table.schema(), chosen, place, companion=True)
        check_companion(self._search, table)

    def run(
        self,
        rows_per_split: int,
        engine: str,
        spark: SparkSession | None,
        master: str | None,
        conf: Mapping[str, str] | None,
        tell: Callable[[str], None],
        stack: ExitStack,
        conflicts: int,
        began: float,
    ) -> FollowReport:
        splits = self._search.splits()
        indexed = {key for split in splits for key in self._sources(split)}
        # Of files that are indexed only the keys are kept: a table may have millions.
        live: set[int] = set()
        missing: list[DataFile] = []
        for key, file in live_files(self._table):
            live.add(key)
            if key not in indexed:
                missing.append(file)
        shares = [self._dead_share(split, live) for split in splits]
        gone = [split for split, share in zip(splits, shares, strict=True) if share == 1]
        mostly = [split for split, share in zip(splits, shares, strict=True) if _DEAD_SHARE < share < 1]
        groups = _groups(missing, rows_per_split)
        on_spark = engine == "spark" or (engine == "auto" and _count(missing) > PROCESS_ROWS)
        if groups:
            tell(f"indexing {len(missing)} files {'on Spark' if on_spark else 'in this process'}")
        if on_spark and groups:
            from delta_sidecar.search.companion.on_spark import build_groups

            made = build_groups(stack, self._table, self._store, groups, spark, master, conf, self._storage_options)
        else:
            made = [self.indexed(group) for group in groups]
        kept = [self._without_dead(split, live) for split in mostly]
        version = self._committed([*gone, *mostly], [*made, *kept])
        return FollowReport(
            self._table.version(),
            version,
            len(missing),
            sum(split.numRecords or 0 for split in made),
            len(made) + len(kept),
            len(gone) + len(mostly),
            len(indexed - live),
            conflicts,
            "spark" if on_spark and groups else "process",
            time.monotonic() - began,
        )

    def _sources(self, split: Split) -> Iterator[int]:
        return (self._keys.key(path) for path in split.companionSourceFiles or ())

    def _dead_share(self, split: Split, live: Set[int]) -> float:
        """The share of its files that are gone: about that of its documents."""
        keys = list(self._sources(split))
        return sum(key not in live for key in keys) / len(keys) if keys else 1

    def indexed(self, files: Sequence[DataFile]) -> Split:
        return index_files(self._table, self._search, files)

    def _without_dead(self, split: Split, live: Set[int]) -> Split:
        """A split as it was, without the documents of files that are gone."""
        dead = [key for key in self._sources(split) if key not in live]
        folder = Path(tempfile.mkdtemp(prefix="companion-"))
        try:
            good, damaged = linked(self._store, [split], folder / "index")
            if not good:
                raise CorruptDataError(f"{damaged[0][1]}; run: sidecar splits repair, and follow again")
            left = merged_index(good, folder / "index", dead)
            facts = merged_facts(good)
            kept = [path for path in split.companionSourceFiles or () if self._keys.key(path) in live]
            facts |= {"numRecords": left, "companionSourceFiles": kept, "stats": None}
            return stored_split(self._store, folder / "index", folder / "split", {}, facts)
        finally:
            remove_folder(folder)

    def _committed(self, removed: Sequence[Split], added: Sequence[Split]) -> int:
        if not removed and not added:
            return self._search.version
        new = {self._keys.key(path) for split in added for path in split.companionSourceFiles or ()}
        replaced = {split.path for split in removed}

        def check(state: SearchState) -> None:
            """Another follower may have indexed the same files: each file must be in one split."""
            for split in state.splits:
                if split.path not in replaced and any(key in new for key in self._sources(split)):
                    raise ConflictError(f"{self._store.root_uri}: another follower indexed the same files")

        info = {"companionDeltaVersion": self._table.version()}
        paths = [split.path for split in removed]
        try:
            commit = replace(self._store, paths, added, data_change=True, info=info, check=check, options=self._options)
        except ConflictError:
            delete_uncommitted(self._store, added)
            raise
        return commit.version


def index_files(table: DeltaTable, search: SearchTable, files: Sequence[DataFile]) -> Split:
    """Index every row of some files, deleted ones too, into one split beside the log.

    Args:
        table: The Delta table.
        search: Its companion.
        files: Files of the table.

    Returns:
        The `add` action, to be committed.
    """
    import msgspec

    keys = PathKeys(table)
    fields = fields_of(search)
    reader = _reader(table, fields.names, lambda file: None)
    with SplitWriter(fields, heap=HEAP) as writer:
        for file in files:
            key, at = keys.key(file.path), 0
            for batch in reader.read(file):
                writer.add(batch, path_key=key, row_numbers=range(at, at + batch.num_rows))
                at += batch.num_rows
        made = writer.finish(search.store)
    sources = [file.path for file in files]
    return msgspec.structs.replace(
        made, companionSourceFiles=sources, companionDeltaVersion=table.version(), companionFastFieldMode="DISABLED"
    )


def _groups(files: Iterable[DataFile], rows_per_split: int) -> list[list[DataFile]]:
    """Files that are indexed into one split each; those of unknown size count as full."""
    groups: list[list[DataFile]] = []
    rows = 0
    for file in files:
        count = rows_per_split if file.num_records is None else file.num_records
        if not groups or rows + count > rows_per_split:
            groups.append([])
            rows = 0
        groups[-1].append(file)
        rows += count
    return groups


def _count(files: Iterable[DataFile]) -> int:
    """The rows of files; where the log does not say, about as many as their bytes can hold."""
    return sum((file.size or 0) // _ROW_BYTES if file.num_records is None else file.num_records for file in files)
