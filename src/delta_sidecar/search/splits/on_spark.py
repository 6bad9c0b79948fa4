"""Build splits on Spark: each task writes its rows into splits beside the log, the driver commits their receipts."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.contract import ORIGIN
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.ingest_job import session_of
from delta_sidecar.pipeline.parquet_rows import read_rows
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import set_storage_options, spark_session
from delta_sidecar.pipeline.shipping import ship
from delta_sidecar.pipeline.sources import (
    File,
    Source,
    files_of,
    list_files,
    read_delta,
    source_of,
    stream_files,
)
from delta_sidecar.pipeline.streaming import query_id
from delta_sidecar.search.log.actions import Split, from_wire, to_wire
from delta_sidecar.search.splits.fields import SplitFields
from delta_sidecar.search.splits.rolls import SplitRolls
from delta_sidecar.search.table import SearchTable
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import parse_location
from delta_sidecar.values.bucket_columns import quoted
from delta_sidecar.values.types import StructType, parse_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from delta_sidecar.search.splits.building import SplitsReport

_RECEIPT: Final = "receipt binary"


@dataclass(frozen=True)
class SplitTask:
    """A build as its tasks know it. `write` is what `mapInArrow` calls."""

    uri: str
    storage_options: Mapping[str, str] | None = field(repr=False)
    fields: str
    partition_columns: tuple[str, ...]
    rows_per_split: int

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Splits of the rows, and a receipt for each."""
        store = open_store(self.uri, self.storage_options)
        fields = SplitFields.parse(self.fields)
        with SplitRolls(store, fields, self.partition_columns, rows=self.rows_per_split) as rolls:
            for batch in batches:
                rolls.add(batch)
            made = rolls.finish()
        receipts = [msgspec.json.encode(to_wire(split)) for split in made]
        yield pa.RecordBatch.from_arrays([arrays.binaries(receipts)], names=["receipt"])


class RowsOfFrame:
    """The rows of a DataFrame."""

    engine = "spark"

    def __init__(self, frame: DataFrame, store: Store, storage_options: Mapping[str, str] | None) -> None:
        self._frame = frame
        self._store = store
        self._storage_options = storage_options

    @property
    def schema(self) -> StructType:
        return parse_schema(self._frame.schema.json())

    def build(self, table: SearchTable, rows_per_split: int) -> list[Split]:
        """Write splits in tasks: one for each that has rows, more where one would have too many."""
        from delta_sidecar.search.splits.building import fields_of

        spark, fields = self._frame.sparkSession, fields_of(table)
        uri = parse_location(self._store.root_uri).text
        check_reach(spark, uri)
        ship(spark)
        task = SplitTask(uri, self._storage_options, fields.to_json(), tuple(table.partition_columns), rows_per_split)
        columns = [self.schema.resolve([name])[0].name for name in [*fields.names, *table.partition_columns]]
        with spark_failures(f"{uri}: the splits were not built"):
            rows = self._frame.select(*[quoted(name) for name in columns])
            receipts = _divided(rows, rows_per_split, table.partition_columns).mapInArrow(task.write, _RECEIPT)
            found = receipts.toArrow().column("receipt").to_pylist()
        return [from_wire(Split, msgspec.json.decode(receipt), uri) for receipt in found]


def _divided(rows: DataFrame, rows_per_split: int, partition_columns: Sequence[str]) -> DataFrame:
    """As many tasks as there should be splits, if Spark would make more; rows of one partition in one task.

    The number of splits needs the number of rows. Files and Delta tables tell it without being read; a frame that is
    computed is computed for it once more, unless it has one task anyway.
    """
    if partition_columns:
        names = [quoted(name) for name in partition_columns]
        return rows.repartition(*names).sortWithinPartitions(*names)
    parts = rows.rdd.getNumPartitions() if not _is_connect(rows) else None
    if parts is not None and parts <= 1:
        return rows
    wanted = max(1, math.ceil(rows.count() / rows_per_split))
    return rows if parts is not None and parts <= wanted else rows.coalesce(wanted)


def _is_connect(rows: DataFrame) -> bool:
    return type(rows).__module__.startswith("pyspark.sql.connect")


def rows_of_source(
    stack: ExitStack,
    source: Source,
    store: Store,
    spark: SparkSession | None,
    master: str | None,
    conf: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
) -> RowsOfFrame:
    """The rows of files or of a Delta table, in a session that is given or started."""
    uris = [source.uri, store.root_uri]
    if spark is None:
        spark = stack.enter_context(spark_session(master, conf, storage_options, uris, app_name="delta-sidecar splits"))
    elif storage_options:
        set_storage_options(spark, uris, storage_options)
    with spark_failures(f"{source.uri} cannot be read as {source.format}"):
        is_delta = source.format == "delta"
        frame = read_delta(spark, source) if is_delta else _rows_of_files(spark, source, list_files(spark, source))
    return RowsOfFrame(frame, store, storage_options)


