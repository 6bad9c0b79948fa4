"""The data source `sidecar`: planned through the index on the driver, read by the table's own reader on the workers.

Spark makes the source in a Python process of its own, asks for the schema, and sends the source on, pickled, to the
process that plans. So the version is pinned with the schema: a DataFrame stays at it. A task gets paths, sizes,
partition values and deletion vectors of its files, and never reads the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition

from delta_sidecar.data.file_bytes import StoreOpener
from delta_sidecar.data.request import file_columns
from delta_sidecar.data.row_scan import read_rows, reading_options
from delta_sidecar.engines.spark.file_groups import Splitting, grouped, packed, parse_bytes, unpacked
from delta_sidecar.engines.spark.pushed_filters import implied_by
from delta_sidecar.engines.spark.source_options import SourceOptions
from delta_sidecar.engines.spark.spark_types import arrow_schema, spark_batch, spark_schema
from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.shipping import is_connect, ship
from delta_sidecar.predicates.binding import Binder, bind_predicate
from delta_sidecar.predicates.expression import Expression, all_of
from delta_sidecar.scan.file_scan import FileScan
from delta_sidecar.settings import Settings
from delta_sidecar.storage.opening import open_store
from delta_sidecar.values.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType as SparkSchema

    from delta_sidecar.table import DeltaTable

_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Register `spark.read.format("sidecar")` in a session, for its workers as well.

    The option `predicate` of a read skips files. Filters of a query skip none unless `push_filters` is set.

    Args:
        spark: The session: classic, on a cluster, or a Connect client. Workers that are not on this machine get this
            package; the libraries it depends on must be installed there.
        push_filters: Let filters of a query skip files, too. Only for DataFrames that are used in one query,
            and only once in it: Spark 4.2 keeps the files of the last filter with the DataFrame and reads them again
            for another filter, or for none, so that rows are missing. Turns on
            `spark.sql.python.filterPushdown.enabled`.

    Raises:
        SparkError: The session does not allow that setting to be changed.
        pyspark.errors.PySparkException: Spark did not accept the package or the source.

    Example:
        >>> from delta_sidecar.engines.spark import register
        >>> register(spark)
        >>> hour = spark.read.format("sidecar").option("predicate", "_event_hour >= '2026021023'")
        >>> hour.load(f"{here}/events").count()
        2
    """
    if push_filters:
        _turn_on_pushdown(spark)
    ship(spark)

    class Registered(SidecarSource):
        """The source with what this session says; pickled with it, for it is in no module."""

        splitting = _splitting(spark)
        pushes_filters = push_filters

    spark.dataSource.register(Registered)


def _turn_on_pushdown(spark: SparkSession) -> None:
    """Without this setting Spark pushes no filter into a Python source, and refuses one that takes filters."""
    with spark_failures(f"the session does not allow {_PUSHDOWN}=true"):
        spark.conf.set(_PUSHDOWN, "true")


def _splitting(spark: SparkSession) -> Splitting:
    most = spark.conf.get("spark.sql.files.maxPartitionBytes", "128m") or "128m"
    cost = spark.conf.get("spark.sql.files.openCostInBytes", "4m") or "4m"
    cores = None if is_connect(spark) else spark.sparkContext.defaultParallelism
    return Splitting(parse_bytes(most), parse_bytes(cost), cores)


class SidecarSource(DataSource):
    """A Delta table, read through its index."""

    splitting: ClassVar[Splitting] = Splitting()
    pushes_filters: ClassVar[bool] = False
    _version: int | None = None
    """Pinned when the schema was asked for."""

    @classmethod
    def name(cls) -> str:
        return "sidecar"

    def schema(self) -> SparkSchema:
        options = SourceOptions.of(self.options)
        table = options.open()
        self._version = table.version()
        _bound(table, options)
        return spark_schema(_selected(table, options.columns).fields)

    def reader(self, schema: SparkSchema) -> DataSourceReader:
        options = SourceOptions.of(self.options)
        table = options.open(self._version)
        _check_schema(schema, table)
        rows = RowTask(
            uri=table.table_uri,
            storage_options=options.storage,
            schema=table.schema(),
            partition_columns=tuple(table.snapshot.partition_columns),
            mapping_mode=table.snapshot.mapping_mode,
            columns=tuple(schema.names),
            predicate=_bound(table, options),
            settings=table.settings,
            arrow=arrow_schema(schema),
        )
        kind = FilteringReader if self.pushes_filters else SidecarReader
        return kind(table, rows, self.splitting)


