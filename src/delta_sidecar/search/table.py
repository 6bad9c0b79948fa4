"""`SearchTable`: one version of a search table."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from delta_sidecar.errors import InputError
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import Snapshot, newest_first
from delta_sidecar.search.log.actions import MergeSkip, Split, Wire, commit_actions
from delta_sidecar.search.log.dialect import SEARCH
from delta_sidecar.search.log.opening import kept_versions, open_log
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.split_pruning import TIME_COLUMN, pruned
from delta_sidecar.search.log.state import SearchState, state_of
from delta_sidecar.search.log.their_states import list_states, read_state
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import has_scheme, parse_location, resolve_log_path

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_sidecar.predicates.predicate_tuples import Filters
    from delta_sidecar.search.query.expression import Query
    from delta_sidecar.search.query.searching import SearchHits
    from delta_sidecar.search.splits.cache import SplitCache
    from delta_sidecar.values.types import StructType

_OF_A_COMMIT = 500
"""About the bytes that a listed version file takes in memory."""


class SearchTable:
    """One version of a search table. The version is chosen when the table is opened; splits are read on request.

    Tables of note 004 and tables that IndexTables writes today (protocol 4) are read alike.

    Args:
        uri: The location of the table, a local path or a URI such as `s3://bucket/logs`; or a store rooted there.
        version: The version to open; the newest if not given.
        storage_options: Credentials and settings of the object store, as of `DeltaTable`.
        options: Settings by the names of note 004, such as `{"checkpoint.interval": 50}`.

    Raises:
        TableNotFoundError: There is no search table at that location.
        VersionNotFoundError: The table has no such version, or it is no longer kept.
        UnsupportedFeatureError: The table needs a feature that this reader does not know.
        CorruptTableError: The log is broken, or version files are missing from it.
        OptionError: An option is wrong.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import SearchTable, Split, append, create_table
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = append("logs", [Split(path="part-0.split", size=10, numRecords=2)])
        >>> table = SearchTable("logs")
        >>> table.version, [split.path for split in table.splits()]
        (1, ['part-0.split'])
    """

    def __init__(
        self,
        uri: str | os.PathLike[str] | Store,
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        *,
        options: Mapping[str, Any] | SearchOptions | None = None,
    ) -> None:
        given = SearchOptions.of(options)
        self._store = store_of(uri, storage_options, given)
        self._snapshot = _opened(self._store, version, given)
        self._given = options

    def __repr__(self) -> str:
        return f"SearchTable({self.uri!r}, version={self.version})"

    @property
    def uri(self) -> str:
        return self._store.root_uri

    @property
    def store(self) -> Store:
        """The store of the table, with its root at the table."""
        return self._store

    @property
    def version(self) -> int:
        return self._snapshot.version

    @property
    def protocol(self) -> Protocol:
        return self._snapshot.protocol

    @property
    def metadata(self) -> Metadata:
        """The newest metadata at or before this version."""
        return self._snapshot.metadata

    @property
    def partition_columns(self) -> list[str]:
        return self._snapshot.partition_columns

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems found in the log, and what was read instead."""
        return self.state.notes

    @cached_property
    def options(self) -> SearchOptions:
        """The settings in effect: those given, then the table's own."""
        return SearchOptions.of(self._given, self.metadata.properties)

    def schema(self) -> StructType:
        """The columns of the rows that the splits index.

        Raises:
            CorruptLogError: The schema of the table cannot be read.
        """
        return self._snapshot.schema

    @property
    def snapshot(self) -> Snapshot:
        """The pinned log, for the rest of this package."""
        return self._snapshot

    @cached_property
    def state(self) -> SearchState:
        """The replayed log, for the rest of this package."""
        return state_of(self._snapshot)

    def splits(self, where: str | Filters | None = None) -> list[Split]:
        """The live splits that may hold a matching row, newest first.

        Args:
            where: A predicate as of `DeltaTable.files`. Splits are left out by their partition values, by minimum and
                maximum, and by their time range where the table names its time column; what is unknown keeps a split.

        Raises:
            PredicateError: The predicate cannot be parsed, or does not fit the schema.
            UnknownColumnError: The predicate names a column that is not there.
            CorruptTableError: The log is broken.

        Example:
            >>> from delta_sidecar.search import SearchTable, Split, append, create_table
            >>> schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
            >>> _ = create_table("logs", schema)
            >>> first = Split(path="a.split", minValues={"id": "9"}, maxValues={"id": "90"})
            >>> _ = append("logs", [first, Split(path="b.split", minValues={"id": "100"}, maxValues={"id": "200"})])
            >>> [split.path for split in SearchTable("logs").splits("id < 100")]
            ['a.split']
        """
        if where is None:
            return list(self.state.splits)
        from delta_sidecar.predicates.binding import bind_predicate

        predicate = bind_predicate(where, self.schema(), self.partition_columns)
        return pruned(self.state.splits, predicate, self.metadata.properties.get(TIME_COLUMN))

    def search(
        self,
        query: str | Query,
        where: str | Filters | None = None,
        *,
        limit: int | None = 20,
        order: Literal["newest", "best"] = "newest",
        columns: Sequence[str] | None = None,
        highlight: bool | tuple[str, str] = False,
        after: str | None = None,
        cache: SplitCache | None = None,
    ) -> SearchHits:
        """The rows that a query finds, with their scores.

        Splits are left out by partition, by minimum and maximum and by time before they are opened. `newest` opens
        them from the latest on and stops when the page is full; `best` opens all that may hold a hit. A score rests on
        how frequent the words are within its split, so scores of several splits are alike, not exactly comparable.

        Args:
            query: The query, such as `error AND "disk full" host:web-7`; see the guide for the language.
            where: A predicate that hits must fulfil, too, on indexed and partition columns.
            limit: Hits of a page; None is a stream of all hits, newest split first.
            order: `newest` first, by the time column, or in the order of the log where there is none; or `best` first.
            columns: Columns of the rows; those that the splits can give back if not given.
            highlight: Whether to add `highlight`, the stored texts with `**` around what was found, or with two other
                marks.
            after: `SearchHits.next_page` of the page before. The search goes on at the version of that page.
            cache: Where splits are unpacked; the cache of the process if not given.

        Raises:
            QueryError: The query cannot be parsed, or the fields of the table cannot answer it.
            PredicateError: The predicate cannot be parsed, or does not fit the schema.
            UnknownColumnError: There is no such column.
            PositionError: The page belongs to another search.
            OptionError: The limit, the order, the columns or the marks make no sense.
            UnsupportedFeatureError: Another program made the splits, and words cannot be looked up in them.
            CorruptTableError: The log or a split is broken.
            StorageError: The store cannot be reached.
        """
        from delta_sidecar.search.query.searching import search

        how: dict[str, Any] = {"limit": limit, "order": order, "columns": columns, "highlight": highlight}
        return search(self, query, where, **how, after=after, cache=cache)

    def count(
        self, query: str | Query = "*", where: str | Filters | None = None, *, cache: SplitCache | None = None
    ) -> int:
        """How many rows a query finds.

        Args:
            query: The query, as of `search`.
            where: A predicate that hits must fulfil, too.
            cache: Where splits are unpacked.

        Raises:
            QueryError: The query cannot be parsed, or the fields of the table cannot answer it.
            DeltaSidecarError: As of `search`.
        """
        from delta_sidecar.search.query.aggregations import count
        from delta_sidecar.search.query.prepared import PreparedSearch

        return count(PreparedSearch(self, query, where, cache))

    def histogram(
        self,
        interval: str,
        query: str | Query = "*",
        where: str | Filters | None = None,
        *,
        cache: SplitCache | None = None,
    ) -> pa.Table:
        """How many rows fall into each span of the time column; spans without any are left out.

        Args:
            interval: The length of a span: `30s`, `15m`, `1h`, `1d`, `1w`. Spans are counted from 1970-01-01 UTC, those
                of weeks from a Monday.
            query: The query, as of `search`.
            where: A predicate that hits must fulfil, too.
            cache: Where splits are unpacked.

        Raises:
            OptionError: The interval is not understood.
            QueryError: The query cannot be answered, there is no time column, or there are too many spans.
            DeltaSidecarError: As of `search`.
        """
        from delta_sidecar.search.query.aggregations import histogram
        from delta_sidecar.search.query.prepared import PreparedSearch

        return histogram(PreparedSearch(self, query, where, cache), interval)

    def top_terms(
        self,
        column: str,
        query: str | Query = "*",
        where: str | Filters | None = None,
        *,
        limit: int = 10,
        cache: SplitCache | None = None,
    ) -> pa.Table:
        """The most frequent values of a column among the rows that a query finds; of a text, its words.

        Args:
            column: A text, a whole number, a boolean or a partition column.
            query: The query, as of `search`.
            where: A predicate that hits must fulfil, too.
            limit: How many.
            cache: Where splits are unpacked.

        Raises:
            QueryError: The query cannot be answered, or the column has too many values to be counted exactly.
            DeltaSidecarError: As of `search`.
        """
        from delta_sidecar.search.query.aggregations import top_terms
        from delta_sidecar.search.query.prepared import PreparedSearch

        return top_terms(PreparedSearch(self, query, where, cache), column, limit)

    def merge_candidates(self, now_ms: int | None = None) -> list[Split]:
        """The live splits that merges may touch: without those that one skipped and that still cool down.

        Args:
            now_ms: The time to compare with, in milliseconds since 1970; the present if not given.
        """
        cooling = self.state.cooling(present_ms() if now_ms is None else now_ms)
        return [split for key, split in self.state.by_key.items() if key not in cooling]

    def skips(self) -> list[MergeSkip]:
        """The newest skip of each live split that a merge left out."""
        return list(self.state.skips.values())

    def split_path(self, split: Split) -> str:
        """Where a split is, relative to the table.

        Args:
            split: A split of this table.

        Raises:
            InputError: The split is not below the table.
        """
        return path_below(self._store, split.path)

    def versions(self) -> list[int]:
        """The versions that can be opened, oldest first. Asks the store."""
        return kept_versions(self._store)

    def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """What each version up to this one did, newest first, as far as the log still says.

        Args:
            limit: The most versions to return.
        """
        listing, states = list_log(self._store, 0, SEARCH), list_states(self._store)
        versions = sorted(({*listing.commits, *states}), reverse=True)
        chosen = [v for v in versions if v <= self.version][:limit]
        commits = self._snapshot.commits
        found = {v: CommitRange(v, v, listing.commits[v]) for v in chosen if v in listing.commits}
        entries: dict[int, dict[str, Any]] = {}
        for commit in newest_first(sorted(found.values(), key=lambda c: c.last), commits):
            actions = commit_actions(commits.blocks(commit.file), commit.file.path)
            counts = {"added": len(actions.adds), "removed": len(actions.removes), "skipped": len(actions.skips)}
            times = {"version": commit.last, "timestamp": commit.file.last_modified_ms}
            entries[commit.last] = {**times, **(actions.info or {}), **counts}
        known: tuple[Wire, Wire] = ({}, {"id": self.metadata.id})
        for version in chosen:
            if version not in entries:
                state = read_state(self._store, version, states[version], known)
                entries[version] = {"version": version, "timestamp": state.created_ms, "splits": state.split_count}
        return [entries[version] for version in chosen]


