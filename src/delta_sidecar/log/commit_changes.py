"""The files whose rows a commit changed, as a stream.

A commit with `cdc` actions has written its changed rows down: those files are its changes, and nothing else in it is.
Otherwise the rows of added files are inserts and those of removed files deletes, unless `dataChange` is false. A file
that is both removed and added has another deletion vector since: its changes are the rows in which the two vectors
differ.

A commit is read twice: adds and removes of one file may be far apart, so the first reading finds out which files are in
both. It keeps eight bytes of each path; the second reading holds only the actions that wait for their other half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags
from delta_sidecar.log.actions import (
    ChangedAdd,
    ChangedRemove,
    ChangeInfo,
    ChangeLine,
    DeletionVector,
    JudgedAdd,
    JudgedChangeLine,
)
from delta_sidecar.log.commits import CommitBytes
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.key_hash import Hashes, hash_keys
from delta_sidecar.log.lines import decode_lines
from delta_sidecar.storage.store import ObjectMeta

T = TypeVar("T", ChangedAdd, ChangedRemove)

INSERT: Final = "insert"
DELETE: Final = "delete"

_Blocks: TypeAlias = Callable[[], Iterable[list[ChangeLine]]]
_NO_HASHES: Final = np.empty(0, np.uint64)
_ROW_COUNTS: Final = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclass(frozen=True, slots=True)
class FileChange:
    """Rows of one file that a commit changed."""

    path: str
    """The log's own text."""
    size: int | None
    partition_values: Mapping[str, str | None] | None
    """None where the log does not say."""
    change_type: str | None
    """What happened to the rows; None if each row of the file says so itself."""
    hidden: DeletionVector | None = None
    """The rows of this vector are left out."""
    only: DeletionVector | None = None
    """Only the rows of this vector count; None for all."""
    stats: str | None = None
    """The statistics of a file whose rows are inserts, where they were asked for."""


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """What one commit changed."""

    in_commit_timestamp: int | None
    """Milliseconds since 1970, if the commit says."""
    files: Iterator[list[FileChange]]
    """Lists of any length, read as they are asked for."""


def changes_of_commit(
    commits: CommitBytes, meta: ObjectMeta, maker: KeyMaker, with_stats: bool = False
) -> CommitChanges:
    """What a commit changed. Its text is read once if it is one block, else twice."""
    blocks = _decoded(commits, meta, JudgedChangeLine if with_stats else ChangeLine)
    survey = _Survey(maker)
    for lines in blocks():
        survey.look_at(lines)
    return CommitChanges(_timestamp(survey.info), _files(blocks, survey, maker))


def _decoded(commits: CommitBytes, meta: ObjectMeta, line_type: type[ChangeLine]) -> _Blocks:
    if meta.size <= commits.limits.block:
        lines = list(decode_lines(commits.blocks(meta), line_type, meta.path))
        return lambda: lines
    return lambda: decode_lines(commits.blocks(meta), line_type, meta.path)


@dataclass(slots=True)
class _Survey:
    """The first reading of a commit."""

    maker: KeyMaker
    has_change_data: bool = False
    info: ChangeInfo | None = None
    _added: list[Hashes] = field(default_factory=list)
    _removed: list[Hashes] = field(default_factory=list)

    def look_at(self, lines: Sequence[ChangeLine]) -> None:
        self.has_change_data = self.has_change_data or any(line.cdc is not None for line in lines)
        self.info = next((line.commitInfo for line in lines if line.commitInfo is not None), self.info)
        if not self.has_change_data:
            self._added.append(hash_keys(_paths(_adds(lines), self.maker)))
            self._removed.append(hash_keys(_paths(_removes(lines), self.maker)))

    @property
    def in_both(self) -> Hashes:
        """Hashes of the paths that are added and removed; a few others may have the same."""
        if not self._added:
            return _NO_HASHES
        return np.intersect1d(np.concatenate(self._added), np.concatenate(self._removed))


def _files(blocks: _Blocks, survey: _Survey, maker: KeyMaker) -> Iterator[list[FileChange]]:
    if survey.has_change_data:
        for lines in blocks():
            yield [
                FileChange(line.cdc.path, line.cdc.size, line.cdc.partitionValues, None)
                for line in lines
                if line.cdc is not None
            ]
    elif not _is_idle_merge(survey.info):
        pairs = _Pairs(maker, survey.in_both)
        for lines in blocks():
            yield pairs.changes(_adds(lines), _removes(lines))
        yield pairs.rest()


