"""Delete what no reader needs any more: old version files and checkpoints, and splits that no version has.

A version file goes only if it is older than the log's retention and than an hour, at or before a checkpoint that was
read and compared with a replay, not the newest, and not version 0. They go up to a checkpoint, so every version that is
left can still be opened. A split goes only if it is not live in any version that is left, was removed longer ago than
the retention, and its file is older than that, too: a young file may belong to a commit that is still to come.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_changes
from datetime import timedelta
from typing import Any, Final

from delta_sidecar.errors import CorruptLogError, LogGapError, ObjectNotFoundError, StorageError, VersionNotFoundError
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.segment import CheckpointFiles, CommitRange, LogListing
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.search.log.actions import to_wire
from delta_sidecar.search.log.checkpoints import SplitCheckpoint, open_checkpoint
from delta_sidecar.search.log.dialect import LOG_DIRECTORY, SEARCH
from delta_sidecar.search.log.opening import open_log, versions_of
from delta_sidecar.search.log.options import SearchOptions
from delta_sidecar.search.log.state import added_in, state_of
from delta_sidecar.search.table import present_ms, store_of
from delta_sidecar.search.writing.transactions import GRACE, Place, check_writable
from delta_sidecar.storage.store import ObjectMeta, Store

_log = logging.getLogger(__name__)

RETENTION: Final = timedelta(days=7)
_SUFFIX: Final = ".split"


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """What was deleted, or would be.

    Example:
        >>> from delta_sidecar.search import clean_log, create_table
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> clean_log("logs", dry_run=True).deleted
        ()
    """

    deleted: tuple[str, ...]
    """Paths below the table."""
    bytes: int
    oldest: int
    """The oldest version that can be opened then, version 0 aside."""
    notes: tuple[str, ...] = ()
    """What was kept although it is old, or could not be deleted, and why."""
    dry_run: bool = False


def clean_log(
    table: Place,
    *,
    dry_run: bool | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    now_ms: int | None = None,
) -> CleanupReport:
    """Delete version files and checkpoints that the log no longer needs. Versions before them cannot be opened then.

    Args:
        table: The table.
        dry_run: Only report; by default as the option `cleanup.dryRun` says.
        options: Settings by the names of note 004: `logRetention.duration` (less than an hour counts as an hour,
            because writers may be at work), `checkpointRetention.duration`, `cleanup.failurePolicy`, `cleanup.dryRun`.
        storage_options: Credentials and settings of the object store.
        now_ms: The time to compare with, in milliseconds since 1970; the present if not given.

    Raises:
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached, or does not delete a file and the policy is `fail`.

    Example:
        >>> from delta_sidecar.search import SearchTable, Split, append, checkpoint, clean_log, create_table
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> for number in range(3):
        ...     _ = append("logs", [Split(path=f"part-{number}.split")])
        >>> _ = checkpoint("logs")
        >>> report = clean_log("logs", options={"logRetention.duration": 0}, now_ms=4_000_000_000_000)
        >>> len(report.deleted), SearchTable("logs").versions()
        (2, [0, 3])
    """
    store = store_of(table, storage_options, SearchOptions.of(options))
    snapshot = open_log(store)
    check_writable(snapshot.protocol)
    settings = SearchOptions.of(options, snapshot.metadata.properties)
    return _LogCleaner(snapshot, settings, _present(now_ms)).clean(settings.dry_run if dry_run is None else dry_run)


def purge(
    table: Place,
    *,
    retention: timedelta = RETENTION,
    dry_run: bool | None = None,
    options: Mapping[str, Any] | SearchOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
    now_ms: int | None = None,
) -> CleanupReport:
    """Delete the files of splits that no version has any more, and of splits that were never committed.

    A split that an older version has stays until `clean_log` has deleted that version.

    Args:
        table: The table.
        retention: The file and its removal must be older than this. It must be longer than any job takes from writing
            a split to committing it.
        dry_run: Only report; by default as the option `cleanup.dryRun` says.
        options: Settings by the names of note 004: `cleanup.failurePolicy`, `cleanup.dryRun`.
        storage_options: Credentials and settings of the object store.
        now_ms: The time to compare with, in milliseconds since 1970; the present if not given.

    Raises:
        UnsupportedFeatureError: The table needs a writer feature that is unknown.
        CorruptTableError: The log is broken.
        StorageError: The store cannot be reached, or does not delete a file and the policy is `fail`.

    Example:
        >>> from pathlib import Path
        >>> from delta_sidecar.search import create_table, purge
        >>> _ = create_table("logs", '{"type":"struct","fields":[]}')
        >>> _ = Path("logs/never-committed.split").write_bytes(b"")
        >>> purge("logs").deleted, purge("logs", now_ms=4_000_000_000_000).deleted
        ((), ('never-committed.split',))
    """
    store = store_of(table, storage_options, SearchOptions.of(options))
    # Files first: what is added to the log later than this is not among them.
    files = [meta for page in store.list_after("") for meta in page if _is_split(meta.path)]
    snapshot = open_log(store)
    check_writable(snapshot.protocol)
    settings = SearchOptions.of(options, snapshot.metadata.properties)
    purger = _Purger(snapshot, settings, _present(now_ms), _ms(retention))
    return purger.purge(files, settings.dry_run if dry_run is None else dry_run)


def _present(now_ms: int | None) -> int:
    return present_ms() if now_ms is None else now_ms


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _is_split(path: str) -> bool:
    return path.endswith(_SUFFIX) and not path.startswith(f"{LOG_DIRECTORY}/")


@dataclass
class _Deletion:
    """Deletes files one by one, as the policy says."""

    store: Store
    settings: SearchOptions
    dry_run: bool
    notes: list[str] = field(default_factory=list)
    deleted: list[ObjectMeta] = field(default_factory=list)

    def delete(self, metas: Iterable[ObjectMeta]) -> None:
        for meta in metas:
            try:
                if not self.dry_run:
                    self.store.delete(meta.path)
            except StorageError as error:
                if self.settings.failure_policy == "fail":
                    raise
                self.notes.append(f"{meta.path} was not deleted: {error}")
                _log.warning("%s", self.notes[-1])
            else:
                self.deleted.append(meta)

    def report(self, oldest: int) -> CleanupReport:
        gone = self.deleted
        return CleanupReport(
            tuple(meta.path for meta in gone), sum(m.size for m in gone), oldest, tuple(self.notes), self.dry_run
        )


@dataclass
class _LogCleaner:
    snapshot: Snapshot
    settings: SearchOptions
    now: int
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.listing = list_log(self.snapshot.store, 0, SEARCH)

    @property
    def head(self) -> int:
        return self.snapshot.version

    def clean(self, dry_run: bool) -> CleanupReport:
        cut = self._cut()
        deletion = _Deletion(self.snapshot.store, self.settings, dry_run, self.notes)
        old = [] if cut is None else [self.listing.commits[v] for v in self._until(cut.version)]
        deletion.delete([*old, *self._old_checkpoints(cut)])
        left = [v for v in versions_of(self._without(deletion.deleted)) if v > 0]
        return deletion.report(left[0] if left else 0)

    def _until(self, version: int) -> list[int]:
        """The version files that a checkpoint of a version replaces: not the first, not the newest."""
        return [v for v in sorted(self.listing.commits) if 0 < v <= version and v != self.head]

    def _cut(self) -> CheckpointFiles | None:
        """The newest checkpoint that can stand for all version files up to it."""
        for checkpoint in self.listing.bases(self.head):
            files = [self.listing.commits[v] for v in self._until(checkpoint.version)]
            if all(map(self._is_deletable, files)) and self._is_right(checkpoint):
                return checkpoint
        return None

    def _is_older(self, meta: ObjectMeta, retention: timedelta) -> bool:
        return self.now - meta.last_modified_ms > _ms(retention)

    def _is_deletable(self, meta: ObjectMeta) -> bool:
        return self._is_older(meta, max(self.settings.log_retention, GRACE))

    def _is_right(self, checkpoint: CheckpointFiles) -> bool:
        """Whether a checkpoint can be read, and holds what the version files before it say."""
        try:
            opened = open_checkpoint(self.snapshot.store, checkpoint).read()
        except (CorruptLogError, ObjectNotFoundError) as error:
            self.notes.append(f"{checkpoint} does not stand for its version files: {error}")
            return False
        replayed = self._replayed(checkpoint)
        if replayed is None or replayed == _content(opened):
            return True
        self.notes.append(f"{checkpoint} differs from a replay, so its version files are kept; write a new one")
        return False

    def _replayed(self, checkpoint: CheckpointFiles) -> dict[str, Any] | None:
        """The splits of a checkpoint's version without it; None if they cannot be had in another way."""
        older = [c for c in self.listing.checkpoints if c.version < checkpoint.version]
        for base in (*older, None):
            try:
                segment = self.listing.segment(checkpoint.version, base)
                state = state_of(with_changes(self.snapshot, segment=segment, listing=self.listing, opened=None))
            except (LogGapError, VersionNotFoundError, CorruptLogError, ObjectNotFoundError):
                continue
            return {split.path: to_wire(split) for split in state.splits}
        return None

    def _old_checkpoints(self, cut: CheckpointFiles | None) -> list[ObjectMeta]:
        """Checkpoints without which every version can still be opened that could be opened before, from the cut on."""
        newest = next(iter(self.listing.bases(self.head)), None)
        anchor = cut
        if anchor is None and not self._is_complete(None):
            anchor = next((c for c in reversed(self.listing.checkpoints) if self._is_complete(c)), newest)
        if newest is None or not self._is_complete(anchor):
            return []
        kept = {newest.version, newest.version if anchor is None else anchor.version}
        return [
            meta
            for checkpoint in self.listing.checkpoints
            if checkpoint.version not in kept and checkpoint.version <= self.head
            for meta in checkpoint.files
            if self._is_older(meta, self.settings.checkpoint_retention)
        ]

    def _is_complete(self, base: CheckpointFiles | None) -> bool:
        try:
            self.listing.segment(self.head, base)
        except (LogGapError, VersionNotFoundError):
            return False
        return True

    def _without(self, deleted: Iterable[ObjectMeta]) -> LogListing:
        gone = {meta.path for meta in deleted}
        listing = self.listing
        return LogListing(
            0,
            {v: meta for v, meta in listing.commits.items() if meta.path not in gone},
            tuple(c for c in listing.checkpoints if not {m.path for m in c.files} & gone),
        )