def store_of(
    place: str | os.PathLike[str] | SearchTable | Store,
    storage_options: Mapping[str, str] | None,
    options: SearchOptions,
) -> Store:
    """The store of a table that is given by its location, its store, or as a table."""
    if isinstance(place, SearchTable):
        return place.store
    if not isinstance(place, str | os.PathLike):
        return place
    timeout = options.read_timeout
    given = {"timeout": f"{int(timeout.total_seconds())}s"} if timeout is not None else {}
    is_local = parse_location(place).scheme == "file"
    return open_store(place, storage_options if is_local else {**given, **(storage_options or {})} or None)


def path_below(store: Store, path: str) -> str:
    """The path of a split relative to the table, which holds the name as it is: nothing in it is escaped."""
    if not has_scheme(path) and not path.startswith("/"):
        return path
    root = parse_location(store.root_uri)
    below = root.relative(resolve_log_path(root, path.replace("%", "%25")))
    if below is None:
        raise InputError(f"the split {path} is not below its table {store.root_uri}; only such splits can be read")
    return below


def present_ms() -> int:
    return int(time.time() * 1000)


def _opened(store: Store, version: int | None, options: SearchOptions) -> Snapshot:
    """Only which version is the newest can go stale: what it is made of never changes."""
    if version is not None or not options.cache_enabled:
        return open_log(store, version, options.commit_limits)
    known: tuple[float, Snapshot] | None = shared_cache.get(_key(store))
    if known is not None and time.monotonic() - known[0] < options.cache_expiration.total_seconds():
        return known[1]
    began = time.monotonic()
    snapshot = open_log(store, None, options.commit_limits)
    nbytes = _OF_A_COMMIT * (len(snapshot.listing.commits) + 1) + snapshot.commits.nbytes
    shared_cache.put(_key(store), (began, snapshot), nbytes)
    return snapshot


def forget(store: Store) -> None:
    """Ask the store again which version is the newest, because one was written."""
    shared_cache.forget(_key(store))


def _key(store: Store) -> tuple[str, Any]:
    return "search", store.identity
