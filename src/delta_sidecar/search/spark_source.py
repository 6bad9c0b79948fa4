"""The data source `sidecar_search`: hits of a query as rows of a DataFrame, one task for each split that may hold one.

The version of the table is pinned when Spark asks for the schema. A task gets what its split was planned at (the
versions of both tables, and the time that `now()` is), opens the tables there, and fetches its split.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from delta_sidecar.engines.spark.spark_types import arrow_schema
from delta_sidecar.errors import OptionError, did_you_mean
from delta_sidecar.search.companion.searching import CompanionSearch, open_search
from delta_sidecar.search.query.prepared import PreparedSearch
from delta_sidecar.search.query.searching import SearchRun
from delta_sidecar.search.table import SearchTable
from delta_sidecar.storage.options import AZURE, GOOGLE, S3

if TYPE_CHECKING:
    from pyspark.sql.types import StructType as SparkSchema

NAME: Final = "sidecar_search"
_OWN: Final = ("path", "query", "where", "columns", "version")


@dataclass(frozen=True, slots=True)
class Pinned:
    """What all tasks of a read have to see alike."""

    version: int
    """The version of the table: of the Delta table, if it is searched through a companion."""
    search: int | None
    """The version of the companion."""
    now: int
    """What `now()` is, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class SearchRead:
    """What a read asks for, and at which versions."""

    path: str
    query: str
    where: str | None
    columns: tuple[str, ...] | None
    version: int | None
    storage: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SearchRead:
        """The options that texts mean; `OptionError` names one that means nothing."""
        given = {name.lower(): text for name, text in options.items() if name.lower() in _OWN}
        storage = {name: text for name, text in options.items() if name.lower() not in _OWN}
        for name in storage:
            if all(service.name(name) is None for service in (S3, AZURE, GOOGLE)):
                near = did_you_mean(name, _OWN)
                raise OptionError(f"unknown option {name!r}{near}; it takes {', '.join(_OWN)}, and storage options")
        if not given.get("path") or not given.get("query"):
            raise OptionError(f"spark.read.format({NAME!r}) needs the option query, and a path: .load(path)")
        version, columns = given.get("version"), given.get("columns")
        if version is not None and not version.strip().isdecimal():
            raise OptionError(f"option version is {version!r}; it takes a whole number")
        names = None if columns is None else tuple(name.strip() for name in columns.split(",") if name.strip())
        pinned = None if version is None else int(version)
        return cls(given["path"], given["query"], given.get("where"), names, pinned, storage)

    def open(self, version: int | None = None) -> SearchTable | CompanionSearch:
        """The table, at a version."""
        return open_search(self.path, self.version if version is None else version, dict(self.storage) or None)

    def pinned(self, version: int | None) -> Pinned:
        """What every task of a read at a version has to see."""
        table = self.open(version)
        search = table.search_version if isinstance(table, CompanionSearch) else None
        return Pinned(table.version, search, time.time_ns() // 1000)

    def run(self, pinned: Pinned, columns: Sequence[str] | None) -> SearchRun:
        """The search as it is pinned."""
        table = self.open(pinned.version)
        if isinstance(table, CompanionSearch):
            prepared = table.prepared(self.query, self.where, search_version=pinned.search, now=pinned.now)
        else:
            prepared = PreparedSearch(table, self.query, self.where, now=pinned.now)
        return SearchRun(prepared, columns=columns)


class SearchSource(DataSource):
    """Hits of a query."""

    _pinned: Pinned | None = None
    """When the schema was asked for."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> SparkSchema:
        from pyspark.sql.pandas.types import from_arrow_schema

        asked = SearchRead.of(self.options)
        self._pinned = asked.pinned(None)
        return from_arrow_schema(asked.run(self._pinned, asked.columns).schema)

    def reader(self, schema: SparkSchema) -> DataSourceReader:
        return SearchReader(SearchRead.of(self.options), self._pinned, schema)


class _Split(InputPartition):
    """A split that may hold a hit; None stands for no split at all, because Spark wants a partition."""

    def __init__(self, path: str | None, pinned: Pinned) -> None:
        super().__init__(path)
        self.path = path
        self.pinned = pinned


class SearchReader(DataSourceReader):
    """Plans on the driver which splits are asked; on the workers, asks them."""

    def __init__(self, asked: SearchRead, pinned: Pinned | None, schema: SparkSchema) -> None:
        self._asked = asked
        self._pinned = pinned
        self._columns = [name for name in schema.names if name != "score"]
        self._arrow = arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        pinned = self._asked.pinned(None) if self._pinned is None else self._pinned
        paths = self._asked.run(pinned, self._columns).paths
        return [_Split(path, pinned) for path in paths] or [_Split(None, pinned)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Split)
        if partition.path is None:
            return
        run = self._asked.run(partition.pinned, self._columns)
        for batch in run.stream(partition.path).to_reader():
            yield pa.RecordBatch.from_arrays([batch.column(name) for name in self._arrow.names], schema=self._arrow)
