"""A search before it is run: the query parsed and bound, the splits chosen that may hold a hit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import time_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from delta_sidecar.errors import CorruptDataError, PredicateError, UnsupportedFeatureError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.expression import Expression, all_of, columns_of
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.log.split_pruning import TIME_COLUMN, pruned
from delta_sidecar.search.query.binding import QueryFields, bind_query, pruning_of
from delta_sidecar.search.query.engine import ask, check_plan, engine_query, filtered
from delta_sidecar.search.query.expression import Query
from delta_sidecar.search.query.plan import AllOf, Except, Lookup, Plan
from delta_sidecar.search.query.text import check_unicode, parse_query
from delta_sidecar.search.query.where import rows_where
from delta_sidecar.search.splits.cache import OpenedSplit, SplitCache, shared_splits
from delta_sidecar.search.splits.fields import DATE, FIELDS, PATH_FIELD, SplitField, SplitFields
from delta_sidecar.search.splits.their_splits import partition_array
from delta_sidecar.search.table import SearchTable
from delta_sidecar.values import temporal
from delta_sidecar.values.types import StructField, StructType

if TYPE_CHECKING:
    from delta_sidecar.predicates.predicate_tuples import Filters


def written_fields(table: SearchTable) -> str:
    """What the splits of a table index, as its log has it.

    Args:
        table: The table.

    Raises:
        UnsupportedFeatureError: Another program made the splits.
    """
    written = table.metadata.properties.get(FIELDS)
    if written is None:
        written = next((split.docMappingJson for split in table.state.splits if split.docMappingJson), None)
    if written is None:
        raise UnsupportedFeatureError(
            f"text search in {table.uri} is not supported: its log does not say what its splits index, so another "
            "program made them; build the splits again to search them"
        )
    return written


HitsOfSplit: TypeAlias = tuple[OpenedSplit, Sequence[Any]]
"""An open split, and the engine's addresses of documents in it."""


class LiveRows(Protocol):
    """The table that a companion's documents are about: which of them are its rows, and what is in these."""

    @property
    def columns(self) -> StructType:
        """The columns of the table."""
        ...

    def gone(self, split: Split) -> Sequence[int]:
        """The keys of files that a split indexes and the table no longer has."""
        ...

    def partly(self, split: Split) -> Sequence[int]:
        """The keys of live files with deleted rows."""
        ...

    def live(self, opened: OpenedSplit, addresses: Sequence[Any]) -> list[bool]:
        """Which documents are rows of the table."""
        ...

    def rows(self, hits: Sequence[HitsOfSplit], columns: Sequence[StructField]) -> dict[str, pa.Array]:
        """Columns of live rows, split by split in the order of the addresses."""
        ...


@dataclass(frozen=True)
class SearchedSplit:
    """An open split and what is asked of it."""

    split: Split
    opened: OpenedSplit
    query: Any
    """The engine's query: hits and their scores."""
    of: LiveRows | None = None

    def live(self, addresses: Sequence[Any]) -> list[bool]:
        """Which hits are rows: all, but for those that a companion's table has deleted."""
        if self.of is None or not self.of.partly(self.split):
            return [True] * len(addresses)
        return self.of.live(self.opened, addresses)

    def dead(self) -> list[Any]:
        """The hits that are no rows, because a companion's table has deleted them."""
        partly = () if self.of is None else self.of.partly(self.split)
        if self.of is None or not partly:
            return []
        schema = self.opened.index.schema
        only = filtered(self.query, engine_query(Lookup(PATH_FIELD, tuple(partly)), schema, lambda _: True))
        searcher = self.opened.searcher
        hits = ask(lambda: searcher.search(only, limit=max(1, searcher.num_docs), count=False), self.split.path).hits
        addresses = [address for _, address in hits]
        return [a for a, is_live in zip(addresses, self.of.live(self.opened, addresses), strict=True) if not is_live]

    def ask(self, **how: Any) -> Any:
        """The engine's answer."""
        return ask(lambda: self.opened.searcher.search(self.query, **how), self.split.path)

    def aggregate(self, how: dict[str, Any]) -> dict[str, Any]:
        """The engine's aggregation of all hits."""
        found: dict[str, Any] = ask(lambda: self.opened.searcher.aggregate(self.query, how), self.split.path)
        return found


