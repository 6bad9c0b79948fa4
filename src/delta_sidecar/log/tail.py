"""The commits after a base, walked newest first through the one replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from delta_sidecar.log.commits import Adds, CommitBatch, CommitBytes, file_actions
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import newest_first

AddsOfCommit: TypeAlias = tuple[str, Adds]
"""Live adds of a commit, with its path."""


class TailWalk(Struct):
    """Walks commits newest first. A commit's keys are in the replay once it has been read to its end."""

    commits: CommitBytes
    maker: KeyMaker
    replay: Replay
    columns: Sequence[str]
    """The columns that the adds need, by the names of `FILE_SCHEMA`."""
    ahead: int | None = None
    """Commits fetched ahead of the one being read; by default as many as the limits allow."""
    is_last_reader: bool = False
    """Whether the commits are not read again: each is released once it has been read."""
    keys: list[bytes] | None = None
    """If it is a list, collects the keys of all adds and removes that were read."""
    read: int = 0
    """Commits that were read to their end."""

    def one_by_one(self, commits: Sequence[CommitRange]) -> Iterator[AddsOfCommit]:
        """The live adds of each commit, newest first; of a large one in several pieces."""
        for commit in newest_first(commits, self.commits, self.ahead):
            for adds in self.replay.commit(self._actions(commit)):
                yield commit.file.path, adds
            if self.is_last_reader:
                self.commits.discard(commit.file)
            self.read += 1

    def _actions(self, commit: CommitRange) -> Iterator[CommitBatch[Adds]]:
        blocks = self.commits.blocks(commit.file, keep=not self.is_last_reader)
        for batch in file_actions(blocks, commit.file.path, self.columns, self.maker):
            if self.keys is not None:
                self.keys += batch.add_keys
                self.keys += batch.remove_keys.to_pylist()
            yield batch

    def together(self, commits: Sequence[CommitRange], most: int, alone: int) -> Iterator[list[AddsOfCommit]]:
        """Adds of neighbouring commits in lists of at most `most`, but the first `alone` commits each by itself: a
        batch has a fixed cost of about a thousand rows."""
        adds = self.one_by_one(commits)
        for commit_adds in islice(adds, alone):
            yield [commit_adds]
        held: list[AddsOfCommit] = []
        count = 0
        for commit_adds in adds:
            if held and count + len(commit_adds[1]) > most:
                yield held
                held, count = [], 0
            held.append(commit_adds)
            count += len(commit_adds[1])
        if held:
            yield held