class _Pairs:
    """The second reading of a commit: brings the remove and the add of one file together."""

    def __init__(self, maker: KeyMaker, in_both: Hashes) -> None:
        self._maker = maker
        self._in_both = in_both
        self._adds: dict[bytes, ChangedAdd] = {}
        self._removes: dict[bytes, ChangedRemove] = {}

    def changes(self, adds: list[ChangedAdd], removes: list[ChangedRemove]) -> list[FileChange]:
        """The changes of some actions, without those that wait for their other half."""
        if not len(self._in_both):
            return [*map(_deletes, removes), *map(_inserts, adds)]
        removed = [_deletes(remove) for remove in self._put_aside(removes, self._removes)]
        added = [_inserts(add) for add in self._put_aside(adds, self._adds)]
        matched = self._adds.keys() & self._removes.keys()
        both = [_difference(self._removes.pop(key), self._adds.pop(key)) for key in matched]
        return [*removed, *added, *(change for changes in both for change in changes)]

    def rest(self) -> list[FileChange]:
        """What waited in vain: its path only has the hash of another."""
        return [*map(_deletes, self._removes.values()), *map(_inserts, self._adds.values())]

    def _put_aside(self, actions: list[T], waiting: dict[bytes, T]) -> Iterator[T]:
        keys = _paths(actions, self._maker)
        wait = _among(hash_keys(keys), self._in_both)
        for action, key, waits in zip(actions, keys.to_pylist(), wait.tolist(), strict=True):
            if waits:
                if isinstance(action, JudgedAdd):
                    action.stats = None  # they say nothing of rows that are deleted, and many may wait
                waiting[key] = action
            else:
                yield action


def _among(hashes: Hashes, ordered: Hashes) -> Flags:
    """Which hashes are among others, which are in order."""
    at = np.minimum(np.searchsorted(ordered, hashes), len(ordered) - 1)
    found: Flags = ordered[at] == hashes
    return found


def _difference(remove: ChangedRemove, add: ChangedAdd) -> Iterator[FileChange]:
    """The rows in which the vectors of a file differ."""
    old, new = remove.deletionVector, add.deletionVector
    if old is not None and new is not None and old.unique_id == new.unique_id:
        return
    size = remove.size if add.size is None else add.size
    values = remove.partitionValues if add.partitionValues is None else add.partitionValues
    if new is not None:
        yield FileChange(add.path, size, values, DELETE, hidden=old, only=new)
    if old is not None:
        yield FileChange(add.path, size, values, INSERT, hidden=new, only=old)


def _inserts(add: ChangedAdd) -> FileChange:
    stats = add.stats if isinstance(add, JudgedAdd) and isinstance(add.stats, str) else None
    return FileChange(add.path, add.size, add.partitionValues, INSERT, hidden=add.deletionVector, stats=stats)


def _deletes(remove: ChangedRemove) -> FileChange:
    return FileChange(remove.path, remove.size, remove.partitionValues, DELETE, hidden=remove.deletionVector)


def _adds(lines: Sequence[ChangeLine]) -> list[ChangedAdd]:
    return [line.add for line in lines if line.add is not None and line.add.dataChange]


def _removes(lines: Sequence[ChangeLine]) -> list[ChangedRemove]:
    return [line.remove for line in lines if line.remove is not None and line.remove.dataChange]


def _paths(actions: Sequence[ChangedAdd] | Sequence[ChangedRemove], maker: KeyMaker) -> pa.BinaryArray:
    return maker.keys(arrays.strings([action.path for action in actions]), None)


def _is_idle_merge(info: ChangeInfo | None) -> bool:
    """Whether the commit is a MERGE that says it changed no row. Such a merge may rewrite files all the same."""
    if info is None or info.operation != "MERGE" or not isinstance(info.operationMetrics, dict):
        return False
    return all(info.operationMetrics.get(name) == "0" for name in _ROW_COUNTS)


def _timestamp(info: ChangeInfo | None) -> int | None:
    timestamp = None if info is None else info.inCommitTimestamp
    return timestamp if isinstance(timestamp, int) else None
