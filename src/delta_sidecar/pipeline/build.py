"""The index of a large table, built on Spark: tasks read the log and write parts, the driver sees samples and receipts.

    shares of the log ──► sample of keys ──► edges of ranges
    shares of the log ──► rows, each with the number of its range ──► exchange ──► parts ──► receipts

Public DataFrame API only, so it runs on Spark Connect and on managed Spark. Small tables and small changes need no
session at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptLogError, SparkError
from delta_sidecar.index.builder import Build, BuildOptions, BuildReport, build_index
from delta_sidecar.index.layout import Layout, Leaf
from delta_sidecar.index.live import expected_rows, tail_of
from delta_sidecar.index.manifest import PartEntry
from delta_sidecar.index.typing import KINDS
from delta_sidecar.log.checkpoints import Checkpoint, RowGroup
from delta_sidecar.log.commits import add_rows
from delta_sidecar.log.file_rows import STATS_PARSED
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.pipeline.ddl import column_ddl
from delta_sidecar.pipeline.tasks import FILE_COLUMNS, RECEIPT, Share, Work, typed_struct
from delta_sidecar.storage.opening import open_store
from delta_sidecar.values.comparison import comparison_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_TAIL: Final = 64 << 20
"""Bytes of commits that the driver replays itself; a longer tail is reduced by Spark."""
SHARE_ROWS: Final = 250_000
"""Rows of a checkpoint that a task reads, at least."""
MOST_SHARES: Final = 2_000
SAMPLES_A_PART: Final = 200
MOST_SAMPLES: Final = 200_000


def build_table(
    uri: str,
    version: int | None = None,
    options: BuildOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> BuildReport:
    """Build the index of a table, on a session that is given or, where the table needs one, on one made for it."""
    store = open_store(uri, storage_options)
    with ExitStack() as stack:

        def whole(build: Build) -> list[PartEntry]:
            session = spark if spark is not None else stack.enter_context(_session(master, conf))
            return build_on_spark(build, session, uri, storage_options)

        return build_index(store, version, options, whole, progress)


def _session(master: str | None, conf: Mapping[str, str] | None) -> Any:
    from delta_sidecar.pipeline.session import spark_session

    return spark_session(master=master, conf=conf, app_name="delta-sidecar build")


def index_batch(
    uri: str,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
    options: BuildOptions | None = None,
) -> Callable[[Any, int], None]:
    """A function for anyone's `foreachBatch`, to be called after the batch was written: it brings the index up to
    date. Cheap while little changed."""

    def index(batch: DataFrame | None, batch_id: int) -> None:
        session = spark if spark is not None or batch is None else batch.sparkSession
        build_table(uri, options=options, storage_options=storage_options, spark=session)

    return index


def build_on_spark(
    build: Build, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None
) -> list[PartEntry]:
    """Every part of a table's index. A broken checkpoint means the next base, as for every reader."""
    from delta_sidecar.pipeline.shipping import ship

    ship(spark)
    while True:
        try:
            return _Run(build, spark, uri, storage_options).parts()
        except CorruptLogError as error:
            if build.snapshot.segment.base is None:
                raise
            build.progress(f"{build.snapshot.segment.base} was not used: {error}")
            build.snapshot, _ = build.snapshot.on_older_base()


