"""Ingest: a batch of events into a table of time buckets, each bucket in files of its own, exactly once.

The table's bucket is a generated column, so any writer fills it right. A batch is one Delta commit: a crash before it
leaves nothing behind, and a batch with a number (`app_id`, `batch_id`) that was committed once is never added again.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args
from uuid import uuid4

from delta_sidecar.errors import InputError, OptionError
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import transaction_version
from delta_sidecar.pipeline.bucketed_table import (
    Bucket,
    bucket_of_arguments,
    check_bucket,
    check_columns,
    create_table,
    load_table,
    time_type_of,
)
from delta_sidecar.pipeline.event_time import bucket_number, with_time
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.layout import (
    count_buckets,
    hashable_columns,
    needs_estimate,
    plan_layout,
    sampled_bytes_per_row,
)
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import set_storage_options
from delta_sidecar.pipeline.sources import Source, read_source, source_of
from delta_sidecar.pipeline.written import Written, find_written, recent_bytes_per_row
from delta_sidecar.storage import open_store, parse_location
from delta_sidecar.storage.store import Store
from delta_sidecar.values.bucket import TimeType, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)

IndexWhen: TypeAlias = Literal["checkpoint", "always", "never"]
INDEX_WHEN: tuple[IndexWhen, ...] = get_args(IndexWhen)
DEFAULT_FILE_SIZE = 128_000_000
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What a batch did."""

    table: str
    rows: int | None
    """None where the table keeps no statistics."""
    null_bucket_rows: int | None
    """Rows without a time, or with text that is none."""
    files: int
    bytes: int
    buckets: int
    version: int
    """The commit of this batch; the newest version if it added nothing."""
    skipped_as_replayed: bool
    """The batch had been committed before, and nothing was added."""
    indexed: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for every batch of an ingest."""

    table: str
    bucket: Bucket
    target_file_size: int | None = DEFAULT_FILE_SIZE
    merge_schema: bool = False
    table_properties: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    index: IndexWhen = "checkpoint"
    after_commit: Callable[[int], None] | None = None
    on_progress: Callable[[str], None] | None = None

    def say(self, what: str) -> None:
        _log.info("%s: %s", self.table, what)
        if self.on_progress is not None:
            self.on_progress(what)

    def open_store(self) -> Store:
        return open_store(self.table, self.storage_options)

    @property
    def place(self) -> str:
        """The table in Spark's words."""
        return spark_uri(self.table, self.storage_options)


