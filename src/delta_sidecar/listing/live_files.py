"""The live files of a version: the commits after its base newest first, then the base, then, where that is broken, the
next one. The one place where a listing goes from base to base."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, TypeAlias

import pyarrow as pa

from delta_sidecar.errors import CorruptIndexError, CorruptLogError, LogGapError, VersionNotFoundError
from delta_sidecar.listing.base import Base, BaseCounts, BasePlan, LiveRows
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.commits import CommitBytes, rows_of
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CheckpointFiles, CommitRange
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.tail import AddsOfCommit, TailWalk
from delta_sidecar.settings import Settings

_log = logging.getLogger(__name__)

_MERGED_ROWS = 10_000
"""Rows of small commits that are put together."""

Broken: TypeAlias = CorruptLogError | CorruptIndexError


@dataclass(slots=True)
class Progress:
    """How far a listing has come."""

    tier: str = "log"
    """Where the files come from: of the base that is read, or was; `log` before that, and where there is none."""
    fallback_reason: str | None = None
    is_broken: bool = False
    """Whether the base that was to be read turned out broken."""
    fallbacks: list[str] = field(default_factory=list)
    """What was read in place of each base that turned out broken."""
    commits_total: int = 0
    commits_read: int = 0
    mask_size: int = 0
    base: BaseCounts = field(default_factory=BaseCounts)


def plan_base(snapshot: Snapshot, request: FileRequest) -> BasePlan | None:
    """What is to be read of a version's base for a request; None where it has none."""
    base = snapshot.segment.base
    if base is None:
        return None
    if isinstance(base, CheckpointFiles):
        from delta_sidecar.listing.checkpoint_plan import CheckpointPlan

        return CheckpointPlan(snapshot, request)
    if not isinstance(base, Base):
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
        """`base` is the plan of the snapshot's own base; `at_once` reads all commits before a file of them is given."""
        self._snapshot = snapshot
        self._request = request
        self._base = base
        self._at_once = at_once
        maker = KeyMaker(snapshot.store.root_uri)
        self._replay = Replay(maker, request.settings.limits.mask)
        self._tail = _Tail(request, snapshot.commits, maker, self._replay)
        self.progress = Progress(fallback_reason=snapshot.passed_over, commits_total=len(snapshot.segment.commits))

    def __iter__(self) -> Iterator[LiveRows]:
        base = self._base
        try:
            if base is not None and not self._request.order.paged:
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

    def _rows_of(self, base: BasePlan) -> Generator[LiveRows, None, Broken | None]:
        """The live files of a base. Where it turns out broken and another may go on: why."""
        self.progress.tier, self.progress.base = base.tier, base.counts
        try:
            yield from base.rows(self._replay)
            return None
        except (CorruptLogError, CorruptIndexError) as error:
            if not base.hide_rows_out(self._replay):
                raise
            return error

    def _take_next_base(self, error: Broken) -> tuple[CommitRange, ...]:
        """Go on with the next base; the commits between it and the broken one."""
        self.progress.tier, self.progress.fallback_reason, self.progress.is_broken = "log", str(error), True
        _log.warning("%s was not used: %s", self._snapshot.segment.base, error)
        try:
            self._snapshot, older = self._snapshot.on_older_base()
        except (LogGapError, VersionNotFoundError):
            raise error from None
        self.progress.commits_total += len(older)
        self.progress.fallbacks.append(str(self._snapshot.segment.base))
        return older


class _Tail:
    """The live adds of commits that may match, as rows: pruned as the objects they are."""

    def __init__(self, request: FileRequest, commits: CommitBytes, maker: KeyMaker, replay: Replay) -> None:
        self._request = request
        ahead = 2 if request.order.paged else None
        self.walk = TailWalk(commits, maker, replay, request.source.names, ahead)

    def rows(self, commits: Sequence[CommitRange], at_once: bool) -> Iterator[LiveRows]:
        """The live adds of commits, newest first; `at_once` reads all of them before the first is given."""
        if self._request.order.paged and not at_once:
            return (self._pruned([adds]) for adds in self.walk.one_by_one(commits))
        most = min(_MERGED_ROWS, self._request.order.batch_size)
        together = self.walk.together(commits, most, alone=0 if at_once else 1)
        return map(self._pruned, list(together) if at_once else together)

    def _pruned(self, held: list[AddsOfCommit]) -> LiveRows:
        """Adds of some commits that may match, as rows."""
        count = sum(len(adds) for _, adds in held)
        if self._request.pruning is None:
            return LiveRows(rows_of(held, self._request.source.names), count)
        keep = iter(self._request.add_pruner.passing([add for _, adds in held for add in adds]).tolist())
        kept: list[tuple[str, Any]] = [(path, list(compress(adds, keep))) for path, adds in held]
        return LiveRows(rows_of(kept, self._request.settled_source.names), count)
