"""Ingest: write a batch of events into a table of time buckets, each bucket in its own files, exactly once.

The table's bucket is a generated column, so every Spark writer fills it correctly. A batch is one Delta commit: a crash
before the commit adds nothing, and a batch number (`app_id`, `batch_id`) that was committed is never added again.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from uuid import uuid4

from delta_sidecar.errors import InputError, OptionError, SparkError, StorageError
from delta_sidecar.index.read.manifests import newest_index
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import transaction_version
from delta_sidecar.pipeline.bad_rows import (
    are_same_bad_rows,
    bad_rows_frame,
    bad_rows_to_add,
    count_bad_rows,
    write_bad_rows,
)
from delta_sidecar.pipeline.batch import Demands, Files, Input, Prepared, Target, prepare
from delta_sidecar.pipeline.bucketed_table import (
    TableBucket,
    bucket_of_arguments,
    check_bucket,
    create_table,
    finish_table,
    has_columns,
    load_table,
    time_type_of,
)
from delta_sidecar.pipeline.conflicts import CREATIONS, Conflict, Kind, RetryPolicy, until_committed
from delta_sidecar.pipeline.contract import schema_of, without
from delta_sidecar.pipeline.event_time import bucket_number, check_time_format, check_time_parser, time_name
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.file_layout import (
    DEFAULT_FILE_SIZE,
    SAMPLE_ROWS,
    hashable_columns,
    needs_estimate,
    plan_layout,
    sampled_bytes_per_row,
)
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.kafka import KafkaSource, is_kafka, kafka_source
from delta_sidecar.pipeline.kafka_frames import kafka_input, message_columns, read_kafka
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import set_storage_options, shuffle_partitions, temporary_settings
from delta_sidecar.pipeline.sources import Rows, Source, list_files, read_delta, settings_for_lines, source_of
from delta_sidecar.pipeline.written import Written, find_written, recent_bytes_per_row
from delta_sidecar.storage import open_store, parse_location
from delta_sidecar.storage.store import Store
from delta_sidecar.texts import counted
from delta_sidecar.values.bucket_columns import TimeType, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

IndexWhen: TypeAlias = Literal["checkpoint", "always", "never"]
INDEX_WHEN: tuple[IndexWhen, ...] = get_args(IndexWhen)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_SETTINGS = {
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
"""Whatever the session says: a timestamp is an instant, and days are those of the calendar that other readers use."""
_LARGEST_BATCH = 2**63 - 1
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """The result of a batch: the return value of `ingest`.

    Example:
        >>> from delta_sidecar.pipeline import ingest
        >>> summary = ingest("landing", "clicks", "ts", spark=spark)
        >>> summary.rows, summary.null_bucket_rows, summary.skipped_as_replayed
        (3, 1, False)
    """

    table: str
    rows: int | None
    """None if the table keeps no statistics."""
    null_bucket_rows: int | None
    """Rows without a time."""
    files: int
    bytes: int
    buckets: int
    version: int
    """The version of this batch's commit; the newest version if it added nothing."""
    skipped_as_replayed: bool
    """Whether the batch was already committed, so nothing was added."""
    indexed: bool
    seconds: float
    bad_rows: int = 0
    """Records that were put aside."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """The settings of every batch of an ingest."""

    table: str
    bucket: TableBucket
    target_file_size: int | None = DEFAULT_FILE_SIZE
    time_column: str = ""
    """The time column of the source; the bucket names the time column of the table."""
    time_format: str | None = None
    schema: StructType | str | None = None
    merge_schema: bool = False
    rescue: bool = False
    bad_rows: str | None = None
    table_properties: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    index: IndexWhen = "checkpoint"
    after_commit: Callable[[int], None] | None = None
    on_progress: Callable[[str], None] | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    """How often a batch that conflicts with another writer is retried."""
    if_another: str = "give it another --batch-id"
    """What to do about a batch that has the number of another."""

    def say(self, what: str) -> None:
        _log.info("%s: %s", self.table, what)
        if self.on_progress is not None:
            self.on_progress(what)

    def open_store(self) -> Store:
        return open_store(self.table, self.storage_options)

    @property
    def demands(self) -> Demands:
        """What is asked of every batch."""
        return Demands(
            time_column=self.time_column,
            granularity=self.bucket.granularity,
            bucket_column=self.bucket.column,
            schema=self.schema,
            merge=self.merge_schema,
            rescue=self.rescue,
            time_format=self.time_format,
            count=self.target_file_size is not None,
            allow_bad=self.bad_rows is not None,
            say=self.say,
        )

    @property
    def place(self) -> str:
        """The table in Spark's words."""
        return spark_uri(self.table, self.storage_options)


