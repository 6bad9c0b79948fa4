"""A range of versions whose changes are read: its commits, their times, and the table's state through it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from delta_sidecar.errors import (
    CleanedUpError,
    FeedStartsLaterError,
    InputError,
    LogGapError,
    NoChangeFeedError,
    ObjectNotFoundError,
    VersionAfterLatestError,
    VersionRangeError,
)
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.actions import Metadata, Protocol
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import Discovery, list_log
from delta_sidecar.log.protocol import check_protocol, mapping_mode
from delta_sidecar.log.segment import CommitRange, LogListing
from delta_sidecar.log.snapshot import Snapshot, fetched_ahead, snapshot_of, state_of_commit

if TYPE_CHECKING:
    from delta_sidecar.values.types import StructType

_FEED: Final = "delta.enableChangeDataFeed"
_EARLIER: Final = 100
"""Commits before the range whose file times count: where times are not in order, an earlier one moves a later one. As
many as Spark looks at, so that both give the same times."""


@dataclass(frozen=True, slots=True)
class TableState:
    """Protocol and metadata from a version on."""

    version: int
    protocol: Protocol
    metadata: Metadata

    @property
    def has_feed(self) -> bool:
        return _has_feed(self.metadata)

    @property
    def mapping_mode(self) -> str:
        return mapping_mode(self.protocol, self.metadata)

    def schema(self) -> StructType:
        from delta_sidecar.values.types import StructType, parse_schema

        text = self.metadata.schemaString
        return parse_schema(text, self.mapping_mode) if text else StructType()


@dataclass(frozen=True, slots=True)
class TimedCommit:
    """A commit and the time of its file, in milliseconds since 1970; times are in order."""

    version: int
    commit: CommitRange
    file_time_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class ChangeRange:
    """Commits whose changes can be read: all are there, and the feed is on at each version."""

    commits: tuple[TimedCommit, ...]
    """Oldest first."""
    states: tuple[TableState, ...]
    """What the table was at the first version, and at each that changed it."""
    end: TableState
    """What the table is at the last version."""
    bytes: CommitBytes

    @property
    def same_schema_since(self) -> int:
        """The first version from which on the table has the schema of the end."""
        since = self.end.version
        for state in reversed(self.states):
            if state.metadata.schemaString != self.end.metadata.schemaString:
                return since
            since = state.version
        return since

    def oldest_first(self) -> Iterator[TimedCommit]:
        """The commits, fetched a few ahead and released once the next one is asked for."""
        ahead = fetched_ahead([timed.commit for timed in self.commits], self.bytes)
        for timed, commit in zip(self.commits, ahead, strict=True):
            yield timed
            self.bytes.discard(commit.file)


def change_range(snapshot: Snapshot, start: int, end: int | None, limits: CommitLimits) -> ChangeRange:
    """Pin versions `start` … `end`, at most up to the snapshot's.

    It reads the commits for changes of protocol and metadata, and keeps them in memory as far as the limits allow. At
    most one LIST is sent unless an older schema has to be looked for.
    """
    last = _checked(snapshot, start, end)
    listing = snapshot.listing
    if listing.start > max(0, start - _EARLIER):
        listing = list_log(snapshot.store, max(0, start - _EARLIER))
    _check_complete(listing, start, last, snapshot)
    commits = snapshot.commits.through(snapshot.store, limits)
    states = _States(snapshot, listing, commits)
    end_state = states.at(last)
    through = states.through(start, last, end_state)
    for state in through:
        check_protocol(state.protocol)
        if not state.has_feed:
            raise _no_feed(states, state, start, last)
    return ChangeRange(_timed(listing, start, last), through, end_state, commits)


def empty_range(snapshot: Snapshot) -> ChangeRange:
    """No commit at all, with the schema of a snapshot."""
    state = TableState(snapshot.version, snapshot.protocol, snapshot.metadata)
    return ChangeRange((), (), state, snapshot.commits)


@contextmanager
def still_there(version: int) -> Iterator[None]:
    """A commit that is gone although it was listed was cleaned up meanwhile."""
    try:
        yield
    except ObjectNotFoundError:
        raise CleanedUpError(f"commit {version} was cleaned up while its changes were read; start after it") from None


def _checked(snapshot: Snapshot, start: int, end: int | None) -> int:
    latest, where = snapshot.version, snapshot.store.root_uri
    if start < 0:
        raise InputError(f"changes cannot start at version {start}; give 0 or more")
    if end is not None and end < start:
        raise VersionRangeError(f"the range of changes ends at version {end}, before its start {start}; swap them")
    if start > latest:
        raise VersionAfterLatestError(
            f"no version {start} at {where}: the newest that is open is {latest}, so there is nothing new; "
            "open the table again later"
        )
    return latest if end is None else min(end, latest)


def _check_complete(listing: LogListing, start: int, last: int, snapshot: Snapshot) -> None:
    missing = next((v for v in range(start, last + 1) if v not in listing.commits), None)
    if missing is None:
        return
    where = snapshot.store.root_uri
    left = [v for v in listing.commits if v <= snapshot.version]
    if left and missing > min(left):
        raise LogGapError(f"commit {missing} is missing from the log of {where}; restore the file or start after it")
    rest = f"start at {min(left)}, the oldest that is left" if left else "no commit is left; read the table's rows"
    raise CleanedUpError(f"commit {missing} of {where} was cleaned up, so its changes are gone; {rest}")


def _timed(listing: LogListing, start: int, last: int) -> tuple[TimedCommit, ...]:
    times: dict[int, int] = {}
    previous: int | None = None
    for version in range(max(0, start - _EARLIER), last + 1):
        if version in listing.commits:
            modified = listing.commits[version].last_modified_ms
            previous = times[version] = modified if previous is None else max(modified, previous + 1)
    return tuple(
        TimedCommit(version, CommitRange(version, version, listing.commits[version]), times[version])
        for version in range(start, last + 1)
    )


class _States:
    """Finds protocol and metadata of the versions of a range."""

    def __init__(self, snapshot: Snapshot, listing: LogListing, commits: CommitBytes) -> None:
        self._snapshot = snapshot
        self._listing = listing
        self._commits = commits

    @property
    def where(self) -> str:
        return self._snapshot.store.root_uri

    def at(self, version: int) -> TableState:
        """What the table was at a version."""
        found = self._snapshot
        if version < found.version:
            found = snapshot_of(found.store, Discovery(self._listing, self._commits), version)
        return TableState(version, found.protocol, found.metadata)

    def through(self, start: int, last: int, end: TableState) -> tuple[TableState, ...]:
        """What the table was at `start`, and at each version that changed it. Only if something changed after `start`,
        the state there has to be looked for: otherwise it is that at the end."""
        changes = dict(self._changes(start, last))
        protocol, metadata = changes.pop(start, (None, None))
        later = changes.values()
        if protocol is None or metadata is None:
            differs = any((p and protocol is None) or (m and metadata is None) for p, m in later)
            first = self.at(start) if differs else end
            protocol, metadata = protocol or first.protocol, metadata or first.metadata
        states = [TableState(start, protocol, metadata)]
        for version, (new_protocol, new_metadata) in changes.items():
            protocol, metadata = new_protocol or protocol, new_metadata or metadata
            states.append(TableState(version, protocol, metadata))
        return tuple(states)

    def feed_begins(self, after: int) -> int | None:
        """The first version after another that turns the feed on; None if none does."""
        for version, (_, metadata) in self._changes(after + 1, self._snapshot.version):
            if metadata is not None and _has_feed(metadata):
                return version
        return None

    def _changes(self, start: int, last: int) -> Iterator[tuple[int, tuple[Protocol | None, Metadata | None]]]:
        metas = [(v, self._listing.commits[v]) for v in range(start, last + 1) if v in self._listing.commits]
        for commit in fetched_ahead([CommitRange(v, v, meta) for v, meta in metas], self._commits):
            with still_there(commit.last):
                protocol, metadata = state_of_commit(self._commits, commit)
            if protocol is not None or metadata is not None:
                yield commit.last, (protocol, metadata)


def _has_feed(metadata: Metadata) -> bool:
    return metadata.properties.get(_FEED, "false").lower() == "true"


def _no_feed(states: _States, off: TableState, start: int, last: int) -> NoChangeFeedError:
    begins = states.feed_begins(off.version)
    if off.version > start:
        again = "" if begins is None else f", or start at {begins}, which turns it on again"
        advice = f"end at version {off.version - 1}{again}"
        return NoChangeFeedError(f"version {off.version} turns off the change feed of {states.where}; {advice}")
    if begins is None:
        return NoChangeFeedError(
            f"{states.where} has no change feed at version {start}; set its property {_FEED} to true, "
            "which records changes from then on"
        )
    return FeedStartsLaterError(
        f"{states.where} has no change feed at version {start}: it begins at version {begins}; start there or later"
    )