def _bound(table: DeltaTable, options: SourceOptions) -> Expression | None:
    partitions, timezone = table.snapshot.partition_columns, table.settings.partition_timezone
    return bind_predicate(options.predicate, table.schema(), partitions, timezone)


def _selected(table: DeltaTable, columns: Sequence[str] | None) -> StructType:
    return table.schema() if columns is None else table.schema().select(columns)


def _check_schema(given: SparkSchema, table: DeltaTable) -> None:
    """A schema of the user's may leave columns out and change their order; their types are the table's."""
    known = spark_schema(table.schema().select(given.names).fields)
    for wanted, present in zip(given, known, strict=True):
        if (wanted.name, wanted.dataType) != (present.name, present.dataType):
            raise InputError(
                f"the schema says {wanted.name} {wanted.dataType.simpleString()}, the table has {present.name} "
                f"{present.dataType.simpleString()}; leave the schema out, or give the table's names and types"
            )


@dataclass(frozen=True, slots=True)
class RowTask:
    """All that a task needs to read rows, but for its files."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    schema: StructType
    partition_columns: tuple[str, ...]
    mapping_mode: str
    columns: tuple[str, ...]
    predicate: Expression | None
    settings: Settings
    arrow: pa.Schema
    """The schema of the rows as Spark expects them."""

    @property
    def file_columns(self) -> tuple[str, ...]:
        """What a listing must say of files."""
        return file_columns(self.schema, self.partition_columns, self.columns, self.predicate)

    def rows(self, files: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of some files; reading stops when nobody takes more of them."""
        opened: StoreOpener = partial(open_store, storage_options=dict(self.storage_options) or None)
        with read_rows(
            iter(files),
            opened(self.uri),
            self.schema,
            self.partition_columns,
            mapping_mode=self.mapping_mode,
            columns=self.columns,
            predicate=self.predicate,
            open_other=opened,
            **reading_options(self.settings),
        ) as stream:
            for batch in stream:
                yield spark_batch(batch, self.arrow)


class SidecarReader(DataSourceReader):
    """Plans a read on the driver; on the workers, reads groups of files."""

    def __init__(self, table: DeltaTable, rows: RowTask, splitting: Splitting) -> None:
        self._table: DeltaTable | None = table
        self._rows = rows
        self._splitting = splitting

    def __getstate__(self) -> dict[str, Any]:
        """Without the table: workers do not read the log."""
        return self.__dict__ | {"_table": None}

    def partitions(self) -> list[InputPartition]:
        assert self._table is not None
        snapshot, settings = self._table.snapshot, self._table.settings
        with FileScan(snapshot, settings, self._rows.predicate, self._rows.file_columns) as scan:
            files = list(scan)
        return [InputPartition(packed(group)) for group in grouped(files, self._splitting)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Without files Spark makes one partition of its own, with no value.
        return iter(()) if partition.value is None else self._rows.rows(unpacked(partition.value))


class FilteringReader(SidecarReader):
    """Also takes Spark's filters, to leave out files and rows; Spark applies all of them again.

    Spark has one place for the plan of a DataFrame's source: the plan for one filter replaces that for another, and a
    scan without filters takes what is there. That is why filters are taken only where the user asks for it.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        rows = self._rows
        binder = Binder(rows.schema, frozenset(rows.partition_columns), rows.settings.partition_timezone)
        self._rows = replace(rows, predicate=all_of([rows.predicate, implied_by(filters, binder)]))
        return filters
