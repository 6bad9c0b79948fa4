"""What a batch wrote, read from its own commit: no second pass over the data.

A batch marks its commit with a token (`userMetadata` of the commit), so it is found even if others commit at the same
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from delta_sidecar.log.actions import Add, FileLine, TransactionLine
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.discovery import list_log
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.log.snapshot import Snapshot
from delta_sidecar.log.travel import commit_info
from delta_sidecar.storage.store import ObjectMeta, Store

_FILES_TOLD = 1 << 20
"""Bytes from which on a file tells what its rows take; smaller ones are mostly their own footer."""
_COMMITS_ASKED = 8


@dataclass(frozen=True, slots=True)
class Written:
    """What one commit added."""

    version: int
    rows: int | None
    """None where the table keeps no statistics."""
    null_rows: int | None
    """Rows in the null bucket."""
    files: int
    bytes: int
    buckets: int
    checkpoint: int
    """The newest checkpoint beside or after it, whoever made it; -1 if there is none."""


class _Records(msgspec.Struct):
    numRecords: int | None = None


_STATS = msgspec.json.Decoder(_Records)


@dataclass(frozen=True, slots=True)
class MarkedCommit:
    """A commit that was found by its mark: what its `userMetadata` says, or its transaction."""

    version: int
    file: ObjectMeta
    commits: CommitBytes
    checkpoint: int
    """The newest checkpoint that was listed beside it; -1 if there is none."""
    info: Mapping[str, Any]
    """Its `commitInfo`."""

    def count_of(self, *names: str) -> int | None:
        """The first of these figures that the commit's metrics have."""
        metrics = self.info.get("operationMetrics")
        told = metrics if isinstance(metrics, dict) else {}
        found = next((told[name] for name in names if name in told), None)
        return int(found) if isinstance(found, str) and found.isdigit() else None

    def adds(self) -> list[Add]:
        return list(_adds(self.commits, self.file))

    def has_transaction(self, app_id: str, version: int) -> bool:
        lines = decode_lines(self.commits.blocks(self.file), TransactionLine, self.file.path)
        found = (line.txn for block in lines for line in block if line.txn is not None)
        return any((txn.appId, txn.version) == (app_id, version) for txn in found)

    def count_removed(self) -> int:
        lines = decode_lines(self.commits.blocks(self.file), FileLine, self.file.path)
        return sum(line.remove is not None for block in lines for line in block)


def find_marked(store: Store, after: int, is_ours: Callable[[str], bool]) -> MarkedCommit | None:
    """The newest commit after a version whose `userMetadata` is ours; None if there is none."""

    def is_marked(commit: MarkedCommit) -> bool:
        text = commit.info.get("userMetadata")
        return isinstance(text, str) and is_ours(text)

    return next(filter(is_marked, _newest_first(store, after)), None)


def find_transaction(store: Store, after: int, app_id: str, version: int) -> MarkedCommit | None:
    """The commit after a version that has a transaction; None if the log does not show it."""
    return next((c for c in _newest_first(store, after) if c.has_transaction(app_id, version)), None)


def _newest_first(store: Store, after: int) -> Iterator[MarkedCommit]:
    listing, commits = list_log(store, after + 1), CommitBytes(store)
    checkpoint = listing.checkpoints[0].version if listing.checkpoints else -1
    for version in sorted((v for v in listing.commits if v > after), reverse=True):
        meta = listing.commits[version]
        yield MarkedCommit(version, meta, commits, checkpoint, commit_info(commits, meta) or {})


def find_written(store: Store, after: int, token: str, bucket_column: str) -> Written | None:
    """What the commit with that token added, among those after a version; None if there is none."""
    found = find_marked(store, after, token.__eq__)
    return None if found is None else _sum_up(found.version, found.adds(), bucket_column, found.checkpoint)


def _sum_up(version: int, adds: list[Add], bucket_column: str, checkpoint: int) -> Written:
    values = [(add.partitionValues or {}).get(bucket_column) or None for add in adds]
    rows = [records_of(add) for add in adds]
    return Written(
        version,
        total_of(rows),
        total_of([count for count, value in zip(rows, values) if value is None]),
        len(adds),
        sum(add.size or 0 for add in adds),
        len(set(values)),
        checkpoint,
    )


def total_of(counts: list[int | None]) -> int | None:
    """The sum; None where one is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _adds(commits: CommitBytes, meta: ObjectMeta) -> Iterator[Add]:
    for lines in decode_lines(commits.blocks(meta), FileLine, meta.path):
        yield from (line.add for line in lines if line.add is not None)


def records_of(add: Add) -> int | None:
    """The rows of a file by its statistics."""
    try:
        return None if add.stats is None else _STATS.decode(add.stats).numRecords
    except msgspec.DecodeError:
        return None


def recent_bytes_per_row(snapshot: Snapshot) -> float | None:
    """What a row takes in the files the table was given last; None if they are too few or too small to tell."""
    for commit in list(reversed(snapshot.segment.commits))[:_COMMITS_ASKED]:
        adds = [add for add in _adds(snapshot.commits, commit.file) if (add.size or 0) >= _FILES_TOLD]
        rows = sum(records_of(add) or 0 for add in adds)
        if rows:
            return sum(add.size or 0 for add in adds) / rows
    return None
