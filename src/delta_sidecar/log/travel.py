"""Time travel and history: which version was current at a time, and the `commitInfo` of each commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from delta_sidecar.errors import CorruptLogError, InputError, VersionNotFoundError
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.actions import InfoLine, Metadata, Transaction, TransactionLine
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.log.segment import CommitRange, LogListing
from delta_sidecar.log.snapshot import Snapshot, newest_first
from delta_sidecar.storage.store import ObjectMeta, Store

_ENABLED = "delta.enableInCommitTimestamps"
_SINCE_VERSION = "delta.inCommitTimestampEnablementVersion"
_SINCE_TIMESTAMP = "delta.inCommitTimestampEnablementTimestamp"


def milliseconds_of(instant: str | datetime) -> int:
    """An instant in milliseconds, rounded down; without a zone it is UTC."""
    if isinstance(instant, str):
        try:
            instant = datetime.fromisoformat(instant)
        except ValueError:
            raise InputError(f"{instant!r} is not a time; write it as 2026-02-10T22:00:00Z") from None
    aware = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    elapsed = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1000 + elapsed.microseconds // 1000


def version_at(store: Store, head: Snapshot, instant_ms: int) -> int:
    """The newest version at or before an instant; `head` is the newest snapshot."""
    return _clock(store, head).version_at(instant_ms)


def version_from(store: Store, head: Snapshot, instant_ms: int) -> int:
    """The oldest version at or after an instant; the one after `head` if there is none."""
    return _clock(store, head).version_from(instant_ms)


def version_until(store: Store, head: Snapshot, instant_ms: int) -> int:
    """The newest version at or before an instant, which may be after `head`."""
    return _clock(store, head).version_until(instant_ms)


def _clock(store: Store, head: Snapshot) -> _Clock:
    listing = list_log(store, 0)
    first = _first_rebuildable(listing, head.version)
    versions = [v for v in range(first, head.version + 1) if v in listing.commits]
    if not versions:
        raise VersionNotFoundError(f"no commit of {store.root_uri} is left to find a time; give a version number")
    return _Clock(store, head.metadata, listing, versions)


def _first_rebuildable(listing: LogListing, head: int) -> int:
    """The oldest version that can still be rebuilt: version 0, or the oldest complete checkpoint."""
    if 0 in listing.commits:
        return 0
    return min((c.version for c in listing.bases(head)), default=head)


class _Clock:
    """The times of versions: in-commit timestamps where the table has them, file times before."""

    def __init__(self, store: Store, metadata: Metadata, listing: LogListing, versions: list[int]) -> None:
        self._commits = CommitBytes(store)
        self._listing = listing
        self._versions = versions
        properties = metadata.properties
        enabled = properties.get(_ENABLED, "false").lower() == "true"
        self._since = int(properties.get(_SINCE_VERSION, 0)) if enabled else None
        self._since_ms = int(properties.get(_SINCE_TIMESTAMP, 0)) if enabled else None

    def version_at(self, instant_ms: int) -> int:
        if instant_ms > self._time(self._versions[-1]):
            raise self._out_of_bounds(instant_ms)
        return self.version_until(instant_ms)

    def version_until(self, instant_ms: int) -> int:
        version = self._last(instant_ms)
        if version is None:
            raise self._out_of_bounds(instant_ms)
        return version

    def version_from(self, instant_ms: int) -> int:
        before = self._last(instant_ms - 1)
        return self._versions[0] if before is None else before + 1

    def _last(self, instant_ms: int) -> int | None:
        """The newest version at or before an instant; None if there is none."""
        by_commit = [v for v in self._versions if self._since is not None and v >= self._since]
        by_file = [v for v in self._versions if self._since is None or v < self._since]
        if by_commit and (not by_file or instant_ms >= (self._since_ms or 0)):
            return self._last_in_commit(by_commit, instant_ms)
        return _last_by_file(self._file_times(by_file), instant_ms)

    def _time(self, version: int) -> int:
        if self._since is not None and version >= self._since:
            return self._in_commit(version)
        older = [v for v in self._versions if self._since is None or v < self._since]
        return dict(self._file_times(older))[version]

    def _last_in_commit(self, versions: list[int], instant_ms: int) -> int | None:
        """In-commit timestamps only grow, so a handful of commits tells."""
        low, high = 0, len(versions)
        while low < high:
            middle = (low + high) // 2
            if self._in_commit(versions[middle]) <= instant_ms:
                low = middle + 1
            else:
                high = middle
        return versions[low - 1] if low else None

    def _in_commit(self, version: int) -> int:
        info = commit_info(self._commits, self._listing.commits[version])
        timestamp = (info or {}).get("inCommitTimestamp")
        if not isinstance(timestamp, int):
            raise CorruptLogError(f"commit {version} has no in-commit timestamp although the table enables them")
        return timestamp

    def _file_times(self, versions: list[int]) -> list[tuple[int, int]]:
        """File times made strictly increasing."""
        times: list[tuple[int, int]] = []
        for version in versions:
            modified = self._listing.commits[version].last_modified_ms
            times.append((version, max(modified, times[-1][1] + 1) if times else modified))
        return times

    def _out_of_bounds(self, instant_ms: int) -> VersionNotFoundError:
        first, last = self._versions[0], self._versions[-1]
        return VersionNotFoundError(
            f"no version at {_iso(instant_ms)}; version {first}, the oldest that can be rebuilt, is from "
            f"{_iso(self._time(first))}, and version {last}, the newest, is from {_iso(self._time(last))}"
        )


def _last_by_file(times: list[tuple[int, int]], instant_ms: int) -> int | None:
    return max((version for version, time in times if time <= instant_ms), default=None)


def _iso(instant_ms: int) -> str:
    try:
        return datetime.fromtimestamp(instant_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{instant_ms} ms"


def commit_info(commits: CommitBytes, meta: ObjectMeta) -> dict[str, Any] | None:
    """A commit's `commitInfo`, where it has one."""
    for lines in decode_lines(commits.blocks(meta), InfoLine, meta.path):
        for line in lines:
            if line.commitInfo is not None:
                return line.commitInfo
    return None


