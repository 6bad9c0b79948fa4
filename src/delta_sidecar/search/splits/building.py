"""Build splits of rows and add them to a search table: in this process where there are few rows, else on Spark.

Files first, then one commit. What dies before the commit leaves files that no version has, and `purge` deletes them;
it can be run again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_sidecar.errors import (
    DeltaSidecarError,
    InputError,
    OptionError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from delta_sidecar.search.log.actions import Split
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.split_pruning import TIME_COLUMN
from delta_sidecar.search.splits.column_types import ChangedColumn, as_known, changed_columns
from delta_sidecar.search.splits.fields import FIELDS, SplitFields, engine
from delta_sidecar.search.splits.rolls import ROWS, SplitRolls, check_partition_type
from delta_sidecar.search.table import SearchTable
from delta_sidecar.search.writing.batches import add_batch, last_batch
from delta_sidecar.search.writing.transactions import SearchCommit, append, create_table, overwrite
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.table import DeltaTable
from delta_sidecar.values.arrow_types import table_schema
from delta_sidecar.values.types import StructType, arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from delta_sidecar.pipeline.sources import Source

MODES: Final = ("append", "overwrite")
ENGINES: Final = ("auto", "process", "spark")
ANEW: Final = "delete the companion at {uri}, and follow the table again with the choices of columns"
"""What to do with a companion whose table has changed."""
PROCESS_ROWS: Final = 2_000_000
"""The most rows that the engine `auto` builds in this process."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Which columns are indexed and how; the names of the command's options."""

    text: Sequence[str] = ()
    key: Sequence[str] = ()
    time: str | None = None
    filters: Sequence[str] = ()
    stored: Sequence[str] = ()
    analyzers: Mapping[str, str] | None = None
    partition_columns: Sequence[str] = ()

    @property
    def is_given(self) -> bool:
        return bool(self.text or self.key or self.time or self.filters or self.stored or self.analyzers)


@dataclass(frozen=True, slots=True)
class SplitsReport:
    """What a build wrote.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import build_splits
        >>> report = build_splits(pa.table({"body": ["disk full", "disk replaced"]}), "logs", text=["body"])
        >>> report.version, report.rows, report.splits, report.engine
        (1, 2, 1, 'process')
    """

    version: int
    rows: int
    splits: int
    bytes: int
    removed: int = 0
    """Splits that were replaced."""
    conflicts: int = 0
    engine: str = "process"
    seconds: float = 0.0
    is_repeated: bool = False
    """The batch had been added before; nothing was written."""


def build_splits(
    source: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch] | DataFrame | str | os.PathLike[str],
    table: str | os.PathLike[str] | Store,
    *,
    text: Sequence[str] = (),
    key: Sequence[str] = (),
    time: str | None = None,
    filters: Sequence[str] = (),
    stored: Sequence[str] = (),
    analyzers: Mapping[str, str] | None = None,
    partition_columns: Sequence[str] = (),
    mode: str = "append",
    rows_per_split: int = ROWS,
    engine: str = "auto",
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    source_format: str | None = None,
    read_options: Mapping[str, str] | None = None,
    app_id: str | None = None,
    batch_id: int | None = None,
    properties: Mapping[str, str] | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> SplitsReport:
    """Index rows into splits, and add these to a search table in one commit. A table that is not there is created.

    Args:
        source: Arrow rows, a DataFrame with Arrow's C stream (Polars, pandas), a Spark DataFrame, or the location of a
            Delta table or of Parquet files. The types of its columns must fit those of the table.
        table: The location of the search table.
        text: Columns of texts to search in. This and the other choices of columns are made when the table is created;
            later they can be left out, and must not differ.
        key: Columns that identify a row.
        time: The column that says when a row happened.
        filters: More columns to look up, filter and group by.
        stored: Columns whose values are kept, and come back with a hit.
        analyzers: How texts are divided into words, by column; `default` if not given.
        partition_columns: Columns whose value is one for each split.
        mode: `append`, or `overwrite` to replace all splits.
        rows_per_split: Rows of a split, at most.
        engine: `process` builds here, `spark` on Spark; `auto` decides by the number of rows.
        spark: The session to use if Spark is needed; if not given, one is started and stopped.
        master: The master of the session, if one is started.
        conf: Spark settings of the session, if one is started.
        source_format: `delta` or `parquet`, if the names do not show it.
        read_options: Options of Spark's reader.
        app_id: With `batch_id`: the application whose batch this is. A batch is added once.
        batch_id: The number of the batch, which grows.
        properties: Table properties, if the table is created.
        options: Settings by the names of note 004.
        storage_options: Credentials and settings of the object store.
        progress: Called with one line of text whenever a step begins.

    Raises:
        OptionError: An argument is wrong.
        UnknownColumnError: There is no such column.
        UnsupportedTypeError: A column has a type that cannot be indexed.
        UnsupportedFeatureError: The table has other fields, or needs a writer feature that is unknown.
        InputError: A value does not fit, or the extra `search` is not installed.
        ConflictError: Other writers committed first at every attempt.
        SparkError: Spark is needed and missing, or a job failed.
        StorageError: The store cannot be reached.

    Example:
        >>> import pyarrow as pa
        >>> from delta_sidecar.search import SearchTable, build_splits
        >>> lines = pa.table({"id": [1, 2], "body": ["disk full", "disk replaced"]})
        >>> _ = build_splits(lines, "logs", text=["body"], key=["id"])
        >>> SearchTable("logs").splits()[0].numRecords
        2
    """
    chosen = Choices(text, key, time, filters, stored, analyzers, partition_columns)
    if mode not in MODES:
        raise OptionError(f"mode {mode!r} is not one of {', '.join(MODES)}")
    if engine not in ENGINES:
        raise OptionError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
    if rows_per_split < 1:
        raise OptionError("a split has one row or more")
    once = _once(app_id, batch_id)
    tell = progress or (lambda _: None)
    store = open_store(table, storage_options) if isinstance(table, (str, os.PathLike)) else table
    begun = _monotonic()
    with ExitStack() as stack:
        rows = _source(
            source, store, engine, spark, master, conf, source_format, read_options, storage_options, tell, stack
        )
        target = prepare_table(store, rows.schema, chosen, properties)
        if once is not None and _is_there(target, once):
            return SplitsReport(target.version, 0, 0, 0, engine=rows.engine, is_repeated=True)
        tell(f"building splits {'on Spark' if rows.engine == 'spark' else 'in this process'}")
        splits = rows.build(target, rows_per_split)
        commit = _committed(store, splits, mode, once, options)
    return SplitsReport(
        commit.version,
        sum(split.numRecords or 0 for split in splits),
        len(splits),
        sum(split.size for split in splits),
        commit.removed,
        commit.conflicts,
        rows.engine,
        _monotonic() - begun,
        is_repeated=once is not None and commit.id is None and bool(splits),
    )


