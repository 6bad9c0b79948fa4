"""Maintain tables: compact small files, delete old files, update the index, delete old indexes.

Every step looks at the table and does only what is needed. So an interrupted run can simply be repeated, and a run on
a table that needs nothing changes nothing. A step that fails is reported, and the others still run.

A checkpoint is made only if it is requested by name: it needs a change of a table property, which aborts every running
write. An index needs no checkpoint.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

from delta_sidecar.errors import DeltaSidecarError, OptionError
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.index.build.live import tail_of
from delta_sidecar.index.read.manifests import newest_usable_manifest
from delta_sidecar.log.actions import BareFileLine
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.pipeline.conflicts import RetryPolicy, until_committed
from delta_sidecar.pipeline.failures import spark_failures
from delta_sidecar.pipeline.file_layout import DEFAULT_FILE_SIZE
from delta_sidecar.pipeline.hadoop import spark_uri
from delta_sidecar.pipeline.session import shuffle_partitions, temporary_settings
from delta_sidecar.pipeline.small_files import SmallFiles, crowded_partitions, partition_fields, predicate
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.texts import counted
from delta_sidecar.values.bucket_columns import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
Step: TypeAlias = Literal["optimize", "vacuum", "checkpoint", "index", "garbage"]
STEPS: Final[tuple[Step, ...]] = get_args(Step)
HARMLESS: Final[tuple[Step, ...]] = tuple(step for step in STEPS if step != "checkpoint")
"""The default steps: none of them aborts a writer."""
State: TypeAlias = Literal["done", "due", "nothing to do", "failed"]
"""`due` means that a dry run found something to do."""
ABORTS_WRITERS: Final = (
    "the checkpoint step changes a property of the table, which aborts every batch and stream that is being written"
)

_log = logging.getLogger(__name__)

BUCKETS_A_COMMIT: Final = 100
"""Buckets optimized per commit; an interrupted run keeps the commits it has made."""
LISTING_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
INTERVAL: Final = "delta.checkpointInterval"
INTERVAL_BEFORE: Final = "sidecar.checkpointInterval"
"""Holds the table's own interval while it is changed, so it can be restored after a crash."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """The result of one step of `maintain`.

    Example:
        >>> from delta_sidecar.pipeline import maintain
        >>> (step,) = maintain("events", steps=["index"], dry_run=True).steps
        >>> print(step.state, step.summary, step.facts)
        due an index of version 3; there is no index {'version': 3, 'built_on': None}
    """

    step: Step
    state: State
    summary: str
    """One line for people; the reason, if the step failed."""
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)
    """The same, for machines."""


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What `maintain` did to one table, or in a dry run would do.

    Example:
        >>> from delta_sidecar.pipeline import maintain
        >>> report = maintain("events", steps=["index"])
        >>> report.failed, report.version, report.warnings
        (False, 3, ())
    """

    uri: str
    dry_run: bool
    version: int | None
    """The newest version after the run; None if the table cannot be read."""
    steps: tuple[StepReport, ...]
    warnings: tuple[str, ...] = ()
    error: str | None = None
    """Why the table could not be read."""
    unexpected: bool = False
    """Whether an unexpected error occurred: probably a bug, not something that the user can fix."""

    @property
    def failed(self) -> bool:
        return self.error is not None or any(step.state == "failed" for step in self.steps)


