"""The live splits of a version, and the splits that merges leave alone: through the one replay of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import structs

from delta_sidecar import arrays
from delta_sidecar.errors import CorruptLogError, LogGapError, ObjectNotFoundError, VersionNotFoundError
from delta_sidecar.log.commits import CommitBatch
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CheckpointFiles, CommitRange
from delta_sidecar.log.snapshot import Snapshot, newest_first
from delta_sidecar.search.log.actions import (
    CommitActions,
    MergeSkip,
    RemovedSplit,
    Split,
    SplitKeys,
    Wire,
    batches_of,
    commit_actions,
)
from delta_sidecar.search.log.checkpoints import SplitCheckpoint, open_checkpoint
from delta_sidecar.search.log.opening import open_log
from delta_sidecar.search.log.their_states import TheirState

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SearchState:
    """Everything that a version of a search table is."""

    snapshot: Snapshot
    splits: tuple[Split, ...]
    """Newest commits first; those of the base last."""
    skips: Mapping[bytes, MergeSkip]
    """The newest skip of each live split that has one, by its key."""
    removed: Mapping[bytes, RemovedSplit]
    """Splits that are no longer live, as far as the log still says, each with the time of its removal."""
    protocol: Wire
    """As in the log, with fields that are unknown."""
    metadata: Wire
    keys: SplitKeys = field(repr=False)
    batches: Mapping[str, int]
    """The number of the last batch of each application, as far as the log still says."""
    notes: tuple[str, ...] = ()

    @property
    def version(self) -> int:
        return self.snapshot.version

    @cached_property
    def by_key(self) -> dict[bytes, Split]:
        return dict(self.keys.by_key(self.splits))

    def cooling(self, now_ms: int) -> set[bytes]:
        """The keys of splits that merges leave alone for now."""
        return {key for key, skip in self.skips.items() if skip.is_cooling(now_ms)}


def state_of(snapshot: Snapshot) -> SearchState:
    """Replay a version: newest version file first, then its base. A damaged checkpoint is replaced by an older one, or
    by all version files; if these do not reach back to version 0, it is an error. If files were cleaned up since they
    were listed, the version is opened again."""
    try:
        return _Reader(snapshot).read()
    except ObjectNotFoundError as error:
        _log.info("the log changed while it was read (%s); starting again", error)
        return _Reader(open_log(snapshot.store, snapshot.version, snapshot.commits.limits)).read()


class _Reader:
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._keys = SplitKeys(snapshot.store.root_uri)
        self._replay = Replay(self._keys.maker)
        self._splits: list[Split] = []
        self._skips: dict[bytes, MergeSkip] = {}
        self._removed: dict[bytes, RemovedSplit] = {}
        self._protocol: Wire | None = None
        self._metadata: Wire | None = None
        self._batches: dict[str, int] = {}
        self._notes = list(snapshot.notes)

    def read(self) -> SearchState:
        self._commits(self._snapshot.segment.commits)
        self._base()
        live = set(self._keys.keys(self._splits))
        skips = {key: skip for key, skip in self._skips.items() if key in live}
        if self._protocol is None or self._metadata is None:
            missing = "metadata" if self._protocol else "protocol"
            raise CorruptLogError(f"version {self._snapshot.version} of {self._where} has no {missing} action")
        return SearchState(
            self._snapshot,
            tuple(self._splits),
            skips,
            {key: gone for key, gone in self._removed.items() if key not in live},
            self._protocol,
            self._metadata,
            self._keys,
            self._batches,
            tuple(self._notes),
        )

    @property
    def _where(self) -> str:
        return self._snapshot.store.root_uri

    def _commits(self, commits: Sequence[CommitRange]) -> None:
        for commit in newest_first(commits, self._snapshot.commits):
            blocks = self._snapshot.commits.blocks(commit.file)
            actions = commit_actions(blocks, commit.file.path)
            if commit.last == 0:
                _check_version_0(actions, commit.file.path)
            self._take(actions, commit.file.last_modified_ms)

    def _number(self, batches: Mapping[str, int]) -> None:
        for application, number in batches.items():
            self._batches[application] = max(number, self._batches.get(application, -1))

    def _take(self, actions: CommitActions, written_ms: int) -> None:
        self._number(batches_of([*actions.adds, *actions.removes], actions.info))
        self._replayed(actions.adds, actions)
        for key, skip in reversed(list(self._keys.by_key(actions.skips))):
            self._skips.setdefault(key, skip)
        for key, gone in self._keys.by_key(actions.removes):
            timed = gone if gone.deletionTimestamp else structs.replace(gone, deletionTimestamp=written_ms)
            self._removed.setdefault(key, timed)
        if actions.protocols:
            self._protocol = self._protocol or actions.protocols[-1]
        if actions.metadatas:
            self._metadata = self._metadata or actions.metadatas[-1]

    def _replayed(self, adds: list[Split], actions: CommitActions | None = None) -> None:
        removed = arrays.binaries(self._keys.keys(actions.removes) if actions else [])
        batch: CommitBatch[list[Split]] = CommitBatch(adds, self._keys.keys(adds), removed)
        for live in self._replay.commit(iter([batch])):
            self._splits += live

    def _base(self) -> None:
        base = self._readable()
        if base is None:
            return
        self._replayed(list(base.splits))
        self._number(batches_of(base.splits))
        if isinstance(base, SplitCheckpoint):
            for key, skip in self._keys.by_key(base.skips):
                self._skips.setdefault(key, skip)
            for key, gone in self._keys.by_key(base.removed):
                self._removed.setdefault(key, gone)
            self._number(batches_of(base.removed))
            self._number(base.batches)
            self._protocol, self._metadata = self._protocol or base.protocol, self._metadata or base.metadata
        else:
            self._protocol = self._protocol or base.wire_protocol
            self._metadata = self._metadata or base.wire_metadata

    def _readable(self) -> SplitCheckpoint | TheirState | None:
        while True:
            try:
                return self._opened()
            except CorruptLogError as error:
                self._fall_back(error)

    def _opened(self) -> SplitCheckpoint | TheirState | None:
        base = self._snapshot.segment.base
        if base is None:
            return None
        if isinstance(base, TheirState):
            return base.read()
        opened: object = self._snapshot.opened
        if isinstance(opened, SplitCheckpoint):
            return opened.read()
        assert isinstance(base, CheckpointFiles)
        return open_checkpoint(self._snapshot.store, base).read()

    def _fall_back(self, error: CorruptLogError) -> None:
        damaged = self._snapshot.segment.base
        try:
            self._snapshot, between = self._snapshot.on_older_base()
        except (LogGapError, VersionNotFoundError):
            raise error from None
        self._notes.append(f"{damaged} was not used: {error}")
        _log.warning("%s", self._notes[-1])
        self._commits(between)


def _check_version_0(actions: CommitActions, path: str) -> None:
    """Version 0 says what the table is: one protocol and one metadata."""
    for name, found in (("protocol", actions.protocols), ("metaData", actions.metadatas)):
        if len(found) != 1:
            raise CorruptLogError(f"{path} must hold one {name} action and holds {len(found)}; restore the file")


def added_in(snapshot: Snapshot, commits: Sequence[CommitRange]) -> Iterator[Split]:
    """The splits that version files add, whether or not they are live later."""
    for commit in newest_first(commits, snapshot.commits):
        yield from commit_actions(snapshot.commits.blocks(commit.file), commit.file.path).adds