def _content(checkpoint: SplitCheckpoint) -> dict[str, Any]:
    return {split.path: to_wire(split) for split in checkpoint.splits}


@dataclass
class _Purger:
    snapshot: Snapshot
    settings: SearchOptions
    now: int
    retention_ms: int
    notes: list[str] = field(default_factory=list)

    def purge(self, files: Iterable[ObjectMeta], dry_run: bool) -> CleanupReport:
        state = state_of(self.snapshot)
        store, keys = self.snapshot.store, state.keys
        listing = list_log(store, 0, SEARCH)
        since = self.now - self.retention_ms
        young = {key for key, gone in state.removed.items() if (gone.deletionTimestamp or self.now) >= since}
        kept = set(state.by_key) | young | set(keys.keys(self._named(listing)))
        dead = [f for f in files if f.last_modified_ms < since and keys.key(f.path) not in kept]
        if dead:
            late = list_log(store, self.snapshot.version + 1, SEARCH)
            kept = set(keys.keys(self._named(late)))
            dead = [f for f in dead if keys.key(f.path) not in kept]
        deletion = _Deletion(store, self.settings, dry_run, self.notes)
        deletion.delete(dead)
        left = [v for v in versions_of(listing) if v > 0]
        return deletion.report(left[0] if left else 0)

    def _named(self, listing: LogListing) -> Iterable[Any]:
        """Every split that a file of the log adds."""
        commits = [CommitRange(v, v, meta) for v, meta in sorted(listing.commits.items())]
        yield from added_in(self.snapshot, commits)
        for checkpoint in listing.checkpoints:
            try:
                yield from open_checkpoint(self.snapshot.store, checkpoint).splits
            except (CorruptLogError, ObjectNotFoundError) as error:
                self.notes.append(f"{checkpoint} was not read: {error}")