def maintain(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    spark: SparkSession | None = None,
    steps: Collection[str] = HARMLESS,
    dry_run: bool = False,
    retain_hours: float | None = None,
    target_file_size: int = DEFAULT_FILE_SIZE,
    options: BuildOptions | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    retry: RetryPolicy | None = None,
) -> MaintenanceReport:
    """Maintain a table: compact small files, delete old files, update the index, delete old indexes.

    Each step does only what is needed. A step that fails is in the report, and the others still run.

    Args:
        uri: The location of the table: a local path or a URI such as `s3://bucket/events`.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        spark: The session; if not given, one is started when a step needs it. `index` and `garbage` rarely do.
        steps: Which of `optimize`, `vacuum`, `checkpoint`, `index`, `garbage` to run, in that order; all but
            `checkpoint` if not given, because that one aborts running writes.
        dry_run: Report what each step would do, and write nothing.
        retain_hours: How long VACUUM keeps files that the table no longer uses; the table's own
            `delta.deletedFileRetentionDuration` if not given.
        target_file_size: Bytes per compacted file to aim for.
        options: Options of the index; see `BuildOptions`.
        master: The master of the session, if one is started.
        conf: Spark settings of the session, if one is started.
        progress: Called with one line of text whenever a step begins.
        retry: How often a statement that conflicts with another writer is retried.

    Returns:
        A `MaintenanceReport` with a `StepReport` for each step.

    Raises:
        OptionError: There is no such step, or a number is out of range.
        TableNotFoundError: There is no Delta table at `uri`.

    Example:
        >>> from delta_sidecar.pipeline import maintain
        >>> report = maintain("events", steps=["index", "garbage"])
        >>> [(step.step, step.state) for step in report.steps]
        [('index', 'done'), ('garbage', 'nothing to do')]
    """
    _check_order(steps, retain_hours, target_file_size)
    with ExitStack() as stack:
        session = _Session(stack, spark, os.fspath(uri), storage_options, master, conf, retry or RetryPolicy())
        order = _Order(tuple(steps), dry_run, retain_hours, target_file_size, options, progress or _ignore)
        return _maintained(session, order)


def maintain_tables(
    uris: Iterable[str | os.PathLike[str]],
    storage_options: Mapping[str, str] | None = None,
    *,
    spark: SparkSession | None = None,
    steps: Collection[str] = HARMLESS,
    dry_run: bool = False,
    retain_hours: float | None = None,
    target_file_size: int = DEFAULT_FILE_SIZE,
    options: BuildOptions | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    retry: RetryPolicy | None = None,
) -> Iterator[MaintenanceReport]:
    """Maintain several tables one after the other, with one session, and yield a report after each.

    Args:
        uris: The locations of the tables. The other arguments are those of `maintain`.

    Returns:
        An iterator of `MaintenanceReport`. If a table cannot be read, its report has an `error`, and the next table
        follows.

    Raises:
        OptionError: There is no such step, or a number is out of range.

    Example:
        >>> from delta_sidecar.pipeline import maintain_tables
        >>> for report in maintain_tables(["events", "nowhere"], steps=["index"]):
        ...     print(report.failed, report.version)
        False 3
        True None
    """
    _check_order(steps, retain_hours, target_file_size)
    tables, say = [os.fspath(uri) for uri in uris], progress or _ignore
    with ExitStack() as stack:
        session = _Session(stack, spark, "", storage_options, master, conf, retry or RetryPolicy(), places=tables)
        for uri in tables:

            def named(message: str, uri: str = uri) -> None:
                say(message if len(tables) == 1 else f"{uri}: {message}")

            session.uri, session.ready = uri, False
            order = _Order(tuple(steps), dry_run, retain_hours, target_file_size, options, named)
            try:
                report = _maintained(session, order)
            except Exception as error:
                report = MaintenanceReport(uri, dry_run, None, (), (), _line(error), not _is_ours(error))
            yield report


def _check_order(steps: Collection[str], retain_hours: float | None, target_file_size: int) -> None:
    unknown = set(steps) - set(STEPS)
    if unknown:
        raise OptionError(f"no step {', '.join(sorted(unknown))}; the steps are {', '.join(STEPS)}")
    if target_file_size < 2 or (retain_hours is not None and retain_hours < 0):
        raise OptionError("the target file size must be above 1 byte, the hours to retain not below 0")


def _is_ours(error: Exception) -> bool:
    return isinstance(error, DeltaSidecarError)


def _line(error: Exception) -> str:
    """What failed, in one line."""
    text = " ".join(str(error).split())
    return text if _is_ours(error) else f"unexpected {type(error).__name__}: {text}"


@dataclass(frozen=True, slots=True)
class _Order:
    """The arguments of a run, the same for each table."""

    steps: tuple[str, ...]
    dry_run: bool
    retain_hours: float | None
    target: int
    options: BuildOptions | None
    progress: Callable[[str], None]


