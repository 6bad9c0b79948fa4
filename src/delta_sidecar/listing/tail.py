"""The live adds of the commits after a base, newest first, pruned as the objects they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, islice
from typing import Any, TypeAlias

from delta_sidecar.listing.base import LiveRows
from delta_sidecar.listing.request import FileRequest
from delta_sidecar.log.commits import Adds, CommitBytes, file_actions, rows_of
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import newest_first

AddsOfCommit: TypeAlias = tuple[str, Adds]

_MERGED_ROWS = 10_000
"""Rows of small commits that are put together."""


class Tail:
    """Walks commits through one replay."""

    def __init__(self, request: FileRequest, commits: CommitBytes, maker: KeyMaker, replay: Replay) -> None:
        self._request = request
        self._commits = commits
        self._maker = maker
        self._replay = replay
        self.read = 0
        """Commits that were read to their end."""

    def rows(self, commits: Sequence[CommitRange], at_once: bool) -> Iterator[LiveRows]:
        """The live adds of commits, newest first; `at_once` reads all of them before the first is given."""
        adds = self._walk(commits)
        if at_once:
            return iter([self._pruned(some) for some in self._merged(adds, 0)])
        if self._request.limit is not None:
            return map(self._pruned, ([some] for some in adds))
        return map(self._pruned, self._merged(adds, 1))

    def _walk(self, commits: Sequence[CommitRange]) -> Iterator[AddsOfCommit]:
        """The live adds of each commit, with its path."""
        request = self._request
        matter = request.add_pruner.stats_matter if request.stats_may_not_matter else None
        ahead = 2 if request.limit is not None else request.settings.commit_parallelism
        for commit in newest_first(commits, self._commits, ahead):
            path = commit.file.path
            batches = file_actions(self._commits.blocks(commit.file), path, request.source.names, self._maker, matter)
            yield from ((path, adds) for adds in self._replay.commit(batches))
            self.read += 1

    def _merged(self, adds: Iterator[AddsOfCommit], at_once: int) -> Iterator[list[AddsOfCommit]]:
        """Adds of neighbours together, after the first few: a batch costs as much as a thousand rows."""
        yield from ([some] for some in islice(adds, at_once))
        most = min(_MERGED_ROWS, self._request.batch_size)
        held: list[AddsOfCommit] = []
        count = 0
        for some in adds:
            if held and count + len(some[1]) > most:
                yield held
                held, count = [], 0
            held.append(some)
            count += len(some[1])
        if held:
            yield held

    def _pruned(self, held: list[AddsOfCommit]) -> LiveRows:
        """Adds of some commits that may match, as rows."""
        adds = [add for _, some in held for add in some]
        keep = iter(self._request.add_pruner.passing(adds).tolist())
        kept: list[tuple[str, Any]] = [(path, list(compress(some, keep))) for path, some in held]
        return LiveRows(rows_of(kept, self._request.settled_source.names), len(adds))
