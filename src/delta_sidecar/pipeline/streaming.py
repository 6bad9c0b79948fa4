"""Ingest without an end: structured streaming, each micro-batch one commit, exactly once.

A micro-batch that Spark runs again after a crash has the number it had before, and is then not added again. Numbers
count within one checkpoint location, so the application they belong to is the query that is written down there: with a
new checkpoint begins a new count.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from delta_sidecar.errors import InputError
from delta_sidecar.log.travel import newest_transaction
from delta_sidecar.pipeline.batch import Files, Input
from delta_sidecar.pipeline.bucketed_table import check_bucket, load_table
from delta_sidecar.pipeline.conflicts import RetryPolicy
from delta_sidecar.pipeline.event_time import event_time
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.file_layout import DEFAULT_FILE_SIZE
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.ingest_job import (
    IndexWhen,
    IngestSettings,
    IngestSummary,
    checked_settings,
    give_access,
    ingest_batch,
    messages_of,
    of_table,
    session_of,
    with_message_columns,
)
from delta_sidecar.pipeline.kafka import KafkaSource
from delta_sidecar.pipeline.kafka_frames import kafka_input, read_kafka_stream
from delta_sidecar.pipeline.sources import Rows, Source, files_of, source_of, stream_files
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

_IF_ANOTHER: Final = (
    "restart the stream with the source and the options that it had then, or with another --bad-rows place (bad_rows=…)"
)
"""A stream that is broken off between its bad rows and its batch takes the batch again, under the same number."""


def ingest_stream(
    source: DataFrame | KafkaSource | str | os.PathLike[str],
    table: str | os.PathLike[str],
    time_column: str,
    checkpoint_location: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    bucket: str = "hour",
    bucket_column: str | None = None,
    source_format: str | None = None,
    read_options: Mapping[str, str] | None = None,
    schema: StructType | str | None = None,
    time_format: str | None = None,
    merge_schema: bool = False,
    rescue: bool = False,
    bad_rows: str | os.PathLike[str] | None = None,
    available_now: bool = True,
    processing_time: str | None = None,
    target_file_size: int | str | None = DEFAULT_FILE_SIZE,
    app_id: str | None = None,
    table_properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    index: IndexWhen = "checkpoint",
    retry: RetryPolicy | None = None,
    after_commit: Callable[[int], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_batch: Callable[[IngestSummary], None] | None = None,
) -> StreamingQuery:
    """Start a stream (a streaming DataFrame, files at a path, or Kafka messages) into a table, and return the query.

    Each micro-batch is one commit. It must fit the contract as it is at that moment, and is added only once even if
    Spark runs it again. Arguments that are not listed are those of `ingest`.

    Args:
        source: A streaming DataFrame, a path or URI of files, or Kafka topics.
        table: The location of the table: a local path or a URI such as `s3://bucket/events`.
        time_column: The column with the event time.
        checkpoint_location: Where Spark keeps the progress of the stream. With another location it starts over.
        available_now: If true, the query ends when it has read everything; otherwise it runs until it is stopped.
        processing_time: The time between batches (`10 seconds`) if `available_now` is false; if not given, batches
            follow each other at once.
        app_id: Names the application in the table's transactions, beside the id that Spark keeps in the checkpoint
            location. A query keeps the name that it began with.
        on_batch: Called with the `IngestSummary` of each batch.

    Returns:
        Spark's `StreamingQuery`; `await_end` waits for it.

    Raises:
        InputError: The DataFrame is not a stream, or does not fit the contract.
        OptionError: An argument is wrong.
        SparkError: Spark is missing, or the stream did not start.

    Example:
        >>> from delta_sidecar.pipeline import await_end, ingest_stream
        >>> batches = []
        >>> query = ingest_stream("landing", "clicks", "ts", "progress", spark=spark, on_batch=batches.append)
        >>> await_end(query)
        >>> [batch.rows for batch in batches]
        [3]
    """
    settings = checked_settings(
        table,
        time_column,
        bucket=bucket,
        bucket_column=bucket_column,
        target_file_size=target_file_size,
        time_format=time_format,
        schema=schema,
        merge_schema=merge_schema,
        rescue=rescue,
        bad_rows=bad_rows,
        table_properties=table_properties,
        storage_options=storage_options,
        index=index,
        retry=retry,
        after_commit=after_commit,
        on_progress=on_progress,
    )
    settings = replace(settings, if_another=_IF_ANOTHER)
    session = session_of(source, spark)
    files: Source | None = None
    if (messages := messages_of(source, read_options)) is not None:
        frame = _message_stream(session, messages, settings)
        settings = with_message_columns(settings, messages)
    else:
        assert not isinstance(source, KafkaSource)
        frame, files = _stream(session, source, settings, source_format, read_options)
    place = spark_uri(checkpoint_location, storage_options)
    step = _Step(settings, place, app_id, on_batch, files, messages and messages.without_secrets())
    writer = frame.writeStream.foreachBatch(step).option("checkpointLocation", place)
    writer = writer.trigger(availableNow=True) if available_now else _continuous(writer, processing_time)
    with spark_failures(f"{settings.table}: the stream did not start"):
        return writer.start()


def await_end(query: StreamingQuery, stop: Callable[[], bool] | None = None) -> None:
    """Wait until a stream has ended, or stop it when `stop` returns true. If a batch failed, its error is raised.

    Args:
        query: What `ingest_stream` returned.
        stop: Called once a second; the query is stopped when it returns true.

    Raises:
        DeltaSidecarError: What a batch failed with; `SparkError` where Spark itself failed.

    Example:
        >>> from delta_sidecar.pipeline import await_end, ingest_stream
        >>> query = ingest_stream("landing", "clicks", "ts", "progress", spark=spark, available_now=False)
        >>> await_end(query, stop=lambda: True)
        >>> query.isActive
        False
    """
    with spark_failures("the stream broke off"):
        while not query.awaitTermination(1):
            if stop is not None and stop():
                query.stop()


def _continuous(writer: Any, processing_time: str | None) -> Any:
    return writer.trigger(processingTime=processing_time) if processing_time else writer


def _message_stream(spark: SparkSession, messages: KafkaSource, settings: IngestSettings) -> DataFrame:
    _check_table(settings)
    give_access(spark, settings, None)
    return read_kafka_stream(spark, messages)


def _check_table(settings: IngestSettings) -> None:
    snapshot = load_table(settings.open_store())
    if snapshot is not None:
        check_bucket(snapshot, settings.bucket)


def _stream(
    spark: SparkSession,
    source: DataFrame | str | os.PathLike[str],
    settings: IngestSettings,
    source_format: str | None,
    read_options: Mapping[str, str] | None,
) -> tuple[DataFrame, Source | None]:
    """The stream, and the source whose files it names. What is known to be wrong is reported now, not by a batch."""
    _check_table(settings)
    if not isinstance(source, (str, os.PathLike)):
        give_access(spark, settings, None)
        if not source.isStreaming:
            raise InputError("the DataFrame is not a stream; make it with spark.readStream, or use ingest")
        event_time(source.schema, settings.time_column, "the stream", settings.time_format)
        return source, None
    files = source_of(source, source_format, read_options, settings.storage_options)
    give_access(spark, settings, files)
    if files.format != "delta":
        return stream_files(spark, files), files
    with spark_failures(f"{files.uri} cannot be read as a stream of delta"):
        frame = spark.readStream.format("delta").options(**files.options).load(files.place)
    event_time(frame.schema, settings.time_column, files.uri, settings.time_format)
    return frame, None


@dataclass(slots=True)
class _Step:
    """What is done with each micro-batch."""

    settings: IngestSettings
    checkpoint: str
    app_id: str | None
    on_batch: Callable[[IngestSummary], None] | None
    files: Source | None = None
    """The source, where the stream is one of its file names."""
    messages: KafkaSource | None = None
    """The source, where the stream is one of messages."""
    known: list[str] = field(default_factory=list)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        spark = batch.sparkSession
        if not self.known:
            self.known.append(self._name(query_id(spark, self.checkpoint)))
        summary = ingest_batch(spark, self._input(batch), self.settings, (self.known[0], batch_id))
        if self.on_batch is not None:
            self.on_batch(summary)

    def _name(self, query: str) -> str:
        """What the batches are numbered under, for numbers count within one checkpoint: the name that the query began
        with, for a batch that Spark runs again must be known also if `app_id` is another by now."""
        settings = self.settings
        known = _application(settings.open_store(), f"-{query}")
        if known is None and settings.bad_rows is not None:
            # A batch that was broken off may have put its bad rows aside, and no more.
            aside = open_store(settings.bad_rows, settings.storage_options)
            known = _application(aside, f"-{query}{of_table(settings)}")
        return f"{known or self.app_id or 'delta-sidecar-ingest'}-{query}"

    def _input(self, batch: DataFrame) -> Input:
        if self.messages is not None:
            return kafka_input(batch, self.messages)
        return Rows.of(batch, "the stream") if self.files is None else Files(self.files, files_of(batch))


def _application(store: Store, ending: str) -> str | None:
    """The application whose name in a table's transactions has that ending; None if there is none."""
    snapshot = load_table(store)
    known = None if snapshot is None else newest_transaction(snapshot, lambda name: name.endswith(ending))
    return None if known is None else known.appId.removesuffix(ending)


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """The query's id, from where Spark keeps it: the same after a restart, another with another checkpoint."""
    with spark_failures(f"{checkpoint}: the stream's own metadata cannot be read"):
        text = spark.read.text(f"{checkpoint}/metadata").first()
    if text is None:
        raise InputError(f"{checkpoint}/metadata is empty; give another checkpoint location")
    return str(json.loads(text[0])["id"])