def ingest(
    source: DataFrame | str | os.PathLike[str],
    table: str | os.PathLike[str],
    time_column: str,
    *,
    spark: SparkSession | None = None,
    bucket: str = "hour",
    bucket_column: str | None = None,
    source_format: str | None = None,
    read_options: Mapping[str, str] | None = None,
    target_file_size: int | str | None = DEFAULT_FILE_SIZE,
    app_id: str | None = None,
    batch_id: int | None = None,
    merge_schema: bool = False,
    table_properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    index: IndexWhen = "checkpoint",
    after_commit: Callable[[int], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> IngestSummary:
    """Add a batch (a frame, or the files at a path) to a table, which is made if it is not there.

    `target_file_size`: bytes, or text such as `128MB`; None never splits a bucket, and then nothing is counted first.
    `app_id` and `batch_id` together make the batch one that is added once. `after_commit` is called with the version.
    """
    settings = settings_of(
        table, time_column, bucket, bucket_column, target_file_size, merge_schema, table_properties,
        storage_options, index, after_commit, on_progress,
    )  # fmt: skip
    once = _once(app_id, batch_id)
    session = session_of(source, spark)
    if not isinstance(source, (str, os.PathLike)):
        give_access(session, settings, None)
        return ingest_batch(session, source, settings, once)
    files = source_of(source, source_format, read_options, storage_options)
    give_access(session, settings, files)
    return ingest_batch(session, _Pending(session, files), settings, once)


def settings_of(
    table: str | os.PathLike[str],
    time_column: str,
    bucket: str,
    bucket_column: str | None,
    target_file_size: int | str | None,
    merge_schema: bool,
    table_properties: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None,
    index: IndexWhen,
    after_commit: Callable[[int], None] | None,
    on_progress: Callable[[str], None] | None,
) -> Settings:
    """The arguments of an ingest, checked."""
    if index not in INDEX_WHEN:
        raise OptionError(f"index {index!r} is none of {', '.join(INDEX_WHEN)}")
    return Settings(
        parse_location(table).text,
        bucket_of_arguments(time_column, bucket, bucket_column),
        None if target_file_size is None else bytes_of(target_file_size),
        merge_schema,
        dict(table_properties or {}),
        storage_options,
        index,
        after_commit,
        on_progress,
    )


def bytes_of(size: int | str) -> int:
    """A number of bytes out of `128MB`, `1 GiB`, `5000000`."""
    match = _SIZE.fullmatch(str(size).strip())
    found = 0 if match is None else int(float(match[1]) * (1024 if match[3] else 1000) ** _POWERS[match[2].upper()])
    if found <= 0:
        raise OptionError(f"file size {size!r} is no size; write 128MB, 1GiB or a number of bytes")
    return found


def _once(app_id: str | None, batch_id: int | None) -> tuple[str, int] | None:
    if (app_id is None) != (batch_id is None):
        raise OptionError("app_id and batch_id go together: both, or none")
    if app_id is None or batch_id is None:
        return None
    if batch_id < 0 or not app_id:
        raise OptionError("app_id must not be empty and batch_id not negative")
    return app_id, batch_id


def session_of(source: Any, spark: SparkSession | None) -> SparkSession:
    """The session of a frame, the one given, or the one this process has."""
    from pyspark.sql import SparkSession as Session

    found = spark or getattr(source, "sparkSession", None) or Session.getActiveSession()
    if found is None:
        raise InputError("no Spark session in this process; pass spark=…, or a DataFrame")
    return found


def give_access(spark: SparkSession, settings: Settings, source: Source | None) -> None:
    """Credentials for Spark, where they were given; else it has its own. A path must be one of its workers, too."""
    if settings.storage_options:
        set_storage_options(spark, [settings.table, *([source.uri] if source else [])], settings.storage_options)
    check_reach(spark, settings.table)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Files that become a frame when the table's schema is known."""

    spark: SparkSession
    source: Source

    def frame(self, time_column: str, table: StructType | None, merge_schema: bool) -> DataFrame:
        return read_source(self.spark, self.source, time_column, table, merge_schema)


def ingest_batch(
    spark: SparkSession, source: DataFrame | _Pending, settings: Settings, once: tuple[str, int] | None
) -> IngestSummary:
    """One batch, from the look at the table to the summary."""
    begun = time.monotonic()
    store = settings.open_store()
    snapshot = load_table(store)
    if snapshot is not None:
        check_bucket(snapshot, settings.bucket)
        if once is not None and _was_committed(snapshot, once):
            settings.say(f"batch {once[1]} of {once[0]} is in the table already")
            return _nothing(settings, snapshot.version, begun, replayed=True)
    frame, time_type = _prepared(spark, source, settings, snapshot)
    if snapshot is None:
        settings.say("creating the table")
        create_table(spark, settings.place, frame.schema, settings.bucket, time_type, settings.table_properties)
        snapshot = load_table(store)
        assert snapshot is not None
        check_bucket(snapshot, settings.bucket)
    token = f"delta-sidecar ingest {uuid4()}"
    if not _write(frame, settings, snapshot, time_type, token, once):
        return _nothing(settings, snapshot.version, begun, replayed=False)
    written = find_written(store, snapshot.version, token, _physical(snapshot, settings.bucket))
    if written is None:
        return _nothing(settings, snapshot.version, begun, replayed=True)
    return _summary(settings, written, _index(spark, settings, written), begun)


def _was_committed(snapshot: Snapshot, once: tuple[str, int]) -> bool:
    known = transaction_version(snapshot, once[0])
    return known is not None and known >= once[1]


def _physical(snapshot: Snapshot, bucket: Bucket) -> str:
    field = snapshot.schema.find(bucket.column)
    assert field is not None
    return field.physical_name or field.name


def _prepared(
    spark: SparkSession, source: DataFrame | _Pending, settings: Settings, snapshot: Snapshot | None
) -> tuple[DataFrame, TimeType]:
    """The frame that will be written: its time is a time, its columns are the table's, its bucket is left to Delta."""
    bucket, where = settings.bucket, source.source.uri if isinstance(source, _Pending) else "the DataFrame"
    table = None if snapshot is None else spark_schema(spark, settings)
    frame = source
    if isinstance(frame, _Pending):
        frame = frame.frame(bucket.time_column, table, settings.merge_schema)
    frame = frame.drop(bucket.column)
    frame, time_type = with_time(
        frame, bucket.time_column, where, None if snapshot is None else time_type_of(snapshot, bucket)
    )
    if table is not None:
        check_columns(frame.schema, table, settings.merge_schema, settings.table)
    return frame, time_type


def spark_schema(spark: SparkSession, settings: Settings) -> StructType:
    """The table's schema as Spark sees it."""
    with spark_failures(f"{settings.table} cannot be read"):
        return spark.read.format("delta").load(settings.place).schema


def _write(
    frame: DataFrame,
    settings: Settings,
    snapshot: Snapshot,
    time_type: TimeType,
    token: str,
    once: tuple[str, int] | None,
) -> bool:
    """Write the batch as one commit; False if it has no rows."""
    dealt = _dealt(frame, settings, snapshot, time_type)
    if dealt is None:
        return False
    options = {"userMetadata": token, "mergeSchema": str(settings.merge_schema).lower(), "optimizeWrite": "false"}
    if once is not None:
        options |= {"txnAppId": once[0], "txnVersion": str(once[1])}
    with spark_failures(f"{settings.table}: the batch was not written"):
        dealt.write.format("delta").mode("append").options(**options).save(settings.place)
    return True


def _dealt(frame: DataFrame, settings: Settings, snapshot: Snapshot, time_type: TimeType) -> DataFrame | None:
    """The frame with each row in the task that writes its file; None if there is no row."""
    from pyspark.sql import functions as f

    number = bucket_number(quoted(settings.bucket.time_column), settings.bucket.granularity, time_type)
    target = settings.target_file_size
    parallelism = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    if target is None:
        settings.say("writing")
        return frame.repartition(parallelism, f.expr(number))
    with spark_failures(f"{settings.table}: the source could not be counted"):
        settings.say("counting rows")
        counted = count_buckets(frame, number)
        counts = counted.rows
        if not counts:
            return None
        width = _bytes_per_row(frame, snapshot) if needs_estimate(counts, target) else 0.0
        layout = plan_layout(counts, width, target, parallelism)
        settings.say(f"writing {sum(counts.values()):,} rows into {len(counts):,} buckets")
        if counted.gathered and not layout.split:
            return frame
        return frame.repartitionById(layout.tasks, f.expr(layout.partition_sql(number, hashable_columns(frame))))


def _bytes_per_row(frame: DataFrame, snapshot: Snapshot) -> float:
    known = recent_bytes_per_row(snapshot)
    return sampled_bytes_per_row(frame) if known is None else known


def _index(spark: SparkSession, settings: Settings, written: Written) -> bool:
    """After the commit: the index, where it is wanted, then the caller's own. The batch is in, whatever happens."""
    wanted = settings.index == "always" or (settings.index == "checkpoint" and written.made_checkpoint)
    done = wanted and _built(spark, settings, written.version)
    if settings.after_commit is not None:
        settings.after_commit(written.version)
    return done


def _built(spark: SparkSession, settings: Settings, version: int) -> bool:
    """A table without its index is slower, not wrong: a build that fails is told, and the next one makes up for it.

    Whatever it fails with: an error here would look as if the batch were not in the table, and it would be sent again.
    """
    from delta_sidecar.pipeline.build import build_table

    settings.say(f"indexing version {version}")
    try:
        build_table(settings.table, version, storage_options=settings.storage_options, spark=spark)
    except Exception as error:
        told = str(error).partition("\n")[0]
        _log.warning("%s: version %d is committed but not indexed: %s", settings.table, version, told)
        settings.say(f"version {version} is committed but not indexed: {told}")
        return False
    return True


def _summary(settings: Settings, written: Written, indexed: bool, begun: float) -> IngestSummary:
    return IngestSummary(
        settings.table,
        written.rows,
        written.null_rows,
        written.files,
        written.bytes,
        written.buckets,
        written.version,
        False,
        indexed,
        time.monotonic() - begun,
    )


def _nothing(settings: Settings, version: int, begun: float, replayed: bool) -> IngestSummary:
    return IngestSummary(settings.table, 0, 0, 0, 0, 0, version, replayed, False, time.monotonic() - begun)
