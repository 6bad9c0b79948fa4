"""A target that follows a source: step by step, from where it is, whatever happened to the last run.

Two places say how far a target has come: its own log, by the transaction of the last commit, and a cursor. The log is
right; the cursor may be behind it if a run died after its commit. The cursor also says where a started step ends, so
whoever repeats it, or runs it at the same time, commits the same transaction, and Delta accepts one of them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from delta_sidecar.errors import (
    CleanedUpError,
    ConflictError,
    CursorError,
    DeltaSidecarError,
    FeedStartsLaterError,
    OptionError,
    OtherTableError,
    SchemaChangedError,
    StoreUnavailableError,
)
from delta_sidecar.flow.backoff import backoff
from delta_sidecar.lake.change_apply import (
    AppliedChanges,
    MergeStrategy,
    TargetTable,
    Way,
    applied,
    check_schema,
    check_vacant,
    strategy_of,
    txn_app_id,
)
from delta_sidecar.lake.change_feed import (
    CdfReadOptions,
    ChangeFilter,
    FeedRange,
    SourceTable,
    check_names,
    commit_digest,
    feed_range,
    result_of,
)
from delta_sidecar.lake.cursors import (
    NOTHING_YET,
    CdfCursor,
    CdfCursorStore,
    CursorTarget,
    cursor_name,
    state_beside,
)
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.log.travel import transaction_version
from delta_sidecar.pipeline.bucketed_table import load_table
from delta_sidecar.pipeline.conflicts import RetryPolicy
from delta_sidecar.pipeline.reach import check_reach
from delta_sidecar.pipeline.session import set_storage_options
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.uri import canonical_uri

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
Kind: TypeAlias = Literal["snapshot", "changes", "recovered"]
LONGEST_PAUSE: Final = 300.0
"""Longest pause after failures in seconds, unless the interval is longer."""


@dataclass(frozen=True, slots=True)
class SyncStep:
    """One step of a sync.

    Example:
        >>> from delta_sidecar.lake import sync
        >>> (step,) = sync(spark, here / "events", here / "copy", key=["id"]).steps
        >>> step.kind, step.end, step.inserted
        ('snapshot', 3, 8)
    """

    kind: Kind
    """`snapshot`: all rows; `changes`: those of some versions; `recovered`: the target had them, the cursor moved."""
    start: int
    end: int
    """Versions of the source."""
    target_version: int | None = None
    """The commit in the target; None where nothing was to be written."""
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync did, or would do.

    Example:
        >>> from delta_sidecar.lake import sync
        >>> sync(spark, here / "events", here / "copy", key=["id"], dry_run=True).is_current
        False
    """

    source: str
    target: str
    name: str
    """The cursor's name."""
    strategy: str
    dry_run: bool
    version: int | None
    """The version of the source that the target has; None if it has none yet."""
    head: int
    """The newest version of the source."""
    steps: tuple[SyncStep, ...]
    """The steps that were done; of a dry run, the next one."""
    seconds: float

    @property
    def is_current(self) -> bool:
        """Whether the target has the newest version of the source."""
        return self.version == self.head


