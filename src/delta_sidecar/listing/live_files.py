"""The live files of a version: first the commits after its base, newest first, then the base. If the base is broken,
the listing continues with the next one; only this module changes the base."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import pyarrow as pa

from delta_sidecar.errors import DeltaSidecarError, LogGapError, VersionNotFoundError
from delta_sidecar.listing.base import BROKEN, BaseCounts, BasePlan, ListableBase, LiveRows
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.commits import rows_of_adds
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CheckpointFiles, CommitRange
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.tail import AddsOfCommit, KnownTails, TailWalk
from delta_sidecar.settings import Settings

_log = logging.getLogger(__name__)

_MERGED_ROWS = 10_000
"""Rows of small commits that are merged into one batch."""


@dataclass(slots=True)
class Progress:
    """How far a listing has come."""

    tier: str = "log"
    """The kind of base being read; `log` until one is read, or if there is none."""
    fallback_reason: str | None = None
    is_broken: bool = False
    """Whether the planned base is damaged."""
    fallbacks: list[str] = field(default_factory=list)
    """What was read instead of each damaged base."""
    commits_total: int = 0
    commits_read: int = 0
    mask_size: int = 0
    base: BaseCounts = field(default_factory=BaseCounts)


def plan_base(snapshot: Snapshot, request: FileRequest) -> BasePlan | None:
    """The plan of what to read of a version's base for a request; None if it has no base."""
    base = snapshot.segment.base
    if base is None:
        return None
    if isinstance(base, CheckpointFiles):
        from delta_sidecar.listing.checkpoint_plan import CheckpointPlan

        return CheckpointPlan(snapshot, request)
    if not isinstance(base, ListableBase):
        raise TypeError(f"{base} cannot be listed")
    return base.plan(snapshot.store, request)


def live_rows(snapshot: Snapshot, columns: Sequence[str], batch_size: int) -> Iterator[pa.RecordBatch]:
    """All live files of a version, with the named columns."""
    settings = Settings(batch_size=batch_size)
    request = FileRequest(tuple(columns), settings=settings, stats_batch_size=batch_size)
    for live in LiveFiles(snapshot, request, plan_base(snapshot, request), at_once=False):
        if live.rows.num_rows:
            yield live.rows


class LiveFiles:
    """One walk over the live files of a snapshot that may match."""

    def __init__(self, snapshot: Snapshot, request: FileRequest, base: BasePlan | None, at_once: bool) -> None:
        """`base` is the plan of the snapshot's own base; `at_once` reads all commits before the first file."""
        self._snapshot = snapshot
        self._request = request
        self._base = base
        self._at_once = at_once
        maker = KeyMaker(snapshot.store.root_uri)
        self._replay = Replay(maker, request.settings.limits.mask)
        self._tail = _Tail(request, snapshot, maker, self._replay)
        self.progress = Progress(fallback_reason=snapshot.passed_over, commits_total=len(snapshot.segment.commits))

    def __iter__(self) -> Iterator[LiveRows]:
        base = self._base
        try:
            if base is not None and not self._request.order.is_limited:
                base.begin()
            yield from self._commits(self._snapshot.segment.commits)
            while base is not None:
                error = yield from self._rows_of(base)
                if error is None:
                    return
                older = self._take_next_base(error)
                yield from self._commits(older)
                base = plan_base(self._snapshot, self._request)
        finally:
            if base is not None:
                base.close()

    def _commits(self, commits: Sequence[CommitRange]) -> Iterator[LiveRows]:
        for rows in self._tail.rows(commits, self._at_once):
            self.progress.commits_read = self._tail.walk.read
            yield rows
        self.progress.commits_read, self.progress.mask_size = self._tail.walk.read, self._replay.mask_size

    def _rows_of(self, base: BasePlan) -> Generator[LiveRows, None, DeltaSidecarError | None]:
        """The live files of a base. Returns the error if the base is damaged and another can continue."""
        self.progress.tier, self.progress.base = base.tier, base.counts
        try:
            yield from base.rows(self._replay)
            return None
        except BROKEN as error:
            self.progress.is_broken = True
            if not base.hide_rows_out(self._replay):
                raise
            return error

    def _take_next_base(self, error: DeltaSidecarError) -> tuple[CommitRange, ...]:
        """Continue on the next base. Returns the commits between it and the damaged one."""
        self.progress.tier, self.progress.fallback_reason = "log", str(error)
        _log.warning("%s was not used: %s", self._snapshot.segment.base, error)
        try:
            self._snapshot, older = self._snapshot.on_older_base()
        except (LogGapError, VersionNotFoundError):
            raise error from None
        self.progress.commits_total += len(older)
        base = self._snapshot.segment.base
        self.progress.fallbacks.append("the log alone" if base is None else str(base))
        return older


class _Tail:
    """The live adds of the tail that may match, pruned before they become rows."""

    def __init__(self, request: FileRequest, snapshot: Snapshot, maker: KeyMaker, replay: Replay) -> None:
        self._request = request
        ahead, names = 2 if request.order.is_limited else None, request.source.names
        known = KnownTails(snapshot.store, snapshot.commits.limits)
        self.walk = TailWalk(snapshot.commits, maker, replay, names, ahead, known=known)

    def rows(self, commits: Sequence[CommitRange], at_once: bool) -> Iterator[LiveRows]:
        """The live adds of commits, newest first; `at_once` reads all commits before the first is returned."""
        if self._request.order.is_limited and not at_once:
            return (self._pruned([adds]) for adds in self.walk.one_by_one(commits))
        most = min(_MERGED_ROWS, self._request.order.batch_size)
        together = self.walk.together(commits, most, alone=0 if at_once else 1)
        return map(self._pruned, list(together) if at_once else together)

    def _pruned(self, held: list[AddsOfCommit]) -> LiveRows:
        """The adds of some commits that may match, as rows."""
        count = sum(len(adds) for _, adds in held)
        if self._request.pruning is None:
            return LiveRows(rows_of_adds(held, self._request.source.names), count)
        keep = iter(self._request.add_pruner.passing([add for _, adds in held for add in adds]).tolist())
        kept: list[tuple[str, Any]] = [(path, list(compress(adds, keep))) for path, adds in held]
        return LiveRows(rows_of_adds(kept, self._request.settled_source.names), count)