def _rows_of_files(spark: SparkSession, source: Source, files: Sequence[File]) -> DataFrame:
    """The rows of Parquet files whose columns may differ, but not in their types."""
    frames = [rows.frame.drop(ORIGIN) for rows in read_rows(spark, source, files)]
    if not frames:
        raise InputError(f"{source.uri} has no Parquet files; give a directory that has some")
    types: dict[str, str] = {}
    for frame in frames:
        for name, kind in frame.dtypes:
            if types.setdefault(name, kind) != kind:
                raise InputError(
                    f"{source.uri}: column {name} is {types[name]} in some files and {kind} in others; add them to a "
                    "Delta table with `sidecar ingest`, and build on that table"
                )
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def stream_splits(
    source: DataFrame | str | os.PathLike[str],
    table: str | os.PathLike[str],
    checkpoint_location: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    source_format: str | None = None,
    read_options: Mapping[str, str] | None = None,
    available_now: bool = True,
    processing_time: str | None = None,
    app_id: str | None = None,
    on_batch: Callable[[SplitsReport], None] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **choices: Any,
) -> StreamingQuery:
    """Start a stream into a search table, each micro-batch one commit, exactly once, and return the query.

    Args:
        source: A streaming DataFrame, or the location of a Delta table that is only appended to, or of Parquet files:
            then each batch has what is new there.
        table: The location of the search table; it is created if it is not there.
        checkpoint_location: Where Spark keeps the progress of the stream. With another location it starts over.
        spark: The session; the active one if not given.
        source_format: `delta` or `parquet`, if the names at the location do not show it.
        read_options: Options of Spark's reader, such as `maxFilesPerTrigger`.
        available_now: If true, the query ends when it has read everything; otherwise it runs until it is stopped.
        processing_time: The time between batches (`10 seconds`) if `available_now` is false.
        app_id: Names the application in the log, beside the id that Spark keeps in the checkpoint location.
        on_batch: Called with the `SplitsReport` of each batch.
        storage_options: Credentials and settings of the object store.
        choices: Which columns are indexed, and how: `text`, `key`, `time`, `filters`, `stored`, `analyzers`,
            `partition_columns`, `rows_per_split`, as of `build_splits`.

    Raises:
        InputError: The DataFrame is not a stream, or the files are not Parquet.
        SparkError: There is no session, or the stream did not start.

    Example:
        >>> from pathlib import Path
        >>> from delta_sidecar.pipeline import await_end
        >>> from delta_sidecar.search import SearchTable, stream_splits
        >>> lines = spark.readStream.schema("id long, ts timestamp").json(str(Path("landing").resolve()))
        >>> await_end(stream_splits(lines, "logs", "progress", key=["id"]))
        >>> sum(split.numRecords for split in SearchTable("logs").splits())
        3
    """
    frame, files = _stream(source, spark, source_format, read_options, storage_options)
    place = spark_uri(checkpoint_location, storage_options)
    step = _Step(os.fspath(table), place, app_id, on_batch, storage_options, choices, files)
    writer = frame.writeStream.foreachBatch(step).option("checkpointLocation", place)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif processing_time:
        writer = writer.trigger(processingTime=processing_time)
    with spark_failures(f"{os.fspath(table)}: the stream did not start"):
        return writer.start()


def _stream(
    source: DataFrame | str | os.PathLike[str],
    spark: SparkSession | None,
    source_format: str | None,
    read_options: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
) -> tuple[DataFrame, Source | None]:
    """The stream, and the source whose files it names, if it is one of names."""
    if not isinstance(source, (str, os.PathLike)):
        if not source.isStreaming:
            raise InputError("the DataFrame is not a stream; make it with spark.readStream, or use build_splits")
        return source, None
    place = source_of(source, source_format, read_options, storage_options)
    check_columnar(place)
    spark = session_of(source, spark)
    if storage_options:
        set_storage_options(spark, [place.uri], storage_options)
    if place.format != "delta":
        return stream_files(spark, place), place
    with spark_failures(f"{place.uri} cannot be read as a stream of delta"):
        return spark.readStream.format("delta").options(**place.options).load(place.place), None


def check_columnar(source: Source) -> None:
    """Refuse files of texts."""
    if source.is_text:
        raise InputError(
            f"{source.uri} holds {source.format} files, whose records may not parse or not fit; add them to a Delta "
            "table with `sidecar ingest`, which loses none, and build on that table"
        )


@dataclass(slots=True)
class _Step:
    """What is done with each micro-batch."""

    table: str
    checkpoint: str
    app_id: str | None
    on_batch: Callable[[SplitsReport], None] | None
    storage_options: Mapping[str, str] | None
    choices: Mapping[str, Any]
    files: Source | None = None
    """The source, where the stream is one of its file names."""
    known: list[str] = field(default_factory=list)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        from delta_sidecar.search.splits.building import build_splits

        if not self.known:
            # Numbers count within one checkpoint: those of another under the same name are other batches.
            self.known.append(f"{self.app_id or 'delta-sidecar'}-{query_id(batch.sparkSession, self.checkpoint)}")
        rows = batch if self.files is None else _rows_of_files(batch.sparkSession, self.files, files_of(batch))
        report = build_splits(
            rows,
            self.table,
            app_id=self.known[0],
            batch_id=batch_id,
            storage_options=self.storage_options,
            **self.choices,
        )
        if self.on_batch is not None:
            self.on_batch(report)
