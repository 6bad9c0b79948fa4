"""Build the index of a large table on Spark. Tasks read the log and write parts; the driver sees samples and receipts.

    shares of the log ──► sample of keys ──► edges of ranges
    shares of the log ──► rows in parcels to their ranges ──► exchange ──► parts ──► receipts

Public DataFrame API only, so it runs on Spark Connect and on managed Spark. Small tables and small changes need no
session at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptLogError, SparkError
from delta_sidecar.index.build.build import BuildReport
from delta_sidecar.index.build.build import build_index as build_index_of_store
from delta_sidecar.index.build.build_job import Build, BuildOptions
from delta_sidecar.index.build.full import take_older_base
from delta_sidecar.index.build.live import base_files, tail_of
from delta_sidecar.index.format.index_columns import one_array
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.stats.index_rows import SOURCE_COLUMNS, order_of
from delta_sidecar.log.checkpoint import Checkpoint, RowGroup
from delta_sidecar.log.commits import add_rows
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.pipeline.tasks import EDGE_COLUMNS, PARCEL_DDL, RECEIPT_DDL, Share, Work, key_type, packed
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.uri import parse_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_TAIL: Final = 64 << 20
"""Bytes of commits that the driver replays itself; a longer tail is reduced by Spark."""
SHARE_ROWS: Final = 250_000
"""Rows of a checkpoint that a task reads, at least."""
MOST_SHARES: Final = 2_000
LOT_ROWS: Final = 200_000
"""Actions that a task replays."""
ADD_BYTES: Final = 250
"""Approximate bytes of an action in a commit, to estimate how many tasks replay a long tail."""
SAMPLES_A_PART: Final = 200
MOST_SAMPLES: Final = 200_000


def build_index(
    uri: str | os.PathLike[str],
    version: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    *,
    options: BuildOptions | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> BuildReport:
    """Build or update the index of a table, on Spark if the table is large, and return a report.

    This process extends an older index, and builds up to 5,000,000 files from scratch, without starting a session.

    Args:
        uri: The location of the table: a local path or a URI such as `s3://bucket/events`.
        version: The version to index; the newest if not given.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        options: Sort column, time column, engine, a build from scratch; see `BuildOptions`.
        spark: The session to use if Spark is needed; if not given, one is started and stopped.
        master: The master of the session, if one is started.
        conf: Spark settings of the session, if one is started.
        progress: Called with one line of text whenever a step begins.

    Returns:
        A `BuildReport`: the indexed version, its number of files, which engine built it and why.

    Raises:
        TableNotFoundError: There is no Delta table at `uri`.
        VersionNotFoundError: The table has no such version.
        SparkError: Spark is needed and missing, its workers do not reach the table, or a job failed.
        StorageError: The store cannot be reached, or refuses a write.

    Example:
        >>> from delta_sidecar.pipeline import build_index
        >>> report = build_index("events")
        >>> print(report.version, report.engine, report.files)
        3 process 4
    """
    # A relative path is one of this process: workers have other directories, and are given the absolute one.
    store = open_store(uri, storage_options)
    place = parse_location(uri).text
    with ExitStack() as stack:

        def whole(build: Build, notes: list[str]) -> list[PartEntry]:
            session = spark if spark is not None else _session(stack, build, master, conf)
            return build_on_spark(build, session, place, storage_options, notes)

        return build_index_of_store(store, version, options, whole, progress)


def _session(stack: ExitStack, build: Build, master: str | None, conf: Mapping[str, str] | None) -> SparkSession:
    from delta_sidecar.pipeline.session import spark_session

    try:
        return stack.enter_context(spark_session(master=master, conf=conf, app_name="delta-sidecar build"))
    except SparkError as error:
        raise SparkError(
            f"the index must be {build.reason}; {error}, or build in one process: --engine process"
        ) from None


def index_batch(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    options: BuildOptions | None = None,
    spark: SparkSession | None = None,
) -> Callable[[Any, int], None]:
    """A function for `foreachBatch` of your own stream: call it after a batch is written, and it updates the index.

    Args:
        uri: The table that the stream writes.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        options: See `BuildOptions`.
        spark: The session; that of the batch if not given.

    Returns:
        A function that takes the batch and its number. Its cost depends on what changed since the last index.

    Raises:
        DeltaSidecarError: The returned function raises the errors of `build_index`.

    Example:
        >>> from delta_sidecar.pipeline import index_batch
        >>> update = index_batch("events")
        >>> update(None, 0)
        >>> from delta_sidecar import verify_index
        >>> verify_index("events").version
        3
    """
    place = parse_location(uri).text

    def index(batch: DataFrame | None, batch_id: int) -> None:
        session = spark if spark is not None or batch is None else batch.sparkSession
        build_index(place, options=options, storage_options=storage_options, spark=session)

    return index


def build_on_spark(
    build: Build, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None, notes: list[str]
) -> list[PartEntry]:
    """Build every part of a table's index. If a checkpoint is broken, the next base is used, as by every reader."""
    from delta_sidecar.pipeline.reach import check_reach
    from delta_sidecar.pipeline.shipping import ship

    check_reach(spark, uri)
    ship(spark)
    while True:
        try:
            return _Run(build, spark, uri, storage_options).parts()
        except CorruptLogError as error:
            take_older_base(build, error, notes)
            build.progress(notes[-1])


