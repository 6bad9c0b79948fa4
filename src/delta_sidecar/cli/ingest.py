"""`sidecar ingest`: add events to a table of time buckets, with Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from delta_sidecar.cli.output import write_facts, write_json
from delta_sidecar.cli.progress import Progress
from delta_sidecar.cli.stop_signals import stopped_by_signals
from delta_sidecar.errors import OptionError
from delta_sidecar.pipeline.bucketed_table import bucket_of_arguments, check_bucket, load_table
from delta_sidecar.pipeline.event_time import check_time_format, time_name
from delta_sidecar.pipeline.ingest_job import INDEX_WHEN, IndexWhen, IngestSummary, bytes_of, ingest
from delta_sidecar.pipeline.kafka import KafkaSource, check_reading, is_kafka, kafka_source
from delta_sidecar.pipeline.session import spark_session
from delta_sidecar.pipeline.sources import source_of
from delta_sidecar.pipeline.streaming import await_end, ingest_stream
from delta_sidecar.storage import open_store
from delta_sidecar.texts import counted, sized


@dataclass(frozen=True, slots=True)
class Messages:
    """The options for Kafka messages."""

    value_format: str | None = None
    columns: str | None = None
    starting_offsets: str | None = None
    ending_offsets: str | None = None
    avro_schemas: Sequence[str] = ()
    config_file: str | None = None

    def source(self, uri: str, read_options: Mapping[str, str]) -> KafkaSource:
        """The topics that `uri` names."""
        columns = [name.strip() for name in (self.columns or "").split(",") if name.strip()]
        return kafka_source(
            uri,
            value_format=self.value_format or "json",
            columns=columns,
            starting_offsets=self.starting_offsets,
            ending_offsets=self.ending_offsets,
            avro_schemas=self.avro_schemas,
            config_file=self.config_file,
            options=read_options,
        )

    def check_unused(self, source: str) -> None:
        """Refuse options for messages if the source is not a topic."""
        if self != Messages():
            raise OptionError(
                "--value-format, --kafka-columns, --starting-offsets, --ending-offsets, --avro-schema and "
                f"--kafka-config are only for kafka:// and eventhubs:// sources, not for {source}"
            )


@dataclass(frozen=True, slots=True)
class Order:
    """The arguments of the command."""

    source: str
    table: str
    time_column: str
    bucket: str = "hour"
    bucket_column: str | None = None
    file_format: str | None = None
    read_options: Mapping[str, str] = field(default_factory=dict)
    target_file_size: str = "128MB"
    schema_file: str | None = None
    time_format: str | None = None
    merge_schema: bool = False
    rescue: bool = False
    bad_rows: str | None = None
    app_id: str | None = None
    batch_id: int | None = None
    table_properties: Mapping[str, str] = field(default_factory=dict)
    index: IndexWhen = "checkpoint"
    stream: bool = False
    checkpoint_location: str | None = None
    every: str | None = None
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    messages: Messages = Messages()

    @property
    def topics(self) -> KafkaSource | None:
        """The source, if it is topics."""
        return self.messages.source(self.source, self.read_options) if is_kafka(self.source) else None

    @property
    def input(self) -> KafkaSource | str:
        return self.topics or self.source

    def check(self) -> None:
        """Check the arguments before Spark starts."""
        bytes_of(self.target_file_size)
        check_time_format(self.time_format)
        self.schema  # noqa: B018 - report an unreadable file before Spark starts
        if self.stream and self.checkpoint_location is None:
            raise OptionError("--stream needs --checkpoint-location, where Spark keeps the progress of the stream")
        if self.stream and self.batch_id is not None:
            raise OptionError("--batch-id is for a single batch; a stream numbers its batches itself")
        if not self.stream and (self.checkpoint_location is not None or self.every is not None):
            raise OptionError("--checkpoint-location and --every need --stream")
        if not self.stream and (self.app_id is None) != (self.batch_id is None):
            raise OptionError("--app-id and --batch-id must be given together")
        self._check_source()
        bucket = bucket_of_arguments(time_name(self.time_column), self.bucket, self.bucket_column)
        table = load_table(open_store(self.table, self.storage_options))
        if table is not None:
            check_bucket(table, bucket)

    def _check_source(self) -> None:
        topics = self.topics
        if topics is None:
            self.messages.check_unused(self.source)
            source_of(self.source, self.file_format, self.read_options, self.storage_options)
            return
        if self.file_format is not None:
            raise OptionError("--format is for files; messages have --value-format")
        check_reading(topics, self.stream)

    @property
    def schema(self) -> str | None:
        """The text of the schema file."""
        if self.schema_file is None:
            return None
        try:
            return Path(self.schema_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise OptionError(f"--schema {self.schema_file} cannot be read: {reason}") from None

    @property
    def shared(self) -> dict[str, Any]:
        """The arguments of both kinds of ingest."""
        return {
            "bucket": self.bucket,
            "bucket_column": self.bucket_column,
            "source_format": self.file_format,
            "read_options": self.read_options,
            "target_file_size": self.target_file_size,
            "app_id": self.app_id,
            "schema": self.schema,
            "time_format": self.time_format,
            "merge_schema": self.merge_schema,
            "rescue": self.rescue,
            "bad_rows": self.bad_rows,
            "table_properties": self.table_properties,
            "storage_options": self.storage_options,
            "index": self.index,
        }


def index_when(text: str) -> IndexWhen:
    """The choice of that name."""
    choice = next((name for name in INDEX_WHEN if name == text), None)
    if choice is None:
        raise OptionError(f"--index {text!r} is not one of {', '.join(INDEX_WHEN)}")
    return choice


def run(order: Order, master: str | None, conf: Mapping[str, str], as_json: bool, verbose: bool) -> None:
    """Run the ingest in a new Spark session."""
    order.check()
    uris = [order.source, order.table, *filter(None, (order.checkpoint_location, order.bad_rows))]
    with Progress() as progress:
        progress.say("starting Spark")
        with spark_session(master, conf, order.storage_options, uris, "delta-sidecar ingest", verbose) as spark:
            progress.watch(spark)
            summaries = (_streamed if order.stream else _batch)(spark, order, progress, as_json)
    if not as_json:
        write_facts(_lines(summaries))


def _batch(spark: Any, order: Order, progress: Progress, as_json: bool) -> list[IngestSummary]:
    done = ingest(
        order.input, order.table, order.time_column, spark=spark, batch_id=order.batch_id,
        on_progress=progress.say, **order.shared,
    )  # fmt: skip
    if as_json:
        write_json(msgspec.to_builtins(done))
    return [done]


def _streamed(spark: Any, order: Order, progress: Progress, as_json: bool) -> list[IngestSummary]:
    """The summaries of all batches, until the stream ends or is stopped."""
    summaries: list[IngestSummary] = []

    def on_batch(done: IngestSummary) -> None:
        summaries.append(done)
        if as_json:
            write_json(msgspec.to_builtins(done))

    assert order.checkpoint_location is not None
    with stopped_by_signals() as stop:
        query = ingest_stream(
            order.input, order.table, order.time_column, order.checkpoint_location, spark=spark,
            available_now=order.every is None, processing_time=order.every,
            on_progress=progress.say, on_batch=on_batch, **order.shared,
        )  # fmt: skip
        await_end(query, stop.is_set)
    return summaries


def _lines(summaries: list[IngestSummary]) -> Iterator[tuple[str, str]]:
    if not summaries:
        yield "batches", "0: nothing is new"
        return
    yield "table", summaries[-1].table
    if len(summaries) > 1:
        yield "batches", f"{len(summaries):,}"
    yield "version", str(summaries[-1].version)
    rows = [done.rows for done in summaries]
    yield "rows", "unknown: the table keeps no statistics" if None in rows else f"{sum(filter(None, rows)):,}"
    if nulls := sum(done.null_bucket_rows or 0 for done in summaries):
        yield "without a time", f"{counted(nulls, 'row')}, in the null bucket"
    if bad := sum(done.bad_rows for done in summaries):
        yield "bad rows", f"{bad:,}, written to the bad-row table"
    yield "files", f"{sum(done.files for done in summaries):,}, {sized(sum(done.bytes for done in summaries))}"
    yield "buckets", f"{sum(done.buckets for done in summaries):,}"
    if replayed := sum(done.skipped_as_replayed for done in summaries):
        yield "skipped", f"{replayed:,}: already in the table"
    yield "indexed", "yes" if summaries[-1].indexed else "no"
    yield "seconds", f"{sum(done.seconds for done in summaries):.1f}"