def sync(
    spark: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    key: Sequence[str] = (),
    strategy: MergeStrategy | str = MergeStrategy.UPSERT,
    state: str | os.PathLike[str] | None = None,
    name: str | None = None,
    change_filter: ChangeFilter | str = ChangeFilter.INCLUDE_ALL,
    max_versions: int | None = None,
    full: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
    on_step: Callable[[SyncStep], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> SyncReport:
    """Bring a target up to the newest version of a source.

    The first run copies all rows of the source to the target, and creates it if there is none. Each later run applies
    what has changed since. You can kill it at any moment and run it again: every change is applied once.

    Args:
        spark: A session, classic or Connect.
        source: The location of a table with a change feed (which `REPLACE` does not need).
        target: The location of the target.
        key: The columns that identify a row, for `UPSERT`.
        strategy: `UPSERT`, `APPEND` or `REPLACE`, or its name.
        state: Where the cursor is; in the target's directory if not given.
        name: The cursor's name; the last part of the source's location if not given.
        change_filter: Which changes to apply; see `ChangeFilter`.
        max_versions: The largest number of versions in one step; all new ones if not given.
        full: Start over with all rows of the source, which overwrite the target.
        dry_run: Only say what the next step would be.
        storage_options: Credentials and settings of the object stores, as for `DeltaTable`.
        retry: How often to try again after a conflict with another writer of the target.
        on_step: Called with each step that was done.
        progress: Called with one line of text whenever something begins.

    Returns:
        A `SyncReport`.

    Raises:
        TableNotFoundError: There is no source.
        NoChangeFeedError: The source has no change feed, or it begins later than the changes that are needed.
        OtherTableError: Source or target is another table than the one that the cursor belongs to.
        CleanedUpError: Changes that are needed are no longer in the source's log.
        SchemaChangedError: The source's schema changed by more than new columns.
        DuplicateKeyError: Several rows of the source have the same key.
        InputError: The target has rows that the sync did not write, or `APPEND` gets updates or deletes.
        OptionError: An argument is wrong.
        ConflictError: Other writers of the target committed first, at every attempt.

    Example:
        >>> from delta_sidecar.lake import sync
        >>> sync(spark, here / "events", here / "copy", key=["id"]).version
        3
        >>> sync(spark, here / "events", here / "copy", key=["id"]).steps
        ()
    """
    job = job_of(source, target, key, strategy, state, name, change_filter, max_versions, storage_options, retry)
    return job.run(lambda: spark, full=full, dry_run=dry_run, on_step=on_step, progress=progress)


def job_of(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    key: Sequence[str],
    strategy: MergeStrategy | str,
    state: str | os.PathLike[str] | None,
    name: str | None,
    change_filter: ChangeFilter | str,
    max_versions: int | None,
    storage_options: Mapping[str, str] | None,
    retry: RetryPolicy | None = None,
) -> SyncJob:
    """The job that the arguments of `sync` mean."""
    return SyncJob(
        source=str(source),
        target=str(target),
        way=Way(strategy_of(strategy), tuple(key), retry or RetryPolicy()),
        state=state_beside(target) if state is None else str(state),
        name=cursor_name(source) if name is None else name,
        change_filter=filter_of(change_filter),
        max_versions=max_versions,
        storage_options=storage_options,
    )


def filter_of(change_filter: ChangeFilter | str) -> ChangeFilter:
    """The filter of that name."""
    try:
        return ChangeFilter(change_filter)
    except ValueError:
        known = ", ".join(each.value for each in ChangeFilter)
        raise OptionError(f"filter {change_filter!r} is not known; use one of {known}") from None


def _ignore(*event: object) -> None:
    """The default callback: does nothing."""


@dataclass(frozen=True, slots=True)
class _Next:
    """The next step, found without Spark."""

    range: FeedRange
    done: int
    """The version that the target has; -1 if none."""
    recovered: tuple[int, int] | None
    """The versions that the target has and the cursor does not know of."""
    reached: int | None
    """The version that the target's log names."""


@dataclass(frozen=True, slots=True)
class SyncJob:
    """One source, one target, and the state between runs."""

    source: str
    target: str
    way: Way
    state: str
    name: str
    change_filter: ChangeFilter = ChangeFilter.INCLUDE_ALL
    max_versions: int | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if canonical_uri(self.source) == canonical_uri(self.target):
            raise OptionError(f"{self.source} is both source and target; name another target")
        if self.max_versions is not None and self.max_versions < 1:
            raise OptionError(f"max_versions is {self.max_versions}; give 1 or more")
        if self.way.strategy is MergeStrategy.REPLACE and self.change_filter is not ChangeFilter.INCLUDE_ALL:
            raise OptionError("strategy replace takes all rows, not changes: leave the filter out")

    @property
    def holds(self) -> str:
        """Which rows the target has: those of the source, all that were inserted, or others."""
        if self.way.strategy is MergeStrategy.APPEND:
            return "inserts"
        if self.change_filter is ChangeFilter.INCLUDE_ALL:
            return "rows"
        return f"{self.way.strategy.value}, {self.change_filter.value}"

    @property
    def cursors(self) -> CdfCursorStore:
        return CdfCursorStore(self.state, self.storage_options)

    def run(
        self,
        session: Callable[[], SparkSession],
        *,
        full: bool = False,
        dry_run: bool = False,
        on_step: Callable[[SyncStep], None] | None = None,
        progress: Callable[[str], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> SyncReport:
        """Step by step up to the source's newest version; `session` is asked for when a step needs Spark."""
        begun = time.monotonic()
        say, told = progress or _ignore, on_step or _ignore
        say(f"looking at {self.source}")
        steps: list[SyncStep] = []
        coming = self.next(full)
        if not full and coming.range.is_empty and self._is_to_be_replaced():
            full, coming = True, self.next(True)
        if dry_run:
            return self._report(True, coming.done, coming.range.head.version, _planned(coming), begun)
        if full:
            self._forget()
        while True:
            if coming.recovered is not None:
                steps.append(self._recover(coming))
                told(steps[-1])
            if coming.range.is_empty or stop():
                return self._report(False, coming.done, coming.range.head.version, steps, begun)
            steps.append(self._step(coming, session, full and not steps, say))
            told(steps[-1])
            if steps[-1].end >= coming.range.head.version:
                return self._report(False, steps[-1].end, coming.range.head.version, steps, begun)
            coming = self.next()

    def _report(self, dry_run: bool, done: int, head: int, steps: Sequence[SyncStep], begun: float) -> SyncReport:
        version = None if done == NOTHING_YET else done
        seconds = time.monotonic() - begun
        return SyncReport(
            self.source, self.target, self.name, self.way.strategy.value, dry_run, version, head, tuple(steps), seconds
        )

    def next(self, full: bool = False) -> _Next:
        """What is to be done next: pinned, and known to be readable and to fit the target.

        The cursor first, the source last: another run at the same time moves the target before the cursor, and neither
        beyond the source.
        """
        cursor = self.cursors.load(self.name)
        target = load_table(open_store(self.target, self.storage_options))
        head = load_snapshot(open_store(self.source, self.storage_options))
        reached = None if target is None else transaction_version(target, self._app_id(head))
        if full:
            found = feed_range(head, CdfReadOptions(), None, self._needs_feed)
            self.way.check_key(found.schema)
            return _Next(found, NOTHING_YET, None, reached)
        self._check_same(cursor, head, target, reached)
        known = NOTHING_YET if cursor is None else cursor.last_version
        done = max(known, NOTHING_YET if reached is None else reached)
        recovered = (known + 1, done) if done > known else None
        try:
            found = feed_range(head, self._options(cursor, done), self._at(done, head), self._needs_feed)
            check_names(found)
        except (CleanedUpError, FeedStartsLaterError, SchemaChangedError) as error:
            raise type(error)(f"{error}; or start over with all rows of the source (full)") from error
        self.way.check_key(found.schema)
        if done == NOTHING_YET:
            check_vacant(target, self.target)
        if target is not None and self.way.strategy is not MergeStrategy.REPLACE and not found.is_empty:
            check_schema(found.schema, target.schema, self.target)
        return _Next(found, done, recovered, reached)

    def _is_to_be_replaced(self) -> bool:
        """Whether a replace is due although the source has nothing new: someone else created or changed the target."""
        cursor = self.cursors.load(self.name)
        target = load_table(open_store(self.target, self.storage_options))
        if self.way.strategy is not MergeStrategy.REPLACE or cursor is None or target is None:
            return False
        return cursor.target is None or (cursor.target.holds, cursor.target.version) != (self.holds, target.version)

    @property
    def _needs_feed(self) -> bool:
        return self.way.strategy is not MergeStrategy.REPLACE

    def _app_id(self, head: Snapshot) -> str:
        return txn_app_id(head.metadata.id, self.target, self.name)

    def _at(self, done: int, head: Snapshot) -> CdfCursor:
        return CdfCursor(dataset_name=self.name, last_version=done, table_id=head.metadata.id)

    def _options(self, cursor: CdfCursor | None, done: int) -> CdfReadOptions:
        """A step that was started ends where it was planned to end."""
        planned = None if cursor is None else cursor.planned_version
        if planned is not None and planned > done:
            return CdfReadOptions(end_version=planned, change_filter=self.change_filter)
        return CdfReadOptions(change_filter=self.change_filter, max_versions=self.max_versions)

    def _check_same(
        self, cursor: CdfCursor | None, head: Snapshot, target: Snapshot | None, reached: int | None
    ) -> None:
        """Whether source and target are the tables that the cursor knows."""
        if cursor is None:
            return
        cursor.check_table(head.metadata.id, self.source)
        if cursor.last_commit is not None and cursor.last_version <= head.version:
            cursor.check_commit(commit_digest(head, cursor.last_version), self.source)
        newest = max(cursor.last_version, cursor.planned_version or 0)
        if newest > head.version:
            raise OtherTableError(
                f"cursor {self.name!r} is at version {newest}, but the newest of {self.source} is {head.version}: "
                "the table was restored or created again; start over with all its rows (full)"
            )
        before = cursor.target
        if cursor.last_version != NOTHING_YET and target is None:
            raise OtherTableError(
                f"cursor {self.name!r} says that {self.target} has version {cursor.last_version} of the source, but "
                "there is no table; start over with all rows of the source (full)"
            )
        if before is None or target is None:
            return
        if before.table_id not in (None, target.metadata.id):
            raise OtherTableError(
                f"cursor {self.name!r} belongs to target {before.table_id}, but {self.target} is now table "
                f"{target.metadata.id}; start over with all rows of the source (full)"
            )
        if self.way.strategy is not MergeStrategy.REPLACE and before.holds not in (None, self.holds):
            raise OptionError(
                f"{self.target} was written with another strategy or filter ({before.holds}); use that one, or start "
                "over with all rows of the source (full)"
            )
        if None not in (before.txn_version, reached) and (reached or 0) < (before.txn_version or 0):
            raise OtherTableError(
                f"{self.target} has version {reached} of the source, but its cursor says {before.txn_version}: an "
                "older copy was restored; start over with all rows of the source (full)"
            )

    def _forget(self) -> None:
        if self.cursors.load(self.name) is not None:
            self.cursors.reset(self.name)

    def _recover(self, coming: _Next) -> SyncStep:
        """The target has changes that the cursor does not know of: a run died between its commit and the cursor."""
        assert coming.recovered is not None
        first, last = coming.recovered
        self._move(coming.range, last, coming.reached)
        return SyncStep("recovered", max(0, first), last)

    def _move(self, found: FeedRange, version: int, reached: int | None) -> None:
        target = load_table(open_store(self.target, self.storage_options))
        known = CursorTarget(holds=self.holds, txn_version=reached)
        if target is not None:
            known = msgspec.structs.replace(known, table_id=target.metadata.id, version=target.version)
        commit = commit_digest(found.head, version)
        try:
            self.cursors.advance(self.name, version, table_id=found.table_id, commit=commit, target=known)
        except CursorError:
            # Another run of the same sync was faster, and has gone on.
            now = self.cursors.load(self.name)
            if now is None or now.last_version < version:
                raise

    def _step(
        self, coming: _Next, session: Callable[[], SparkSession], overwrite: bool, say: Callable[[str], None]
    ) -> SyncStep:
        begun = time.monotonic()
        found = coming.range
        if not self._has_begun(coming):
            # Another run of the same sync has begun another step meanwhile, or is done with this one.
            again = self.next()
            if again.done != coming.done or again.range.is_empty:
                return SyncStep("recovered", coming.done + 1, again.done)
            coming, found = again, again.range
        say(_doing(found, self.way))
        done = self._applied(found, session(), overwrite)
        reached = found.end if done.version is not None or done.was_there else coming.reached
        self._move(found, found.end, reached)
        kind: Kind = "snapshot" if found.is_snapshot else "changes"
        first = 0 if found.is_snapshot and coming.done == NOTHING_YET else coming.done + 1
        return SyncStep(
            "recovered" if done.was_there else kind, first, found.end, done.version, done.inserted, done.updated,
            done.deleted, time.monotonic() - begun,
        )  # fmt: skip

    def _has_begun(self, coming: _Next) -> bool:
        """Say that the step begins; whether it is still the next one."""
        end, table_id = coming.range.end, coming.range.table_id
        try:
            return self.cursors.plan(self.name, end, table_id=table_id, after=coming.done) == end
        except CursorError:
            return False

    def _applied(self, found: FeedRange, spark: SparkSession, overwrite: bool) -> AppliedChanges:
        from dataclasses import replace

        set_storage_options(spark, [self.source, self.target], self.storage_options)
        for uri in (self.source, self.target):
            check_reach(spark, uri)
        source = SourceTable(spark, self.source, self.storage_options)
        changes = result_of(source, CdfReadOptions(change_filter=self.change_filter), found)
        target = TargetTable(spark, self.target, self._app_id(found.head), self.storage_options)
        return applied(changes, target, replace(self.way, overwrite=overwrite))


def _planned(coming: _Next) -> list[SyncStep]:
    steps = [] if coming.recovered is None else [SyncStep("recovered", max(0, coming.recovered[0]), coming.done)]
    found = coming.range
    if found.is_empty:
        return steps
    return [*steps, SyncStep("snapshot" if found.is_snapshot else "changes", max(0, coming.done + 1), found.end)]


def _doing(found: FeedRange, way: Way) -> str:
    if found.is_snapshot:
        return f"writing all rows of version {found.end}"
    return f"{way.strategy.value} of versions {found.start} to {found.end} of {found.head.version}"


def keep_in_sync(
    run: Callable[[], object],
    stop: threading.Event,
    interval: float,
    on_error: Callable[[DeltaSidecarError, float], None] | None = None,
) -> int:
    """Run a sync again and again until `stop` is set; how often it ran. Failures that pass by themselves (the store
    does not answer, other writers are faster) are tried again after pauses that double; others are raised."""
    runs = failed = 0
    while not stop.is_set():
        runs += 1
        try:
            run()
        except (StoreUnavailableError, ConflictError) as error:
            failed += 1
            delay = backoff(interval, failed, max(interval, LONGEST_PAUSE))
            _log.warning("%s; trying again in %.0f s", error, delay)
            (on_error or _ignore)(error, delay)
            stop.wait(delay)
        else:
            failed = 0
            stop.wait(interval)
    return runs