class PreparedSearch:
    """A query and a predicate, bound to one version of a table.

    Args:
        table: The table.
        query: The query, as text or as a tree.
        where: A predicate that hits must fulfil, too.
        cache: Where splits are unpacked; the one of this process if not given.
        of: The table that the documents are about, if the search table is a companion.
        now: What `now()` is in the predicate, in microseconds since 1970; the present if not given. Whatever continues
            a search has to give the same.

    Raises:
        QueryError: The query cannot be parsed, or the fields cannot answer it.
        PredicateError: The predicate cannot be parsed.
        UnknownColumnError: The predicate names a column that is not there.
        UnsupportedFeatureError: Another program made the splits.
        CorruptTableError: The log is broken.
    """

    def __init__(
        self,
        table: SearchTable,
        query: str | Query,
        where: str | Filters | None = None,
        cache: SplitCache | None = None,
        of: LiveRows | None = None,
        now: int | None = None,
    ) -> None:
        self.table = table
        self.now = time_ns() // 1000 if now is None else now
        self.of = of
        self.query = parse_query(query) if isinstance(query, str) else query
        written = written_fields(table)
        fields = SplitFields.parse(written, table.uri)
        columns = table.schema() if of is None else of.columns
        self.fields = QueryFields(fields, columns, tuple(table.partition_columns))
        check_unicode(where, PredicateError, "the predicate")
        self.predicate = bind_predicate(where, self.fields.columns, self.fields.partitions, now=self.now)
        self._cache = cache
        self._plans: dict[str | None, tuple[Plan, Plan | None]] = {}
        plan, condition = self._plans[written] = self._plan(self.fields)
        schema = self.fields.fields.engine_schema()
        check_plan(plan, schema)
        if condition is not None:
            check_plan(condition, schema)

    @property
    def time(self) -> SplitField | None:
        """The field of the time column, if there is one in the splits.

        Raises:
            QueryError: The column has another type than when it was indexed.
        """
        name = self.fields.fields.time
        found = None if name is None else self.fields.fields.find(name)
        if found is None or not found.fast:
            return None
        self.fields.check(found)
        return found

    @cached_property
    def splits(self) -> list[Split]:
        """The splits that may hold a hit, newest first."""
        known = all_of((self.predicate, pruning_of(self.query, self.fields)))
        time_column = self.table.metadata.properties.get(TIME_COLUMN) or self.fields.fields.time
        return pruned(self.table.state.splits, known, time_column)

    @property
    def digest(self) -> str:
        """What tells this search from others of the same table."""
        told = f"{self.table.metadata.id}\n{self.query!r}\n{self.predicate}"
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def open(self, split: Split) -> SearchedSplit:
        """Fetch and open a split."""
        cache = self._cache if self._cache is not None else shared_splits()
        opened = cache.open_split(self.table.store, split, self.fields.fields)
        plan, condition = self._plans_of(split, opened)

        def holds(expression: Expression) -> bool:
            return _holds(expression, split)

        schema = opened.index.schema
        gone = () if self.of is None else self.of.gone(split)
        if gone:
            without = Except(Lookup(PATH_FIELD, tuple(gone)))
            condition = without if condition is None else AllOf((condition, without))
        limits = None if condition is None else engine_query(condition, schema, holds)
        return SearchedSplit(split, opened, filtered(engine_query(plan, schema, holds), limits), self.of)

    def _plans_of(self, split: Split, opened: OpenedSplit) -> tuple[Plan, Plan | None]:
        """Splits of one table may be made with other fields than the newest."""
        if split.docMappingJson not in self._plans:
            own = QueryFields(opened.fields, self.fields.columns, self.fields.partitions)
            self._plans[split.docMappingJson] = self._plan(own)
        return self._plans[split.docMappingJson]

    def _plan(self, fields: QueryFields) -> tuple[Plan, Plan | None]:
        condition = None if self.predicate is None else rows_where(self.predicate, fields.fields)
        return bind_query(self.query, fields), condition

    def latest(self, split: Split) -> int | None:
        """The latest time in a split, as its time column has it; None if it is not known."""
        time = self.time
        if time is None:
            return None
        text = (split.maxValues or {}).get(time.name) or split.timeRangeEnd
        if text is None:
            return None
        if time.kind == DATE:
            return temporal.parse_days(text)
        return temporal.utc_micros(text) if time.type == "timestamp" else temporal.local_micros(text)


def _holds(expression: Expression, split: Split) -> bool:
    """Whether a condition on partition values is true in a split."""
    columns = {column.path[0]: column.fields[0] for column in columns_of(expression)}
    values: Sequence[pa.Array] = [partition_array(split, field, 1) for field in columns.values()]
    if any(len(value) != 1 for value in values):
        raise CorruptDataError(f"{split.path} has no readable partition values")
    batch = pa.RecordBatch.from_arrays(list(values), names=list(columns))
    return matching(expression, batch)[0].as_py() is True
