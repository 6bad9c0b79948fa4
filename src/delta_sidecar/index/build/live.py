"""Live rows of a snapshot, or of its newest commits, through the one replay: for builders and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from delta_sidecar.arrays import Flags
from delta_sidecar.errors import LogGapError
from delta_sidecar.index.stats.index_rows import SOURCE_COLUMNS
from delta_sidecar.log.commits import rows_of_adds
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import BaseFilter, Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.tail import TailWalk


@dataclass(slots=True)
class Tail:
    """Commits newer than a base, replayed: read `rows` to the end, then `base_filter` is that of the base."""

    snapshot: Snapshot
    commits: tuple[CommitRange, ...]
    base_filter: BaseFilter | None = field(default=None, init=False)
    keys: list[bytes] = field(default_factory=list)
    """All keys of the commits, if they are collected."""
    notes_keys: bool = True

    @property
    def size(self) -> int:
        """Bytes of the commits."""
        return sum(commit.file.size for commit in self.commits)

    def rows(self, names: Sequence[str] = SOURCE_COLUMNS.names) -> Iterator[pa.RecordBatch]:
        """The live adds of the commits, newest first, with the named columns. The commits are not held."""
        replay = Replay(maker := KeyMaker(self.snapshot.store.root_uri))
        keys = self.keys if self.notes_keys else None
        walk = TailWalk(self.snapshot.commits, maker, replay, names, is_last_reader=True, keys=keys)
        for adds in walk.one_by_one(self.commits):
            yield rows_of_adds([adds], names)
        self.base_filter = replay.base_filter()


def tail_of(snapshot: Snapshot) -> Tail:
    """The commits on top of the snapshot's own base."""
    return Tail(snapshot, snapshot.segment.commits)


def tail_after(snapshot: Snapshot, version: int) -> Tail:
    """The commits after a version up to the snapshot's; `LogGapError` if one is gone."""
    listing = snapshot.listing if snapshot.listing.start <= version + 1 else list_log(snapshot.store, version + 1)
    versions = range(version + 1, snapshot.version + 1)
    missing = next((v for v in versions if v not in listing.commits), None)
    if missing is not None:
        raise LogGapError(f"commit {missing} is missing, so the index of version {version} cannot be extended")
    return Tail(snapshot, tuple(CommitRange(v, v, listing.commits[v]) for v in versions))


def count_files(snapshot: Snapshot, limit: int) -> int:
    """The number of files that a build reads: those of the checkpoint, by its footers, and the live ones of the tail.

    The tail is replayed only if it decides whether there are more than `limit` files. Otherwise the result is an upper
    bound, or the number of the checkpoint alone.
    """
    base = base_files(snapshot)
    tail = Tail(snapshot, snapshot.segment.commits, notes_keys=False)
    most = base + tail.size // SHORTEST_ADD
    if base > limit or most <= limit:
        return base if base > limit else most
    return base + sum(int(batch.num_rows) for batch in tail.rows(("path",)))


def base_files(snapshot: Snapshot) -> int:
    """The number of files in the checkpoint, including hidden ones."""
    opened = snapshot.open_base()
    if opened is None:
        return 0
    try:
        return opened.count()
    finally:
        opened.close()


SHORTEST_ADD: Final = 50
"""The fewest bytes of an `add`: it must have path, size and time."""


def hidden_by(tail: Tail, rows: pa.RecordBatch) -> Flags | None:
    """Which rows of a base the tail hides; None when none is. The tail's rows must have been read to the end."""
    assert tail.base_filter is not None
    return tail.base_filter.hidden(rows)