class _Run:
    """One attempt at one snapshot."""

    def __init__(self, build: Build, spark: SparkSession, uri: str, storage_options: Mapping[str, str] | None) -> None:
        self._build = build
        self._spark = spark
        self._expected = expected_rows(build.snapshot)
        self._count = max(1, -(-self._expected // build.options.part_rows))
        stride = max(build.options.part_rows // SAMPLES_A_PART, self._expected // MOST_SAMPLES, 1)
        self._work = Work(uri, storage_options, build.placement, build.layout, stride=stride)

    def parts(self) -> list[PartEntry]:
        base = self._build.snapshot.open_base()
        try:
            groups = [] if base is None else base.groups()
            self._work = replace(self._work, typed=_typed_leaves(base, self._build.layout))
            inline = _inline(base)
        finally:
            if base is not None:
                base.close()
        commits = self._build.snapshot.segment.commits
        if sum(commit.file.size for commit in commits) <= DRIVER_TAIL and inline is None:
            return self._masked(groups)
        return self._reduced(groups, commits, inline)

    def _masked(self, groups: list[RowGroup]) -> list[PartEntry]:
        """The driver replays the tail; tasks read the base and leave out what it hides."""
        tail = tail_of(self._build.snapshot)
        newest = [Share(rows=batch) for batch in tail.rows()]
        shares = (*newest, *_group_shares(groups))
        self._work = replace(self._work, shares=shares, masked=tuple(set(tail.keys)))
        if not shares:
            return []
        numbers = self._spark.range(0, len(shares), 1, len(shares))
        expected = self._find_edges(numbers.mapInArrow(self._work.sampled, self._sample_ddl))
        self._build.progress(f"{expected:,} live files in {len(shares)} shares; writing {self._count} ranges")
        return self._written(numbers.mapInArrow(self._work.ranged, self._ranged_ddl), expected)

    def _reduced(
        self, groups: list[RowGroup], commits: tuple[CommitRange, ...], inline: pa.RecordBatch | None
    ) -> list[PartEntry]:
        """Spark finds the newest action of every key, of base and tail together."""
        from pyspark.sql import functions as F

        shares = [*_group_shares(groups), *_commit_shares(commits)]
        shares += [] if inline is None else [Share(rows=inline)]
        self._work = replace(self._work, shares=tuple(shares))
        self._build.progress(f"reducing {len(commits)} commits in {len(shares)} shares")
        numbers = self._spark.range(0, len(shares), 1, len(shares))
        ddl = f"key binary, version bigint, live boolean, sequence bigint, {self._rows_ddl}"
        actions = numbers.mapInArrow(self._work.keyed, ddl)
        names = [*FILE_COLUMNS, *([STATS_PARSED] if self._work.typed is not None else [])]
        newest = F.max_by(F.struct("live", *names), F.struct("version", "live", "sequence")).alias("newest")
        live = actions.groupBy("key").agg(newest).where("newest.live").select("newest.*").drop("live").persist()
        try:
            expected = self._find_edges(live.mapInArrow(self._work.sampled_rows, self._sample_ddl))
            self._build.progress(f"{expected:,} live files; writing {self._count} ranges")
            return self._written(live.mapInArrow(self._work.ranged_rows, self._ranged_ddl), expected)
        finally:
            live.unpersist()

    def _find_edges(self, samples: DataFrame) -> int:
        """Choose where ranges begin; gives the number of live files."""
        found = samples.toArrow()
        expected = int(pc.sum(found.column("count")).as_py() or 0)
        keys = found.filter(found.column("path").is_valid()).select(["key", "path"])
        self._count = max(1, -(-expected // self._build.options.part_rows))
        self._work = replace(self._work, edges=_edges(keys, self._count))
        return expected

    def _written(self, rows: DataFrame, expected: int) -> list[PartEntry]:
        exchanged = _by_range(rows, self._count)
        receipts = exchanged.mapInArrow(self._work.written, f"{RECEIPT} binary").collect()
        parts = [msgspec.json.decode(bytes(row[0]), type=PartEntry) for row in receipts]
        written = sum(part.rows for part in parts)
        if written != expected:
            raise SparkError(
                f"tasks wrote {written:,} rows of {expected:,} live files; nothing was published, run it again"
            )
        return parts

    @property
    def _rows_ddl(self) -> str:
        typed = self._work.typed
        more = [] if typed is None else [f"{STATS_PARSED} {column_ddl(typed_struct(typed))}"]
        return ", ".join([*_FILE_DDL, *more])

    @property
    def _ranged_ddl(self) -> str:
        return f"{self._rows_ddl}, `range` int"

    @property
    def _sample_ddl(self) -> str:
        sort = self._build.layout.sort
        key = pa.int64() if sort.type is None else comparison_type(sort.type)
        if key is not None and pa.types.is_decimal(key):
            key = pa.decimal128(38, key.scale)
        return f"key {column_ddl(key)}, path string, count bigint"


_FILE_DDL: Final = [
    "path string",
    "size bigint",
    "modification_time bigint",
    "partition_values map<string,string>",
    "deletion_vector struct<storageType:string,pathOrInlineDv:string,offset:int,sizeInBytes:int,cardinality:bigint>",
    "tags map<string,string>",
    "base_row_id bigint",
    "default_row_commit_version bigint",
    "clustering_provider string",
    "stats string",
]


def _by_range(rows: DataFrame, count: int) -> DataFrame:
    """One partition for each range; by hash where Spark is older than 4.1, so that some partitions have several."""
    if hasattr(rows, "repartitionById"):
        return rows.repartitionById(count, "range")
    return rows.repartition(count, "range")


def _edges(keys: pa.Table, count: int) -> pa.RecordBatch | None:
    """Key and path of the first row of every range but the first."""
    if count < 2 or not keys.num_rows:
        return None
    known = keys.column("key").is_valid().cast(pa.int8())
    order = [(name, "ascending") for name in ("known", "key", "path")]
    ordered = keys.take(pc.sort_indices(keys.append_column("known", known), sort_keys=order))
    at = sorted({keys.num_rows * number // count for number in range(1, count)} - {0})
    return ordered.take(arrays.int64s(at)).combine_chunks().to_batches()[0]


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


def _inline(base: Checkpoint | None) -> pa.RecordBatch | None:
    """Adds that a checkpoint's JSON top holds itself."""
    return add_rows(base.inline, FILE_COLUMNS) if base is not None and base.inline else None


def _typed_leaves(base: Checkpoint | None, layout: Layout) -> tuple[Leaf, ...] | None:
    """The leaves that any file of the base has typed stats of; None if it has none."""
    if base is None:
        return None
    names = {leaf for file in base.parquet for leaf in file.leaves if leaf.startswith("add.stats_parsed.")}
    if not names:
        return None
    has = partial(_has_typed, names)
    return tuple(leaf for leaf in layout.leaves if has(leaf))


def _has_typed(names: set[str], leaf: Leaf) -> bool:
    return any(f"add.stats_parsed.{key}.{'.'.join(leaf.path)}" in names for key in KINDS.values())
