"""The commits after a base, walked newest first through the one replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from delta_sidecar.log.commits import Adds, CommitBytes, file_actions
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import newest_first

AddsOfCommit: TypeAlias = tuple[str, Adds]
"""Live adds of a commit, with its path."""


@dataclass(slots=True)
class TailWalk:
    """Walks commits; what they hide, the replay knows when they are read to their end."""

    commits: CommitBytes
    maker: KeyMaker
    replay: Replay
    columns: Sequence[str]
    """What the adds must have, by the names of `FILE_SCHEMA`."""
    ahead: int
    """Commits that are fetched beside the one that is read."""
    read: int = 0
    """Commits that were read to their end."""

    def one_by_one(self, commits: Sequence[CommitRange]) -> Iterator[AddsOfCommit]:
        """The live adds of each commit, newest first; of a large one in several pieces."""
        for commit in newest_first(commits, self.commits, self.ahead):
            path, blocks = commit.file.path, self.commits.blocks(commit.file)
            for adds in self.replay.commit(file_actions(blocks, path, self.columns, self.maker)):
                yield path, adds
            self.read += 1

    def together(self, commits: Sequence[CommitRange], most: int, alone: int) -> Iterator[list[AddsOfCommit]]:
        """Adds of neighbouring commits in lists of at most so many, but the first few commits each `alone`: a batch has
        a fixed cost of about a thousand rows."""
        adds = self.one_by_one(commits)
        for some in islice(adds, alone):
            yield [some]
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
