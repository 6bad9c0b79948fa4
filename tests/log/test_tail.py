"""The walk of a tail: what it gives, what it notes, what it leaves held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.actions import Add
from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DEFAULT_COLUMNS, FILE_SCHEMA
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.log.tail import KnownTails, TailWalk
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import Cache
from delta_sidecar.testing import LogBuilder, add, remove


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    log = LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("a"), add("b")).commit(add("c"), remove("a"))
    log.commit(add("c"))
    return load_snapshot(open_store(str(tmp_path)))


def walk(snapshot: Snapshot, is_last_reader: bool, keys: list[bytes] | None) -> TailWalk:
    maker = KeyMaker(snapshot.store.root_uri)
    return TailWalk(snapshot.commits, maker, Replay(maker), DEFAULT_COLUMNS, 2, is_last_reader, keys)


def live(tail: TailWalk, snapshot: Snapshot) -> list[list[str]]:
    return [[each.path for each in adds] for _, adds in tail.one_by_one(snapshot.segment.commits)]


@pytest.mark.parametrize("is_last_reader", [True, False])
def test_live_adds_come_newest_first(snapshot: Snapshot, is_last_reader: bool) -> None:
    tail = walk(snapshot, is_last_reader, None)
    assert live(tail, snapshot) == [["c"], ["b"]]
    assert tail.read == len(snapshot.segment.commits)


def test_keys_of_adds_and_removes_are_noted_hidden_ones_too(snapshot: Snapshot) -> None:
    keys: list[bytes] = []
    live(walk(snapshot, True, keys), snapshot)
    assert sorted(keys) == [b"a", b"a", b"b", b"c", b"c"]


def test_the_last_reader_leaves_no_commit_held(snapshot: Snapshot) -> None:
    assert snapshot.commits.nbytes > 0, "opening has read them"
    adds = walk(snapshot, True, None).one_by_one(snapshot.segment.commits)
    held = [snapshot.commits.nbytes for _ in adds]
    assert held == sorted(held, reverse=True)
    assert snapshot.commits.nbytes == 0


def test_another_reader_finds_the_commits_held(snapshot: Snapshot) -> None:
    before = snapshot.commits.nbytes
    live(walk(snapshot, False, None), snapshot)
    assert snapshot.commits.nbytes == before


class TestKnownTails:
    """A tail that was replayed before is not decoded again."""

    def known_walk(self, snapshot: Snapshot, cache: Cache, columns: Sequence[str] = DEFAULT_COLUMNS) -> TailWalk:
        maker = KeyMaker(snapshot.store.root_uri)
        known = KnownTails(snapshot.store, snapshot.commits.limits, cache)
        return TailWalk(snapshot.commits, maker, Replay(maker), columns, known=known)

    def test_the_second_walk_gives_the_same_and_decodes_nothing(self, snapshot: Snapshot) -> None:
        cache = Cache()
        first, second = self.known_walk(snapshot, cache), self.known_walk(snapshot, cache)
        found = live(first, snapshot)
        for commit in snapshot.segment.commits:
            snapshot.commits.discard(commit.file)
        assert live(second, snapshot) == found == [["c"], ["b"]]
        assert snapshot.commits.nbytes == 0, "no commit was read again"
        assert (second.read, second.replay.mask_size) == (first.read, first.replay.mask_size)

    def test_walks_do_not_see_what_another_sees_later(self, snapshot: Snapshot) -> None:
        cache = Cache()
        first, second, third = (self.known_walk(snapshot, cache) for _ in range(3))
        live(first, snapshot)
        before = first.replay.mask_size
        for each in (first, second):
            live(each, snapshot)
            each.replay.hide([pa.record_batch({"path": ["z"], "deletion_vector": pa.nulls(1)})])
        live(third, snapshot)
        assert third.replay.mask_size == before

    def test_both_kinds_of_mask_hide_the_same(self, snapshot: Snapshot) -> None:
        cache = Cache()
        for _ in range(2):
            tail = self.known_walk(snapshot, cache)
            live(tail, snapshot)
            paths, vectors = pa.array(["a", "b", "x"]), pa.nulls(3, FILE_SCHEMA.field("deletion_vector").type)
            for replay in (tail.replay.copied(), tail.replay.copied()):
                assert list(replay.range_filter().hidden(paths, vectors, (b"a", b"x"))) == [True, True, False]
                rows = pa.record_batch({"path": paths, "deletion_vector": vectors})
                assert list(replay.base_filter().hidden(rows)) == [True, True, False]

    def test_other_columns_are_another_tail(self, snapshot: Snapshot) -> None:
        cache = Cache()
        live(self.known_walk(snapshot, cache), snapshot)
        with_stats = self.known_walk(snapshot, cache, [*DEFAULT_COLUMNS, "stats"])
        assert all(
            isinstance(each, Add) for _, adds in with_stats.one_by_one(snapshot.segment.commits) for each in adds
        )

    @pytest.mark.parametrize("field", ["size", "last_modified_ms", "etag", "path"])
    def test_another_commit_file_is_another_tail(self, snapshot: Snapshot, field: str) -> None:
        known = KnownTails(snapshot.store, snapshot.commits.limits, Cache())
        commits = snapshot.segment.commits
        value = "other" if field in ("etag", "path") else 1
        last = structs.replace(commits[-1], file=structs.replace(commits[-1].file, **{field: value}))
        assert known.key(commits, DEFAULT_COLUMNS) != known.key([*commits[:-1], last], DEFAULT_COLUMNS)

    def test_an_unfinished_walk_is_not_kept(self, snapshot: Snapshot) -> None:
        cache = Cache()
        next(self.known_walk(snapshot, cache).one_by_one(snapshot.segment.commits))
        assert cache.size == 0

    def test_a_long_tail_is_not_kept(self, snapshot: Snapshot) -> None:
        cache = Cache()
        snapshot.commits.limits = CommitLimits(known_tail=10)
        live(self.known_walk(snapshot, cache), snapshot)
        assert cache.size == 0

    def test_a_walk_that_has_seen_commits_before_neither_uses_nor_keeps(self, snapshot: Snapshot) -> None:
        cache = Cache()
        tail = self.known_walk(snapshot, cache)
        tail.replay.hide([pa.record_batch({"path": ["b"], "deletion_vector": pa.nulls(1)})])
        assert live(tail, snapshot) == [["c"]]
        assert cache.size == 0
