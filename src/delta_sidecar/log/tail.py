"""The commits after a base, walked newest first through the one replay."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.commits import Adds, CommitBatch, CommitBytes, are_bare, file_actions
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.segment import CommitRange
from delta_sidecar.log.snapshot import newest_first
from delta_sidecar.storage.cache import Cache, shared_cache
from delta_sidecar.storage.store import Store

AddsOfCommit: TypeAlias = tuple[str, Adds]
"""Live adds of a commit, with its path."""


PiecesOfCommit: TypeAlias = tuple[str, list[Adds]]
"""Live adds of a commit in the pieces they were read in, with its path."""


_BYTES_PER_ADD = 500
"""About the bytes that an add takes in memory beside its text."""


class KnownTail(Struct, frozen=True):
    """Commits that were replayed, newest first, and the replay after the last of them."""

    commits: tuple[PiecesOfCommit, ...]
    replay: Replay
    """Nobody walks on with it: walks take a copy."""


class KnownTails:
    """Replayed tails of a table, in the cache: what commits leave of each other is the same for every listing.

    A tail is known by its commit files, each by path, size, time and etag, so it is never that of other commits.
    """

    def __init__(self, store: Store, limits: CommitLimits, cache: Cache = shared_cache) -> None:
        self._store = store
        self._limits = limits
        self._cache = cache

    def key(self, commits: Sequence[CommitRange], columns: Sequence[str]) -> Hashable | None:
        """What a tail is known by to listings that need these columns; None if it is empty or too long to keep."""
        if not commits or sum(commit.file.size for commit in commits) > self._limits.known_tail:
            return None
        return "tail", self._store.identity, self._store.root_uri, tuple(commits), are_bare(columns)

    def get(self, key: Hashable) -> KnownTail | None:
        tail: KnownTail | None = self._cache.get(key)
        return tail

    def keep(self, key: Hashable, tail: KnownTail, size: int) -> None:
        """Keep a tail whose commits have `size` bytes. Its keys are put in order here, once for all listings of an
        index."""
        tail.replay.range_filter()
        adds = sum(len(piece) for _, pieces in tail.commits for piece in pieces)
        self._cache.put(key, KnownTail(tail.commits, tail.replay.copied()), size + _BYTES_PER_ADD * adds)


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
    """Commits that were read to their end, or known."""
    known: KnownTails | None = None
    """Replays that earlier walks of the table have made; None to make every one."""

    def one_by_one(self, commits: Sequence[CommitRange]) -> Iterator[AddsOfCommit]:
        """The live adds of each commit, newest first; of a large one in several pieces."""
        key = None if self.known is None or self.replay.mask_size else self.known.key(commits, self.columns)
        known = None if self.known is None or key is None else self.known.get(key)
        if known is not None:
            return self._known(known)
        return self._walked(commits, key)

    def _known(self, tail: KnownTail) -> Iterator[AddsOfCommit]:
        self.replay.continue_from(tail.replay)
        for path, pieces in tail.commits:
            for adds in pieces:
                yield path, adds
            self.read += 1

    def _walked(self, commits: Sequence[CommitRange], key: Hashable | None) -> Iterator[AddsOfCommit]:
        """`key` is what the replay will be known by; None if it is not worth knowing."""
        held: list[PiecesOfCommit] = []
        for commit in newest_first(commits, self.commits, self.ahead):
            pieces: list[Adds] = []
            for adds in self.replay.commit(self._actions(commit)):
                if key is not None:
                    pieces.append(adds)
                yield commit.file.path, adds
            held.append((commit.file.path, pieces))
            if self.is_last_reader:
                self.commits.discard(commit.file)
            self.read += 1
        if key is not None and self.known is not None:
            self.known.keep(key, KnownTail(tuple(held), self.replay), sum(commit.file.size for commit in commits))

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