_monotonic = time.monotonic


def _once(app_id: str | None, batch_id: int | None) -> tuple[str, int] | None:
    if (app_id is None) != (batch_id is None):
        raise OptionError("app_id and batch_id must be given together")
    if app_id is None or batch_id is None:
        return None
    if batch_id < 0 or not app_id:
        raise OptionError("app_id must not be empty and batch_id not negative")
    return app_id, batch_id


def _is_there(table: SearchTable, once: tuple[str, int]) -> bool:
    known = last_batch(table.snapshot, once[0])
    return known is not None and known >= once[1]


def _committed(
    store: Store,
    splits: Sequence[Split],
    mode: str,
    once: tuple[str, int] | None,
    options: Mapping[str, Any] | SearchOptions | None,
) -> SearchCommit:
    if once is not None:
        return add_batch(store, splits, *once, overwrites=mode == "overwrite", options=options)
    return (overwrite if mode == "overwrite" else append)(store, splits, options=options)


# The table.


def prepare_table(
    store: Store,
    schema: StructType,
    chosen: Choices,
    properties: Mapping[str, str] | None = None,
    *,
    companion: bool = False,
) -> SearchTable:
    """The search table for rows of a schema, created if it is not there; its fields must be those that are chosen."""
    engine()
    try:
        existing = SearchTable(store)
    except TableNotFoundError:
        existing = _created(store, schema, chosen, properties, companion)
    fields = fields_of(existing)
    columns = existing.schema()
    names = [*fields.names, *existing.partition_columns]
    for change in changed_columns(columns, schema, names):
        raise _does_not_fit(change, existing, companion)
    chosen_now = as_known(columns, schema)
    if chosen.is_given and not _choose(chosen_now, chosen, existing.partition_columns, companion).is_like(fields):
        raise UnsupportedFeatureError(
            f"the search table at {store.root_uri} indexes other columns, or in another way ({_words(fields)}); "
            "leave the choices out, or build another table"
        )
    if chosen.partition_columns and list(chosen.partition_columns) != existing.partition_columns:
        raise UnsupportedFeatureError(
            f"the search table at {store.root_uri} is partitioned by {existing.partition_columns or 'nothing'}"
        )
    return existing


def _does_not_fit(change: ChangedColumn, table: SearchTable, companion: bool) -> DeltaSidecarError:
    if companion:
        return UnsupportedFeatureError(f"{change}; {ANEW.format(uri=table.uri)}")
    return InputError(f"{table.uri}: {change}; {change.remedy}, or build another search table")


def _created(
    store: Store, schema: StructType, chosen: Choices, properties: Mapping[str, str] | None, companion: bool
) -> SearchTable:
    partitions = [schema.resolve([name])[0].name for name in chosen.partition_columns]
    for name in partitions:
        check_partition_type(name, arrow_type(schema.resolve([name])[0].type))
    fields = _choose(schema, chosen, partitions, companion)
    configuration = {**(properties or {}), FIELDS: fields.to_json()}
    if fields.time is not None:
        configuration[TIME_COLUMN] = fields.time
    columns = fields.columns_of(schema, partitions).to_json()
    create_table(store, columns, partitions, configuration=configuration, if_exists="use")
    return SearchTable(store)