def _maintained(session: _Session, order: _Order) -> MaintenanceReport:
    store = open_store(session.uri, session.storage_options)
    warnings = tuple(_warnings(load_snapshot(store), order))
    for warning in warnings:
        _log.warning("%s: %s", session.uri, warning)
    run = _Run(store, session, order)
    reports = tuple(run.step(step) for step in STEPS if step in order.steps)
    version = load_snapshot(store).version
    return MaintenanceReport(store.root_uri, order.dry_run, version, reports, warnings, None, run.unexpected)


def _warnings(snapshot: Snapshot, order: _Order) -> Iterator[str]:
    if "checkpoint" in order.steps:
        yield ABORTS_WRITERS
    elif INTERVAL_BEFORE in snapshot.metadata.properties:
        yield f"{INTERVAL} was left at 1 by a checkpoint step that died; --only checkpoint restores it"


def _ignore(message: str) -> None:
    """The default callback: does nothing."""


@dataclass(slots=True)
class _Session:
    """Spark for the table, started when a step first needs it."""

    stack: ExitStack
    spark: SparkSession | None
    uri: str
    storage_options: Mapping[str, str] | None = field(repr=False)
    master: str | None
    conf: Mapping[str, str] | None = field(repr=False)
    retry: RetryPolicy
    ready: bool = False
    places: Collection[str] = ()
    """All tables of the run, if there are several: a session that is started gets the drivers of each."""

    @property
    def table(self) -> str:
        """The table in SQL."""
        return f"delta.{quoted(spark_uri(self.uri, self.storage_options))}"

    def get(self) -> SparkSession:
        from delta_sidecar.pipeline.reach import check_reach
        from delta_sidecar.pipeline.session import set_storage_options, spark_session

        if self.spark is None:
            places = list(self.places) or [self.uri]
            own = spark_session(self.master, self.conf, self.storage_options, places, "delta-sidecar maintain")
            self.spark = self.stack.enter_context(own)
        elif not self.ready:
            set_storage_options(self.spark, [self.uri], self.storage_options)
        check_reach(self.spark, self.uri)
        self.ready = True
        return self.spark

    def sql(self, statement: str) -> list[Any]:
        """Run a statement that may be run twice, and retry it after a conflict with another writer."""

        def attempt() -> list[Any]:
            return self._frame(statement, lambda frame: frame.collect())

        what = f"{statement.split(maxsplit=1)[0]} of {self.uri}"
        return until_committed(attempt, lambda: None, self.retry, what=what)

    def count(self, statement: str, but: str) -> int:
        """The number of paths that a statement returns, without those that match a pattern. Spark does the counting."""

        def counted(frame: Any) -> int:
            from pyspark.sql import functions as f

            return int(frame.where(~f.col("path").rlike(but)).count())

        return self._frame(statement, counted)

    def _frame(self, statement: str, use: Callable[[Any], T]) -> T:
        session = self.get()
        with spark_failures(f"{statement.split(maxsplit=1)[0]} of {self.uri} failed"):
            return use(session.sql(statement))

    def fewer_listings(self) -> dict[str, str]:
        """VACUUM lists with as many tasks as this setting says, 10,000 by default: most of its time on most tables."""
        session = self.get()
        chosen = session.conf.get(LISTING_TASKS) != "10000"
        return {} if chosen else {LISTING_TASKS: str(shuffle_partitions(session))}


