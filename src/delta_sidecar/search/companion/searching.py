"""Search a Delta table through its companion: hits lead to the table's own rows.

Both tables are pinned: a document counts only if its file is live at the version of the Delta table, and its deletion
vector does not have the row. Files that are not indexed yet are not found, and every answer says how many there are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from delta_sidecar.errors import PositionError, TableNotFoundError
from delta_sidecar.search.companion.following import Companion, Lag
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.query.aggregations import count, histogram, top_terms
from delta_sidecar.search.query.expression import Query
from delta_sidecar.search.query.prepared import HitsOfSplit, PreparedSearch
from delta_sidecar.search.query.searching import SearchHits, page_of, search
from delta_sidecar.search.splits.building import ANEW
from delta_sidecar.search.splits.cache import OpenedSplit, SplitCache
from delta_sidecar.search.splits.fields import PATH_FIELD, ROW_FIELD
from delta_sidecar.search.table import SearchTable
from delta_sidecar.storage.store import Store
from delta_sidecar.table import DeltaTable
from delta_sidecar.texts import counted
from delta_sidecar.values.types import StructField, StructType

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters


class CompanionSearch:
    """A Delta table that is searched through its companion, with the methods of `SearchTable`.

    Args:
        table: The Delta table: its location, or as it is open.
        search: The location of the search table, or its store; `_search` below the table if not given.
        version: The version of the Delta table; the newest if not given.
        storage_options: Credentials and settings of the object store.

    Raises:
        TableNotFoundError: There is no such table, or it has no companion.
        OtherTableError: The search table is the companion of another table.
        CorruptTableError: A log is broken.
        StorageError: The store cannot be reached.

    Example:
        >>> from delta_sidecar.search import CompanionSearch, follow
        >>> _ = follow("events", text=["_event_hour"], filters=["id"])
        >>> found = CompanionSearch("events").search("*", "id >= 6", columns=["id"], limit=2)
        >>> found.schema.names, found.notes
        (['score', 'id'], ())
    """

    def __init__(
        self,
        table: DeltaTable | str | os.PathLike[str],
        search: str | os.PathLike[str] | Store | None = None,
        version: int | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._given = (search, storage_options)
        self._companion = Companion(table, search, version, storage_options)
        self._table = self._companion.search
        self._rows = _TableRows(self._companion)

    def __repr__(self) -> str:
        return f"CompanionSearch({self._companion.table.table_uri!r}, version={self.version})"

    @property
    def version(self) -> int:
        """The version of the Delta table."""
        return self._companion.table.version()

    @property
    def companion(self) -> Companion:
        return self._companion

    def lag(self) -> Lag:
        """How far the companion is behind the table.

        Raises:
            CorruptTableError: A log is broken.
            StorageError: The store cannot be reached.
        """
        return self._companion.lag()

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is not found because it is not indexed yet; empty if the companion is in step."""
        if changed := self._companion.changed:
            anew = ANEW.format(uri=self._table.uri)
            return (f"{changed[0]}, so rows that came since are not found; {anew}",)
        lag = self.lag()
        if lag.is_in_step:
            return ()
        rows = "" if lag.rows is None else f" ({counted(lag.rows, 'row')})"
        behind = f"the companion is behind version {lag.version} of the table by {counted(lag.files, 'file')}{rows}"
        return (f"{behind}, whose rows are not found; run: sidecar splits follow",)

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
        """The rows of the Delta table that a query finds; see `SearchTable.search`.

        Args:
            query: The query.
            where: A predicate that hits must fulfil, too, on indexed columns.
            limit: Hits of a page; None is a stream of all hits, newest split first.
            order: `newest` or `best` first.
            columns: Columns of the Delta table; all if not given.
            highlight: Whether to add `highlight`. The texts are those of the table's rows.
            after: `SearchHits.next_page` of the page before. The search goes on at its versions of both tables.
            cache: Where splits are unpacked.

        Raises:
            QueryError: The query cannot be parsed, or the fields of the companion cannot answer it.
            DeltaSidecarError: As of `SearchTable.search`.
        """
        here = self if after is None else self._at(after)
        how: dict[str, Any] = {"limit": limit, "order": order, "columns": columns, "highlight": highlight}
        more: dict[str, Any] = {"of": here._rows, "of_version": here.version, "notes": here.notes}
        return search(here._table, query, where, **how, after=after, cache=cache, **more)

    def _at(self, after: str) -> CompanionSearch:
        version = page_of(after).of_version
        if version is None:
            raise PositionError("the page is of a search table without its Delta table; search from the start")
        if version == self.version:
            return self
        return CompanionSearch(self._companion.table.table_uri, self._given[0], version, storage_options=self._given[1])

    @property
    def search_version(self) -> int:
        """The version of the search table."""
        return self._table.version

    def prepared(
        self,
        query: str | Query,
        where: str | Filters | None = None,
        cache: SplitCache | None = None,
        *,
        search_version: int | None = None,
        now: int | None = None,
    ) -> PreparedSearch:
        """The search before it is run, for the rest of this package; at another version of the search table, if one
        is given."""
        is_here = search_version in (None, self._table.version)
        table = self._table if is_here else SearchTable(self._table.store, search_version)
        return PreparedSearch(table, query, where, cache, self._rows, now)

    def count(
        self, query: str | Query = "*", where: str | Filters | None = None, *, cache: SplitCache | None = None
    ) -> int:
        """How many rows of the Delta table a query finds; see `SearchTable.count`.

        Args:
            query: The query.
            where: A predicate that hits must fulfil, too.
            cache: Where splits are unpacked.

        Raises:
            QueryError: The query cannot be answered.
            DeltaSidecarError: As of `SearchTable.search`.
        """
        return count(self.prepared(query, where, cache))

    def histogram(
        self,
        interval: str,
        query: str | Query = "*",
        where: str | Filters | None = None,
        *,
        cache: SplitCache | None = None,
    ) -> pa.Table:
        """How many rows fall into each span of time; see `SearchTable.histogram`.

        Args:
            interval: The length of a span.
            query: The query.
            where: A predicate that hits must fulfil, too.
            cache: Where splits are unpacked.

        Raises:
            QueryError: The query cannot be answered.
            DeltaSidecarError: As of `SearchTable.histogram`.
        """
        return histogram(self.prepared(query, where, cache), interval)

    def top_terms(
        self,
        column: str,
        query: str | Query = "*",
        where: str | Filters | None = None,
        *,
        limit: int = 10,
        cache: SplitCache | None = None,
    ) -> pa.Table:
        """The most frequent values of a column among the hits; see `SearchTable.top_terms`.

        Args:
            column: The column.
            query: The query.
            where: A predicate that hits must fulfil, too.
            limit: How many.
            cache: Where splits are unpacked.

        Raises:
            QueryError: The query cannot be answered.
            DeltaSidecarError: As of `SearchTable.top_terms`.
        """
        return top_terms(self.prepared(query, where, cache), column, limit)


