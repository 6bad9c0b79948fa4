"""Follow a table that others write: each poll is one LIST, and each new checkpoint gets an index.

Only the newest checkpoint is indexed, so a late start or fast writers cost one build, not many. The watcher keeps no
state between runs: it continues from the table's newest index.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from delta_sidecar.errors import DeltaSidecarError, OptionError, StoreUnavailableError, UnsupportedTableError
from delta_sidecar.flow.backoff import backoff
from delta_sidecar.index.build.build import BuildOptions, BuildReport
from delta_sidecar.index.format.manifest import CommitIdentity
from delta_sidecar.index.read.manifests import newest_usable_manifest
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.segment import LogListing
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage.opening import open_store
from delta_sidecar.storage.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

INTERVAL: Final = 30.0
"""Seconds between checks of the log."""
LONGEST_PAUSE: Final = 300.0
"""Longest pause after failures in seconds, unless the interval is longer."""

Builder: TypeAlias = Callable[[int], BuildReport]
"""Builds the index of a version."""
OnError: TypeAlias = Callable[[DeltaSidecarError, float], None]
"""Called with an error and the seconds until the next attempt."""


@dataclass(frozen=True, slots=True)
class WatchReport:
    """The result of a `watch` that was stopped.

    Example:
        >>> import threading
        >>> from delta_sidecar.pipeline import watch
        >>> stop = threading.Event()
        >>> watch("events", tail_commits=1, stop=stop, on_build=lambda built: stop.set())
        WatchReport(polls=1, builds=1, failures=0, version=3)
    """

    polls: int
    builds: int
    failures: int
    version: int | None
    """The version of the newest index at the end."""


def watch(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    interval: float = INTERVAL,
    tail_commits: int | None = None,
    stop: threading.Event | None = None,
    on_build: Callable[[BuildReport], None] | None = None,
    on_error: OnError | None = None,
    options: BuildOptions | None = None,
    build: Builder | None = None,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> WatchReport:
    """Index every new checkpoint of a table until `stop` is set.

    After a temporary failure (the store does not answer, log cleanup is running, the table is being recreated) it
    waits and tries again, with pauses that double; any other failure is raised.

    Args:
        uri: The location of the table: a local path or a URI such as `s3://bucket/events`.
        storage_options: Credentials and settings of the object store, as for `DeltaTable`.
        interval: Seconds between checks of the log; a check is one request.
        tail_commits: Also index the newest version whenever it is this many commits ahead of the newest index: for
            tables whose writers make few checkpoints, or none.
        stop: The watch ends when this is set, after the current build; without it, the watch never ends.
        on_build: Called with the `BuildReport` of each build.
        on_error: Called with a temporary error, and the seconds until the next attempt.
        options: See `BuildOptions`.
        build: Builds the index of a version, in place of `build_index`.
        spark: The session for an index that is too large for one process; one is started if not given.
        master: The master of the session, if one is started.
        conf: Spark settings of the session, if one is started.
        progress: Called with one line of text whenever a step begins.

    Returns:
        A `WatchReport`, after `stop` was set.

    Raises:
        OptionError: The interval or the number of commits is not above 0.
        TableNotFoundError: There was no Delta table at `uri` when the watch began.
        UnsupportedTableError: The table needs a feature that this version does not know.

    Example:
        >>> import threading
        >>> from delta_sidecar.pipeline import watch
        >>> stop = threading.Event()
        >>> report = watch("events", tail_commits=1, stop=stop, on_build=lambda built: stop.set())
        >>> report.builds, report.version
        (1, 3)
    """
    if interval <= 0 or (tail_commits is not None and tail_commits < 1):
        raise OptionError("the interval and the number of commits of a watch must be above 0")

    def build_on_spark(version: int) -> BuildReport:
        from delta_sidecar.pipeline.spark_build import build_index

        return build_index(
            uri, version, storage_options, options=options, spark=spark, master=master, conf=conf, progress=progress
        )

    follower = _Follower(open_store(uri, storage_options), tail_commits, build or build_on_spark)
    return _Watch(follower, interval, on_build or _ignore, on_error or _ignore).run(stop or threading.Event())


def _ignore(*event: object) -> None:
    """The default callback: does nothing."""


@dataclass(slots=True)
class _Watch:
    """The loop around a follower: when to look, and what to do when looking fails."""

    follower: _Follower
    interval: float
    on_build: Callable[[BuildReport], None]
    on_error: OnError
    polls: int = 0
    builds: int = 0
    failures: int = 0
    failed_in_row: int = 0

    def run(self, stop: threading.Event) -> WatchReport:
        while not stop.is_set():
            stop.wait(self._poll())
        return WatchReport(self.polls, self.builds, self.failures, self.follower.indexed)

    def _poll(self) -> float:
        """Look once; how long to wait until the next look."""
        self.polls += 1
        try:
            report = self.follower.step()
        except DeltaSidecarError as error:
            return self._failed(error)
        self.failed_in_row = 0
        if report is not None and report.mode != "current":
            self.builds += 1
            self.on_build(report)
        return self.interval

    def _failed(self, error: DeltaSidecarError) -> float:
        """Before the first success only connection failures are retried; later all temporary failures are."""
        never_worked = self.polls == self.failures + 1
        lasting = (UnsupportedTableError, OptionError)
        if isinstance(error, lasting) or (never_worked and not isinstance(error, StoreUnavailableError)):
            raise error
        self.failures += 1
        self.failed_in_row += 1
        self.follower.forget()
        delay = backoff(self.interval, self.failed_in_row, max(self.interval, LONGEST_PAUSE))
        _log.warning("%s; trying again in %.0f s", error, delay)
        self.on_error(error, delay)
        return delay


@dataclass(slots=True)
class _Follower:
    """Knows up to where the index goes, and what to index next."""

    store: Store
    tail_commits: int | None
    build: Builder
    indexed: int | None = None
    commit: CommitIdentity | None = None
    """The commit file of the version that is indexed, which shows whether the table was created again."""

    def forget(self) -> None:
        self.indexed = self.commit = None

    def step(self) -> BuildReport | None:
        """Look at the log and build what is due."""
        listing = self._log()
        target = self._due(listing)
        if target is None:
            return None
        report = self.build(target)
        self._remember(report.version, listing)
        return report

    def _remember(self, version: int, listing: LogListing) -> None:
        meta = listing.commits.get(version)
        self.indexed, self.commit = version, None if meta is None else CommitIdentity.of(meta)

    def _log(self) -> LogListing:
        """The log from the indexed version on: one LIST, unless that version is no longer what it was."""
        if self.indexed is not None and self.commit is not None:
            listing = list_log(self.store, self.indexed)
            commit = listing.commits.get(self.indexed)
            if commit is not None and self.commit.is_of(commit):
                return listing
        self.forget()
        snapshot = load_snapshot(self.store)
        index, _ = newest_usable_manifest(snapshot)
        if index is not None:
            self._remember(index.manifest.version, snapshot.listing)
        return snapshot.listing

    def _due(self, listing: LogListing) -> int | None:
        """The newest checkpoint, or the head behind a long tail, if the index does not reach it yet."""
        head, bases = listing.head, listing.bases(listing.head)
        reached = -1 if self.indexed is None else self.indexed
        if self.tail_commits is not None and head - reached >= self.tail_commits:
            return head
        return bases[0].version if bases and bases[0].version > reached else None