@dataclass(slots=True)
class _Done:
    """The result of a step, without its time."""

    state: State
    summary: str
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Run:
    """One run over one table."""

    store: Store
    session: _Session
    order: _Order
    unexpected: bool = False

    @property
    def dry_run(self) -> bool:
        return self.order.dry_run

    @property
    def progress(self) -> Callable[[str], None]:
        return self.order.progress

    def step(self, name: Step) -> StepReport:
        """Run a step and return its report. If it fails, the other steps still run."""
        self.progress(name)
        began = time.monotonic()
        try:
            done: _Done = getattr(self, f"_{name}")()
        except Exception as error:
            self.unexpected |= not _is_ours(error)
            _log.warning("%s: %s failed", self.session.uri, name, exc_info=not _is_ours(error))
            done = _Done("failed", _line(error), {"error": type(error).__name__})
        return StepReport(name, done.state, done.summary, time.monotonic() - began, done.facts)

    @property
    def _state(self) -> State:
        return "due" if self.dry_run else "done"

    # Small files together.

    def _optimize(self) -> _Done:
        snapshot = load_snapshot(self.store)
        # Files from half the target on are left alone: writing them again would gain little.
        crowded = crowded_partitions(snapshot, self.order.target // 2)
        files = sum(bucket.files for bucket in crowded)
        facts = {"buckets": len(crowded), "small_files": files, "bytes": sum(bucket.bytes for bucket in crowded)}
        summary = f"{counted(files, 'small file')} in {counted(len(crowded), 'bucket')}"
        if not crowded:
            return _Done("nothing to do", "no bucket has several small files", facts)
        if self.dry_run:
            return _Done("due", summary, facts)
        removed, added = self._compact(snapshot, crowded)
        return _Done("done", f"{summary}: {removed:,} became {added:,}", facts | {"removed": removed, "added": added})

    def _compact(self, snapshot: Snapshot, crowded: list[SmallFiles]) -> tuple[int, int]:
        prefix, target = "spark.databricks.delta.optimize", self.order.target
        sizes = {f"{prefix}.maxFileSize": str(target), f"{prefix}.minFileSize": str(target // 2)}
        fields, removed, added = partition_fields(snapshot), 0, 0
        with temporary_settings(self.session.get(), sizes):
            for at in range(0, len(crowded), BUCKETS_A_COMMIT):
                where = predicate(crowded[at : at + BUCKETS_A_COMMIT], fields)
                rows = self.session.sql(f"OPTIMIZE {self.session.table}" + (f" WHERE {where}" if where else ""))
                removed += rows[0]["metrics"]["numFilesRemoved"]
                added += rows[0]["metrics"]["numFilesAdded"]
                self.progress(f"optimize: {min(at + BUCKETS_A_COMMIT, len(crowded)):,} of {len(crowded):,} buckets")
        return removed, added

    # Files that no version within the retention has.

    def _vacuum(self) -> _Done:
        hours = self.order.retain_hours
        with temporary_settings(self.session.get(), self.session.fewer_listings()):
            return self._vacuum_retaining("" if hours is None else f" RETAIN {hours:g} HOURS")

    def _vacuum_retaining(self, retain: str) -> _Done:
        """Run VACUUM if its dry run finds files, because VACUUM makes two commits even if it deletes nothing.

        This uses Delta's own rule, and lists the table twice if there are files to delete: only a listing finds the
        files of a crashed writer. Empty directories do not count, because a writer may have just created them.
        """
        statement = f"VACUUM {self.session.table}{retain}"
        files = self.session.count(f"{statement} DRY RUN", _directories(load_snapshot(self.store)))
        if self.dry_run or not files:
            state: State = "due" if files else "nothing to do"
            return _Done(state, f"{counted(files, 'file')} that no retained version uses", {"files": files})
        before = load_snapshot(self.store).version
        self.session.sql(statement)
        deleted = self._vacuumed_since(before)
        what = "files that no retained version uses" if deleted is None else counted(deleted, "file")
        return _Done("done", f"{what} deleted", {"files": deleted})

    def _vacuumed_since(self, version: int) -> int | None:
        """How many files VACUUM says it deleted; None where its logging is off."""
        for row in self.session.sql(f"DESCRIBE HISTORY {self.session.table} LIMIT 10"):
            if row["operation"] == "VACUUM END" and row["version"] > version:
                return int(row["operationMetrics"].get("numDeletedFiles", 0))
        return None

    # A checkpoint, by an interval of 1 for one commit.

    def _checkpoint(self) -> _Done:
        snapshot = load_snapshot(self.store)
        properties = snapshot.metadata.properties
        left_behind = INTERVAL_BEFORE in properties
        before = (properties[INTERVAL_BEFORE] if left_behind else properties.get(INTERVAL)) or None
        due = _changes_files(snapshot)
        if not due and not left_behind:
            return _Done("nothing to do", f"no files added or removed since checkpoint {snapshot.segment.base_version}")
        if self.dry_run:
            commits = snapshot.version - snapshot.segment.base_version
            return _Done("due", f"{counted(commits, 'commit')} since the last checkpoint", {"commits": commits})
        if due:
            self._set_properties({INTERVAL: "1", INTERVAL_BEFORE: before or ""})
        self._restore_interval(before)
        made = load_snapshot(self.store).segment.base_version
        return _Done("done", f"checkpoint {made}", {"version": made})

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        given = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
        self.session.sql(f"ALTER TABLE {self.session.table} SET TBLPROPERTIES ({given})")

    def _restore_interval(self, before: str | None) -> None:
        """Restore the table's own interval, and then delete the property that held it."""
        if before is not None:
            self._set_properties({INTERVAL: before})
        names = [INTERVAL_BEFORE, *([INTERVAL] if before is None else [])]
        given = ", ".join(map(literal, names))
        self.session.sql(f"ALTER TABLE {self.session.table} UNSET TBLPROPERTIES IF EXISTS ({given})")

    # The index beside it, and what older ones left.

    def _index(self) -> _Done:
        snapshot = load_snapshot(self.store)
        index, _ = newest_usable_manifest(snapshot)
        reached = None if index is None else index.manifest.version
        target = _index_target(snapshot, reached)
        if reached is not None and reached >= target:
            return _Done("nothing to do", f"indexed up to version {reached}", {"version": reached})
        if self.dry_run:
            since = "there is no index" if reached is None else f"the newest is of version {reached}"
            return _Done("due", f"an index of version {target}; {since}", {"version": target, "built_on": reached})
        return self._build(target)

    def _build(self, version: int) -> _Done:
        from delta_sidecar.pipeline.spark_build import build_index

        session = self.session
        report = build_index(
            session.uri,
            version,
            session.storage_options,
            options=self.order.options,
            spark=session.spark,
            master=session.master,
            conf=session.conf,
            progress=lambda message: self.progress(f"index: {message}"),
        )
        parts = f"{report.parts_written:,} parts written, {report.parts_reused:,} reused"
        facts = {"version": report.version, "mode": report.mode, "files": report.files}
        return _Done(
            "done", f"version {report.version}, {counted(report.files, 'file')}, {report.mode}; {parts}", facts
        )

    def _garbage(self) -> _Done:
        from delta_sidecar.index.build.garbage import collect_garbage

        report = collect_garbage(self.store, dry_run=self.dry_run)
        facts = {"files": report.files, "bytes": report.bytes}
        state = self._state if report.files else "nothing to do"
        return _Done(state, f"{counted(report.files, 'file')} of old indexes", facts)


def _directories(snapshot: Snapshot) -> str:
    """A pattern for the paths of partitions' directories."""
    names = {name for field_ in partition_fields(snapshot) for name in (field_.name, field_.physical_name)}
    return f"/({'|'.join(re.escape(name) for name in sorted(names))})=[^/]*/?$" if names else "^$"


def _changes_files(snapshot: Snapshot) -> bool:
    """Whether any file was added or removed since the newest checkpoint."""
    if snapshot.segment.base is None:
        return True
    tail = tail_of(snapshot)
    return any(batch.num_rows for batch in tail.rows()) or bool(tail.keys)


def _index_target(snapshot: Snapshot, reached: int | None) -> int:
    """The version to index: the head if files changed since the newest index or checkpoint, else the latter's."""
    base = snapshot.segment.base_version
    if reached is None:
        return snapshot.version if _changes_files(snapshot) else base
    return snapshot.version if _has_files_after(snapshot, max(base, reached)) else base


def _has_files_after(snapshot: Snapshot, version: int) -> bool:
    """Whether a commit after a version names any file."""
    later = [commit.file for commit in snapshot.segment.commits if commit.last > version]
    return any(
        line.add is not None or line.remove is not None
        for meta in reversed(later)
        for lines in decode_lines(snapshot.commits.blocks(meta), BareFileLine, meta.path)
        for line in lines
    )