class _TableRows:
    """The rows of the Delta table that a companion's documents are about."""

    def __init__(self, companion: Companion) -> None:
        self._companion = companion

    @property
    def columns(self) -> StructType:
        return self._companion.table.schema()

    def gone(self, split: Split) -> Sequence[int]:
        return [key for key in self._companion.sources(split) if key not in self._companion.files]

    def partly(self, split: Split) -> Sequence[int]:
        files = self._companion.files
        keys = self._companion.sources(split)
        return [key for key in keys if key in files and files[key].deletion_vector is not None]

    def live(self, opened: OpenedSplit, addresses: Sequence[Any]) -> list[bool]:
        if not addresses:
            return []
        keys, rows = _places(opened, addresses)
        return [bool(flag) for flag in self._companion.live(keys, rows)]

    def rows(self, hits: Sequence[HitsOfSplit], columns: Sequence[StructField]) -> dict[str, pa.Array]:
        keys, rows = list[int](), list[int]()
        for opened, addresses in hits:
            found_keys, found_rows = _places(opened, addresses)
            keys += found_keys
            rows += found_rows
        found = self._companion.rows_of_hits(keys, rows, [column.name for column in columns])
        return {name: found[name].combine_chunks() for name in found.column_names}


def _places(opened: OpenedSplit, addresses: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The key of the file and the number of the row of each document."""
    asked = list(addresses)
    keys, rows = (opened.searcher.fast_field_values(name, asked) for name in (PATH_FIELD, ROW_FIELD))
    return keys, rows


def open_search(
    place: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    search: str | os.PathLike[str] | None = None,
) -> SearchTable | CompanionSearch:
    """A search table, or a Delta table with its companion, whichever is there.

    Args:
        place: The location of the table.
        version: Its version; the newest if not given.
        storage_options: Credentials and settings of the object store.
        search: Where the companion of a Delta table is, if it is not below it.

    Raises:
        TableNotFoundError: Neither is there, or the Delta table has no companion.
        DeltaSidecarError: As of `SearchTable` and `CompanionSearch`.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import build_splits, open_search
        >>> _ = build_splits(pa.table({"body": ["disk full", "disk replaced"]}), "logs", text=["body"])
        >>> open_search("logs").count("full")
        1
    """
    if search is None:
        try:
            return SearchTable(place, version, storage_options)
        except TableNotFoundError as error:
            missing = error
        try:
            table = DeltaTable(place, version, storage_options)
        except TableNotFoundError:
            raise missing from None
        return CompanionSearch(table, storage_options=storage_options)
    return CompanionSearch(place, search, version, storage_options)