def ingest(
    source: DataFrame | KafkaSource | str | os.PathLike[str],
    table: str | os.PathLike[str],
    time_column: str,
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
    target_file_size: int | str | None = DEFAULT_FILE_SIZE,
    app_id: str | None = None,
    batch_id: int | None = None,
    table_properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    index: IndexWhen = "checkpoint",
    retry: RetryPolicy | None = None,
    after_commit: Callable[[int], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> IngestSummary:
    """Add a batch (a DataFrame, files at a path, or Kafka messages) to a table, and create the table if needed.

    The batch must fit one schema, the contract: `schema`, or else the table's, or else one inferred from the batch.

    Args:
        source: A DataFrame, a path or URI of files, or Kafka topics (`kafka://host/topic`, or what `kafka_source`
            returns).
        table: The location of the table: a local path or a URI such as `s3://bucket/events`.
        time_column: The column with the event time; may be a field inside a struct (`meta.ts`).
        spark: The session; that of the DataFrame, or of this process, if not given.
        bucket: The time that one bucket covers: `month`, `day`, `hour`, `minute` or `second`.
        bucket_column: The name of the bucket column, for a new table.
        source_format: `json`, `csv`, `parquet` or `delta`; recognised by the file names if not given.
        read_options: Spark's options for reading the files or topics.
        schema: The contract: a StructType, DDL, or Spark's JSON.
        time_format: `epoch-seconds`, `epoch-millis`, `epoch-micros`, `epoch-nanos`, or a Spark pattern.
        merge_schema: Add new columns of the batch to the table, instead of refusing the batch.
        rescue: Keep fields and values that do not fit the contract as JSON text in the column `_rescued`.
        bad_rows: The location of a Delta table for records that cannot be read; without it they stop the batch.
        target_file_size: Bytes, or text such as `128MB`; None never splits a bucket into several files.
        app_id: With `batch_id`, identifies the batch, which is then added only once, however often it is sent.
        batch_id: The number of the batch within `app_id`.
        table_properties: Properties of a new table.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        index: When to build the index: `checkpoint` (if the table has a new checkpoint), `always`, `never`.
        retry: How often the batch is tried again after a conflict with another writer.
        after_commit: Called with the version of the commit.
        on_progress: Called with one line of text whenever a step begins.

    Returns:
        An `IngestSummary`: rows, files, buckets and the version of the commit.

    Raises:
        InputError: The batch does not fit the contract; the message names the column or the record.
        OptionError: An argument is wrong.
        ConflictError: Other writers committed first, at every attempt; nothing was committed. Bad rows stay put
            aside; with `batch_id` a repeat does not add them again.
        SparkError: Spark is missing, or a Spark job failed.

    Example:
        >>> from delta_sidecar.pipeline import ingest
        >>> events = spark.sql("SELECT TIMESTAMP '2026-02-10 22:15:00' AS ts, 1 AS id")
        >>> done = ingest(events, "clicks", "ts", bucket="hour", app_id="loader", batch_id=1)
        >>> done.rows, done.buckets
        (1, 1)
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
    once = _once(app_id, batch_id)
    session = session_of(source, spark)
    if (messages := messages_of(source, read_options)) is not None:
        give_access(session, settings, None)
        given = kafka_input(read_kafka(session, messages), messages)
        return ingest_batch(session, given, with_message_columns(settings, messages), once)
    assert not isinstance(source, KafkaSource)
    if not isinstance(source, (str, os.PathLike)):
        give_access(session, settings, None)
        return ingest_batch(session, Rows.of(source, "the DataFrame"), settings, once)
    files = source_of(source, source_format, read_options, storage_options)
    give_access(session, settings, files)
    return ingest_batch(session, files_at(session, files), settings, once)


def messages_of(source: object, read_options: Mapping[str, str] | None) -> KafkaSource | None:
    """The topics that a source is; None if it is something else."""
    if isinstance(source, KafkaSource):
        return source
    if isinstance(source, str) and is_kafka(source):
        return kafka_source(source, options=read_options)
    return None


def with_message_columns(settings: IngestSettings, messages: KafkaSource) -> IngestSettings:
    """The settings; a schema that is given for the values gets the columns of the message that are asked for."""
    if settings.schema is None:
        return settings
    own, more = schema_of(settings.schema), message_columns(messages)
    fields = [*own.fields, *without(more, *own.names).fields]
    return replace(settings, schema=type(own)(fields))


def files_at(spark: SparkSession, source: Source) -> Input:
    """What a batch of everything at a place is made of."""
    if source.format == "delta":
        with spark_failures(f"{source.uri} cannot be read as delta"):
            return Rows.of(read_delta(spark, source), source.uri)
    return Files(source, list_files(spark, source))


def checked_settings(
    table: str | os.PathLike[str],
    time_column: str,
    *,
    bucket: str,
    bucket_column: str | None,
    target_file_size: int | str | None,
    time_format: str | None,
    schema: StructType | str | None,
    merge_schema: bool,
    rescue: bool,
    bad_rows: str | os.PathLike[str] | None,
    table_properties: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
    index: IndexWhen,
    retry: RetryPolicy | None,
    after_commit: Callable[[int], None] | None,
    on_progress: Callable[[str], None] | None,
) -> IngestSettings:
    """The arguments of an ingest, checked."""
    if index not in INDEX_WHEN:
        raise OptionError(f"index {index!r} is not one of {', '.join(INDEX_WHEN)}")
    check_time_format(time_format)
    place = parse_location(table)
    aside = None if bad_rows is None else parse_location(bad_rows)
    if aside is not None and (aside == place or place.relative(aside) is not None or aside.relative(place) is not None):
        raise OptionError("bad rows need a table of their own, which is neither inside the target table nor around it")
    return IngestSettings(
        table=place.text,
        bucket=bucket_of_arguments(time_name(time_column), bucket, bucket_column),
        target_file_size=None if target_file_size is None else bytes_of(target_file_size),
        time_column=time_column,
        time_format=time_format,
        schema=schema,
        merge_schema=merge_schema,
        rescue=rescue,
        bad_rows=None if aside is None else aside.text,
        table_properties=dict(table_properties or {}),
        storage_options=storage_options,
        index=index,
        retry=retry or RetryPolicy(),
        after_commit=after_commit,
        on_progress=on_progress,
    )


def bytes_of(size: int | str, what: str = "file size") -> int:
    """A number of bytes out of `128MB`, `1 GiB`, `5000000`; `what` names it in a message."""
    match = _SIZE.fullmatch(str(size).strip())
    count = 0 if match is None else int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].upper()])
    if count <= 0:
        raise OptionError(f"{what} {size!r} is not a size; write 128MB, 1GiB or a number of bytes")
    return count


def _once(app_id: str | None, batch_id: int | None) -> tuple[str, int] | None:
    if (app_id is None) != (batch_id is None):
        raise OptionError("app_id and batch_id must be given together")
    if app_id is None or batch_id is None:
        return None
    if batch_id < 0 or not app_id:
        raise OptionError("app_id must not be empty and batch_id not negative")
    if batch_id > _LARGEST_BATCH:
        raise OptionError(f"batch_id {batch_id} is too large; Delta counts batches up to {_LARGEST_BATCH}")
    return app_id, batch_id


def session_of(source: Any, spark: SparkSession | None) -> SparkSession:
    """The session of a frame, the one given, or the one this process has."""
    try:
        from pyspark.sql import SparkSession as Session
    except ModuleNotFoundError:
        raise SparkError("pyspark is not installed; run: pip install 'delta-sidecar[spark]'") from None
    session = spark or getattr(source, "sparkSession", None) or Session.getActiveSession()
    if session is None:
        raise InputError("no Spark session in this process; pass spark=…, or a DataFrame")
    return session


def give_access(spark: SparkSession, settings: IngestSettings, source: Source | None) -> None:
    """Give Spark the credentials that were passed; otherwise it uses its own. Local paths must also be reachable from
    the workers."""
    check_time_parser(spark, settings.time_format)
    if settings.storage_options:
        places = [settings.table, source.uri if source else None, settings.bad_rows]
        set_storage_options(spark, [place for place in places if place], settings.storage_options)
    for place in filter(None, (settings.table, settings.bad_rows)):
        check_reach(spark, place)


def ingest_batch(
    spark: SparkSession, source: Input, settings: IngestSettings, once: tuple[str, int] | None
) -> IngestSummary:
    """Write one batch and return its summary. If another writer commits first, try again."""
    batch = _Batch(spark, source, settings, once, settings.open_store())
    own = settings_for_lines(spark, source.source, source.files) if isinstance(source, Files) else {}
    with temporary_settings(spark, _SETTINGS | own):
        outcome = until_committed(
            batch.attempt,
            batch.committed,
            settings.retry,
            what=f"{settings.table}: the batch",
            may_retry=batch.may_retry,
            say=settings.say,
        )
    if isinstance(outcome, IngestSummary):
        return outcome
    return _summary(settings, outcome, _after_commit(spark, settings, batch, outcome), batch)


@dataclass(slots=True)
class _Batch:
    """A batch that is being written. Every attempt begins with the current state of the table."""

    spark: SparkSession
    source: Input
    settings: IngestSettings
    once: tuple[str, int] | None
    store: Store
    token: str = field(default_factory=lambda: f"delta-sidecar ingest {uuid4()}")
    """Marks the commit of this batch, whichever attempt makes it."""
    begun: float = field(default_factory=time.monotonic)
    snapshot: Snapshot | None = None
    """The table as the last attempt saw it."""
    before: int | None = None
    """The version before the first write; None while nothing was written."""
    bad_rows: int = 0
    """Records that were put aside."""
    asides: int = 0
    """Attempts that put records aside."""
    creations: int = 0
    """Attempts at which the location had files, but no table."""

    def attempt(self) -> Written | IngestSummary:
        """Write the batch; or the summary of why there was nothing to write."""
        settings, once = self.settings, self.once
        snapshot = self.snapshot = load_table(self.store)
        if snapshot is not None:
            check_bucket(snapshot, settings.bucket)
            if once is not None and _was_committed(snapshot, once):
                settings.say(f"batch {once[1]} of {once[0]} is already in the table")
                return _nothing(settings, snapshot.version, self.begun, replayed=True)
            if isinstance(self.source, Files) and not self.source.files:
                return _nothing(settings, snapshot.version, self.begun, replayed=False)
        batch = _prepared(self.spark, self.source, settings, snapshot)
        self._put_aside(batch)
        frame, time_type = batch.frame, batch.time.time_type
        if snapshot is None:
            settings.say("creating the table")
            snapshot = self.snapshot = self._created(frame.schema, time_type)
            check_bucket(snapshot, settings.bucket)
            if not has_columns(snapshot, frame.schema, settings.bucket):
                # Another writer was faster, with other columns: the frame must be made for those.
                return self.attempt()
        self.before = snapshot.version if self.before is None else self.before
        if not _write(batch, settings, snapshot, self.token, once):
            return _nothing(settings, snapshot.version, self.begun, replayed=False, bad_rows=self.bad_rows)
        return self.committed() or _nothing(settings, snapshot.version, self.begun, replayed=True)

    def _put_aside(self, batch: Prepared) -> None:
        """Write the bad rows first, and once, so none is lost even if the batch fails. An attempt after the first adds
        those that were not bad then: the table may have other types by now."""
        if batch.bad is None:
            self._check_none_aside()
            return
        assert self.settings.bad_rows is not None
        assert batch.survey is not None
        self.settings.say(f"writing {batch.survey.bad_rows:,} bad rows")
        name = self._aside_name
        place = spark_uri(self.settings.bad_rows, self.settings.storage_options)
        bad = bad_rows_frame(batch.bad, name)
        new = bad_rows_to_add(bad, place, name) if self.asides else bad
        again = f", attempt {self.asides + 1}" if self.asides else ""
        once = None if self.once is None else (f"{self.once[0]}{of_table(self.settings)}{again}", self.once[1])
        write_bad_rows(new, place, once, self.settings.retry)
        self.asides += 1
        if once is not None and not are_same_bad_rows(bad, place, name):
            raise InputError(
                f"{self.settings.table}: a batch with this number had other bad rows than the "
                f"{batch.survey.bad_rows:,} of this one, so this is another batch; {self.settings.if_another}"
            )
        self.bad_rows = batch.survey.bad_rows

    def _check_none_aside(self) -> None:
        """Refuse a batch without bad rows if bad rows of it were put aside: they may be rows of the batch by now."""
        if self.settings.bad_rows is None or not self._may_be_aside(self.settings.bad_rows):
            return
        place = spark_uri(self.settings.bad_rows, self.settings.storage_options)
        if count := count_bad_rows(self.spark, place, self._aside_name):
            raise InputError(
                f"{self.settings.table}: this batch has no bad rows, but {counted(count, 'bad row')} of it stand in "
                f"{self.settings.bad_rows}: its source or options were changed since; delete these rows there to write "
                "the batch as it is now"
            )

    def _may_be_aside(self, place: str) -> bool:
        if self.once is None:
            return self.asides > 0
        aside = load_table(open_store(place, self.settings.storage_options))
        known = None if aside is None else transaction_version(aside, f"{self.once[0]}{of_table(self.settings)}")
        return known is not None and known >= self.once[1]

    @property
    def _aside_name(self) -> str:
        """What this batch is called among bad rows."""
        return self.token if self.once is None else f"{self.once[0]}/{self.once[1]}{of_table(self.settings)}"

    def _created(self, schema: StructType, time_type: TimeType) -> Snapshot:
        """The table, made by us or by another writer at the same moment."""
        settings = self.settings
        for create in (create_table, finish_table):
            create(self.spark, settings.place, schema, settings.bucket, time_type, settings.table_properties)
            snapshot = load_table(self.store)
            if snapshot is not None:
                return snapshot
        raise SparkError(f"{settings.table} was created, but its log has no commit that can be read from here")

    def committed(self) -> Written | None:
        """What the commit of this batch added; None if no attempt made one."""
        if self.snapshot is None or self.before is None:
            return None
        return find_written(self.store, self.before, self.token, _physical(self.snapshot, self.settings.bucket))

    def may_retry(self, conflict: Conflict) -> bool:
        """Whether another attempt may succeed. The attempt itself checks that the rows fit a changed schema."""
        if conflict.kind not in (Kind.CREATION, Kind.SCHEMA):
            return True
        known, snapshot = self.snapshot, load_table(self.store)
        if conflict.kind is Kind.CREATION and snapshot is None:
            # Another writer's directory exists, but not its commit: it will come soon, or these are not files of a
            # table.
            self.creations += 1
            return self.creations <= CREATIONS
        return snapshot is not None and (known is None or snapshot.metadata != known.metadata)


def of_table(settings: IngestSettings) -> str:
    """What the name of an application ends with among bad rows: several tables may put theirs into one place, under the
    same numbers."""
    location = parse_location(settings.table)
    return f" of {os.path.realpath(location.path) if location.scheme == 'file' else settings.table}"


def _was_committed(snapshot: Snapshot, once: tuple[str, int]) -> bool:
    known = transaction_version(snapshot, once[0])
    return known is not None and known >= once[1]


def _physical(snapshot: Snapshot, bucket: TableBucket) -> str:
    field = snapshot.schema.find(bucket.column)
    assert field is not None
    return field.physical_name or field.name


def _prepared(spark: SparkSession, source: Input, settings: IngestSettings, snapshot: Snapshot | None) -> Prepared:
    """The batch as it will be written; its bucket is left to Delta."""
    target = None
    if snapshot is not None:
        schema = without(spark_schema(spark, settings), settings.bucket.column)
        target = Target(schema, time_type_of(snapshot, settings.bucket))
    return prepare(spark, source, settings.demands, target)


def spark_schema(spark: SparkSession, settings: IngestSettings) -> StructType:
    """The table's schema as Spark sees it."""
    with spark_failures(f"{settings.table} cannot be read"):
        return spark.read.format("delta").load(settings.place).schema


def _write(
    batch: Prepared, settings: IngestSettings, snapshot: Snapshot, token: str, once: tuple[str, int] | None
) -> bool:
    """Write the batch as one commit; False if it has no rows."""
    arranged = _arranged_by_file(batch, settings, snapshot)
    if arranged is None:
        return False
    options = {"userMetadata": token, "mergeSchema": str(batch.merge).lower(), "optimizeWrite": "false"}
    if once is not None:
        options |= {"txnAppId": once[0], "txnVersion": str(once[1])}
    with spark_failures(f"{settings.table}: the batch was not written"):
        arranged.write.format("delta").mode("append").options(**options).save(settings.place)
    return True


def _arranged_by_file(batch: Prepared, settings: IngestSettings, snapshot: Snapshot) -> DataFrame | None:
    """The frame with each row in the task that writes its file; None if there is no row."""
    from pyspark.sql import functions as f

    frame, target = batch.frame, settings.target_file_size
    number = bucket_number(quoted(batch.time.column), settings.bucket.granularity, batch.time.time_type)
    parallelism = shuffle_partitions(frame.sparkSession)
    if target is None or batch.survey is None:
        settings.say("writing")
        return frame.repartition(parallelism, f.expr(number))
    buckets = batch.survey.counted
    counts = buckets.rows
    if not counts:
        return None
    with spark_failures(f"{settings.table}: the source could not be counted"):
        width = _bytes_per_row(batch, snapshot) if needs_estimate(counts, target) else 0.0
    layout = plan_layout(counts, width, target, parallelism)
    settings.say(f"writing {sum(counts.values()):,} rows into {len(counts):,} buckets")
    if buckets.gathered and not layout.split:
        return frame
    return frame.repartitionById(layout.tasks, f.expr(layout.partition_sql(number, hashable_columns(frame))))


def _bytes_per_row(batch: Prepared, snapshot: Snapshot) -> float:
    known = recent_bytes_per_row(snapshot)
    if known is not None:
        return known
    return sampled_bytes_per_row(batch.first_rows() if batch.first_rows else batch.frame.limit(SAMPLE_ROWS))


def _after_commit(spark: SparkSession, settings: IngestSettings, batch: _Batch, written: Written) -> bool:
    """Build the index if requested, then call the caller's function. True if it was indexed; the batch stays committed
    either way."""
    version = _due_index(settings, batch, written)
    done = version is not None and _built(spark, settings, version)
    if settings.after_commit is not None:
        settings.after_commit(written.version)
    return done


def _due_index(settings: IngestSettings, batch: _Batch, written: Written) -> int | None:
    """The version to index: the commit, or the newest checkpoint, whoever made it, that has no index yet."""
    if settings.index != "checkpoint":
        return written.version if settings.index == "always" else None
    assert batch.snapshot is not None
    newest = max(written.checkpoint, batch.snapshot.segment.base_version)
    if newest < 0:
        return None
    try:
        head = max(newest, written.version)
        return newest if newest > newest_index(batch.store, batch.snapshot.protocol, head) else None
    except StorageError as error:
        _log.warning("%s: cannot tell whether its newest checkpoint is indexed: %s", settings.table, error)
        return None


def _built(spark: SparkSession, settings: IngestSettings, version: int) -> bool:
    """Build the index, and only log a failure: without an index the table is slower, not wrong, and the next build
    catches up.

    An error here would look as if the batch were not in the table, and it would be sent again.
    """
    from delta_sidecar.pipeline.spark_build import build_index

    settings.say(f"indexing version {version}")
    try:
        build_index(settings.table, version, storage_options=settings.storage_options, spark=spark)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        _log.warning("%s: the batch is committed, but version %d is not indexed: %s", settings.table, version, reason)
        settings.say(f"the batch is committed, but version {version} is not indexed: {reason}")
        return False
    return True


def _summary(settings: IngestSettings, written: Written, indexed: bool, batch: _Batch) -> IngestSummary:
    return IngestSummary(
        table=settings.table,
        rows=written.rows,
        null_bucket_rows=written.null_rows,
        files=written.files,
        bytes=written.bytes,
        buckets=written.buckets,
        version=written.version,
        skipped_as_replayed=False,
        indexed=indexed,
        seconds=time.monotonic() - batch.begun,
        bad_rows=batch.bad_rows,
    )


def _nothing(settings: IngestSettings, version: int, begun: float, replayed: bool, bad_rows: int = 0) -> IngestSummary:
    return IngestSummary(
        table=settings.table,
        rows=0,
        null_bucket_rows=0,
        files=0,
        bytes=0,
        buckets=0,
        version=version,
        skipped_as_replayed=replayed,
        indexed=False,
        seconds=time.monotonic() - begun,
        bad_rows=bad_rows,
    )