class _Run:
    """One attempt at one snapshot."""

    def __init__(self, build: Build, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None) -> None:
        self._build = build
        self._spark = spark
        expected = base_files(build.snapshot) + sum(c.file.size for c in build.snapshot.segment.commits) // ADD_BYTES
        stride = max(build.options.rows_of_part // SAMPLES_A_PART, expected // MOST_SAMPLES, 1)
        lots = max(1, expected // LOT_ROWS)
        self._work = Work(uri, storage_options, build.placement, build.layout, stride=stride, lots=lots)

    def parts(self) -> list[PartEntry]:
        base = self._build.snapshot.open_base()
        groups, inline = ([], None) if base is None else (base.groups(), _inline(base))
        if base is not None:
            base.close()
        commits = self._build.snapshot.segment.commits
        if sum(commit.file.size for commit in commits) <= DRIVER_TAIL and inline is None:
            return self._masked(groups)
        return self._replayed(groups, commits, inline)

    def _masked(self, groups: list[RowGroup]) -> list[PartEntry]:
        """The driver replays the tail; tasks read the base and leave out what it hides."""
        tail = tail_of(self._build.snapshot)
        newest = _row_shares(tail.rows())
        numbers = self._share((*newest, *_group_shares(groups)), masked=tuple(set(tail.keys)))
        expected, ranges = self._find_edges(numbers.mapInArrow(self._work.sample_shares, self._sample_ddl))
        return self._written(numbers.mapInArrow(self._work.range_shares, PARCEL_DDL), expected, ranges)

    def _replayed(
        self, groups: list[RowGroup], commits: tuple[CommitRange, ...], inline: pa.RecordBatch | None
    ) -> list[PartEntry]:
        """Tasks replay base and tail together, each a lot of the keys."""
        at_hand = [] if inline is None else [Share(rows=packed([inline]))]
        numbers = self._share((*at_hand, *_group_shares(groups), *_commit_shares(commits)))
        self._build.progress(f"replaying {len(commits)} commits in {self._work.lots} lots")
        actions = _by_number(numbers.mapInArrow(self._work.lot_shares, PARCEL_DDL), self._work.lots)
        live = actions.mapInArrow(self._work.replay_lots, PARCEL_DDL).persist()
        try:
            expected, ranges = self._find_edges(live.mapInArrow(self._work.sample_parcels, self._sample_ddl))
            return self._written(live.mapInArrow(self._work.range_parcels, PARCEL_DDL), expected, ranges)
        finally:
            live.unpersist()

    def _share(self, shares: tuple[Share, ...], masked: tuple[bytes, ...] = ()) -> DataFrame:
        """The numbers of the shares, one per partition."""
        self._work = replace(self._work, shares=shares, masked=masked)
        return self._spark.range(0, len(shares), 1, max(1, len(shares)))

    def _find_edges(self, samples: DataFrame) -> tuple[int, int]:
        """Choose where ranges begin; gives the number of live files, and of ranges."""
        rows = samples.toArrow()
        expected = int(pc.sum(rows.column("count")).as_py() or 0)
        keys = rows.filter(rows.column("path").is_valid()).select(list(EDGE_COLUMNS))
        ranges = max(1, -(-expected // self._build.options.rows_of_part))
        edges = _edges(keys, ranges)
        self._work = replace(self._work, edges=None if edges is None else packed([edges]))
        self._build.progress(f"{expected:,} live files in {len(self._work.shares)} shares; writing {ranges} ranges")
        return expected, ranges

    def _written(self, parcels: DataFrame, expected: int, ranges: int) -> list[PartEntry]:
        exchanged = _by_number(parcels, ranges)
        receipts = exchanged.mapInArrow(self._work.write_parcels, RECEIPT_DDL).collect()
        parts = [msgspec.json.decode(bytes(row[0]), type=PartEntry) for row in receipts]
        written = sum(part.rows for part in parts)
        if written != expected:
            raise SparkError(
                f"tasks wrote {written:,} rows of {expected:,} live files; nothing was published, run it again"
            )
        return parts

    @property
    def _sample_ddl(self) -> str:
        return f"key {_column_ddl(key_type(self._build.layout))}, modification_time bigint, path string, count bigint"


_DDL: Final = {pa.int64(): "bigint", pa.float64(): "double", pa.binary(): "binary"}


def _column_ddl(data_type: pa.DataType) -> str:
    """The type of a sort key in Spark's words."""
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    return _DDL[data_type]


def _by_number(parcels: DataFrame, count: int) -> DataFrame:
    """One partition for each number; by hash where Spark is older than 4.1, so that some partitions have several."""
    if hasattr(parcels, "repartitionById"):
        return parcels.repartitionById(count, "to")
    return parcels.repartition(count, "to")


def _edges(keys: pa.Table, count: int) -> pa.RecordBatch | None:
    """The first row of every range but the first."""
    if count < 2 or not keys.num_rows:
        return None
    ordered = keys.take(order_of([one_array(keys.column(name)) for name in EDGE_COLUMNS]))
    at = sorted({keys.num_rows * number // count for number in range(1, count)} - {0})
    if not at:
        return None
    return ordered.take(arrays.int64s(at)).combine_chunks().to_batches()[0]


def _row_shares(batches: Iterable[pa.RecordBatch]) -> list[Share]:
    """Rows at hand together until they are enough for a task."""
    shares: list[list[pa.RecordBatch]] = []
    rows = SHARE_ROWS
    for batch in batches:
        if rows + batch.num_rows > SHARE_ROWS:
            shares.append([])
            rows = 0
        shares[-1].append(batch)
        rows += batch.num_rows
    return [Share(rows=packed(share)) for share in shares]


def _group_shares(groups: Iterable[RowGroup]) -> list[Share]:
    """Row groups together until they have enough rows for a task."""
    groups = list(groups)
    enough = max(SHARE_ROWS, sum(group.rows for group in groups) // MOST_SHARES)
    shares: list[list[RowGroup]] = []
    for group in groups:
        if not shares or sum(g.rows for g in shares[-1]) + group.rows > enough:
            shares.append([])
        shares[-1].append(group)
    return [Share(groups=tuple(share)) for share in shares]


def _commit_shares(commits: Iterable[CommitRange]) -> list[Share]:
    commits = list(commits)
    enough = max(16 << 20, sum(commit.file.size for commit in commits) // MOST_SHARES)
    shares: list[list[CommitRange]] = []
    for commit in commits:
        if not shares or sum(c.file.size for c in shares[-1]) + commit.file.size > enough:
            shares.append([])
        shares[-1].append(commit)
    return [Share(commits=tuple(share)) for share in shares]


def _inline(base: Checkpoint) -> pa.RecordBatch | None:
    """Adds that a checkpoint's JSON top holds itself."""
    return add_rows(base.inline, SOURCE_COLUMNS.names) if base.inline else None
