"""The walk of a tail: what it gives, what it notes, what it leaves held."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_sidecar.log.file_keys import KeyMaker
from delta_sidecar.log.file_schema import DEFAULT_COLUMNS
from delta_sidecar.log.replay import Replay
from delta_sidecar.log.snapshot import Snapshot, load_snapshot
from delta_sidecar.log.tail import TailWalk
from delta_sidecar.storage import open_store
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