def _choose(schema: StructType, chosen: Choices, partitions: Sequence[str], companion: bool) -> SplitFields:
    return SplitFields.choose(
        schema,
        text=chosen.text,
        key=chosen.key,
        time=chosen.time,
        filters=chosen.filters,
        stored=chosen.stored,
        analyzers=chosen.analyzers,
        partition_columns=partitions,
        companion=companion,
    )


def fields_of(table: SearchTable) -> SplitFields:
    """The fields that the splits of a table have.

    Raises:
        UnsupportedFeatureError: The table was made by another program, or without fields.
    """
    text = table.metadata.properties.get(FIELDS)
    if text is None:
        raise UnsupportedFeatureError(
            f"the search table at {table.uri} does not say which columns its splits index; create it with build_splits"
        )
    return SplitFields.parse(text, table.uri)


def _words(fields: SplitFields) -> str:
    return ", ".join(f"{one.name}: {one.analyzer or one.kind}{', stored' if one.stored else ''}" for one in fields)


# The rows.


class RowsHere:
    """Rows that this process reads."""

    engine = "process"

    def __init__(
        self, schema: StructType, batches: Callable[[Sequence[str]], Iterable[pa.RecordBatch]], count: int | None = None
    ) -> None:
        self.schema = schema
        self.batches = batches
        self.count = count

    def build(self, table: SearchTable, rows_per_split: int) -> list[Split]:
        fields = fields_of(table)
        columns = [self.schema.resolve([name])[0].name for name in [*fields.names, *table.partition_columns]]
        with SplitRolls(table.store, fields, table.partition_columns, rows=rows_per_split) as rolls:
            for batch in self.batches(columns):
                rolls.add(batch)
            return rolls.finish()


def _source(
    source: Any,
    store: Store,
    engine: str,
    spark: SparkSession | None,
    master: str | None,
    conf: Mapping[str, str] | None,
    source_format: str | None,
    read_options: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
    tell: Callable[[str], None],
    stack: ExitStack,
) -> Any:
    if isinstance(source, (str, os.PathLike)):
        from delta_sidecar.pipeline.sources import source_of

        place = source_of(source, source_format, read_options, storage_options)
        from delta_sidecar.search.splits.on_spark import check_columnar

        check_columnar(place)
        here = None if engine == "spark" else _files_here(place)
        if here is not None and (engine == "process" or (here.count or 0) <= PROCESS_ROWS):
            return here
        if engine == "process":
            raise OptionError(
                "a process reads Delta tables, and local Parquet files with the same columns; give --engine spark"
            )
        from delta_sidecar.search.splits.on_spark import rows_of_source

        tell("starting Spark")
        return rows_of_source(stack, place, store, spark, master, conf, storage_options)
    if hasattr(source, "sparkSession"):
        from delta_sidecar.search.splits.on_spark import RowsOfFrame

        return RowsOfFrame(source, store, storage_options)
    return _arrow(source)


def _arrow(source: Any) -> RowsHere:
    if isinstance(source, (pa.Table, pa.RecordBatch)):
        given = source
        batches = given.to_batches() if isinstance(given, pa.Table) else [given]
        return RowsHere(table_schema(given.schema), lambda columns: (batch.select(columns) for batch in batches))
    if not isinstance(getattr(source, "schema", None), pa.Schema):
        if not hasattr(source, "__arrow_c_stream__"):
            raise InputError(
                f"{type(source).__name__} is no source; give Arrow rows with a schema, a DataFrame that Arrow can "
                "read, a Spark DataFrame, or a location"
            )
        source = pa.RecordBatchReader.from_stream(source)
    return RowsHere(table_schema(source.schema), lambda columns: (batch.select(columns) for batch in source))


def _files_here(place: Source) -> RowsHere | None:
    """A Delta table or Parquet files, as this process reads them; None for other formats."""
    if place.format == "delta" and not place.options:
        table = DeltaTable(place.uri, storage_options=place.storage_options)
        return RowsHere(table.schema(), lambda columns: _closing(table.to_batches(list(columns))), table.count())
    if place.format == "parquet" and not place.options:
        return _parquet_here(place)
    return None


def _closing(stream: Any) -> Iterator[pa.RecordBatch]:
    with stream:
        yield from stream


def _parquet_here(place: Source) -> RowsHere | None:
    """Parquet files on this machine that have the same columns."""
    import pyarrow.parquet as pq

    location = parse_location(place.uri)
    if location.scheme != "file":
        return None
    root = Path(location.path)
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*.parquet") if _is_visible(p, root))
    if not files or any("=" in part for file in files for part in file.relative_to(root).parts[:-1]):
        return None
    footers = [pq.ParquetFile(file) for file in files]
    schema = footers[0].schema_arrow
    count = sum(footer.metadata.num_rows for footer in footers)
    alike = all(footer.schema_arrow.equals(schema) for footer in footers)
    for footer in footers:
        footer.close()
    if not alike:
        return None

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for file in files:
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(8192, columns=list(columns))

    return RowsHere(table_schema(schema), batches, count)


def _is_visible(path: Path, root: Path) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.relative_to(root).parts)