def history(store: Store, version: int, limit: int | None, limits: CommitLimits) -> Iterator[dict[str, Any]]:
    """What each commit up to `version` says of itself, newest first."""
    listing = list_log(store, 0)
    versions = sorted(v for v in listing.commits if v <= version)
    chosen = versions if limit is None else versions[max(0, len(versions) - limit) :]
    commits = CommitBytes(store, replace(limits, held_bytes=0))
    ranges = [CommitRange(v, v, listing.commits[v]) for v in chosen]
    for commit in newest_first(ranges, commits):
        info = commit_info(commits, commit.file) or {}
        commits.discard(commit.file)
        own = {"version": commit.last}
        yield {**own, "timestamp": commit.file.last_modified_ms, **info, **own}


def transaction_version(snapshot: Snapshot, app_id: str) -> int | None:
    """How far an application has written, by its newest `txn` action."""
    newest = newest_transaction(snapshot, lambda name: name == app_id)
    return None if newest is None else newest.version


def newest_transaction(snapshot: Snapshot, is_wanted: Callable[[str], bool]) -> Transaction | None:
    """The newest `txn` action of an application whose name is wanted."""
    snapshot = snapshot.on_checkpoint()
    for commit in newest_first(snapshot.segment.commits, snapshot.commits):
        transactions = [t for t in _transactions(snapshot.commits, commit.file) if is_wanted(t.appId)]
        if transactions:
            return transactions[-1]
    base = snapshot.open_base()
    return None if base is None else base.newest_transaction(is_wanted)


def _transactions(commits: CommitBytes, meta: ObjectMeta) -> Iterator[Transaction]:
    for lines in decode_lines(commits.blocks(meta), TransactionLine, meta.path):
        yield from (line.txn for line in lines if line.txn is not None)
