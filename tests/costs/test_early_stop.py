"""Who stops early does not pay for the rest: limits, and streams closed in the tail and in the base."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from delta_sidecar.testing.actions import add, remove
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.counted import commits_asked, counted, opened

HEAD = 201


@pytest.fixture
def long_tail(tmp_path: Path) -> LogBuilder:
    """A checkpoint at 1 and 200 commits of two adds each after it."""
    built = LogBuilder(tmp_path).commit(add("first.parquet")).commit().checkpoint()
    for version in range(2, HEAD + 1):
        built.commit(add(f"a{version}.parquet"), add(f"b{version}.parquet"), remove(f"a{version - 1}.parquet"))
    return built


def test_a_limit_reads_only_the_newest_commits(long_tail: LogBuilder) -> None:
    store = counted(long_tail.crc().root)
    files = list(opened(store).file_infos(limit=10))
    assert len(files) == 10
    asked = set(commits_asked(store)) - set(range(2, 10))  # those are asked for beside the listing, on a guess
    needed = set(range(HEAD, HEAD - 9, -1))
    assert needed <= asked <= needed | {HEAD - 9}, "nine commits hold ten files, one more may be read ahead"
    assert not [path for path in store.paths() if "checkpoint.parquet" in path]


def test_without_a_checksum_metadata_may_be_anywhere_so_all_are_read(long_tail: LogBuilder) -> None:
    store = counted(long_tail.root)
    assert len(list(opened(store).file_infos(limit=10))) == 10
    assert commits_asked(store) == list(range(HEAD, 1, -1))


@pytest.mark.parametrize("fault", ["corrupt", "empty", "no metadata", "no protocol"])
def test_a_checksum_that_does_not_tell_all_is_none(long_tail: LogBuilder, fault: str) -> None:
    store = counted(long_tail.crc(fault=fault).root)  # type: ignore[arg-type]
    assert len(list(opened(store).file_infos(limit=1))) == 1
    assert commits_asked(store) == list(range(HEAD, 1, -1))


def test_a_limit_of_nothing_asks_nothing(long_tail: LogBuilder) -> None:
    store = counted(long_tail.crc().root)
    table = opened(store)
    store.reset()
    assert list(table.file_infos(limit=0)) == []
    assert store.requests == []


def test_an_exact_limit_does_not_look_for_more(tmp_path: Path) -> None:
    built = LogBuilder(tmp_path).commit(add("old.parquet")).checkpoint()
    store = counted(built.commit(add("new.parquet")).crc().root)
    assert [f.path for f in opened(store).file_infos(limit=1)] == ["new.parquet"]
    assert not [path for path in store.paths() if "checkpoint.parquet" in path]


def test_a_stream_closed_in_the_tail_asks_no_more(long_tail: LogBuilder) -> None:
    store = counted(long_tail.crc().root, in_step=True)
    table = opened(store)
    with table.scan_files(strategy="reverse") as scan:
        next(iter(scan))
    settled(store)
    assert len(commits_asked(store)) <= 8 + table.settings.commit_parallelism + 1
    assert not scan.metrics.complete


@pytest.mark.slow
def test_a_stream_closed_in_the_base_asks_no_more(tmp_path: Path) -> None:
    noise = random.Random(7)
    built = LogBuilder(tmp_path).commit(*(add(f"{noise.randbytes(800).hex()}.parquet") for _ in range(20_000)))
    built.checkpoint(row_group_size=2_000).commit(add("new.parquet")).crc()
    store = counted(tmp_path, in_step=True)
    with opened(store, options={"delta.sidecar.batch_size": 1_000}).scan_files(strategy="reverse") as scan:
        batches = iter(scan)
        assert next(batches).num_rows == 1
        assert 900 < next(batches).num_rows <= 1_000
    settled(store)
    assert scan.metrics.row_groups_read <= 3
    checkpoint = next(path for path in tmp_path.rglob("*.checkpoint.parquet"))
    assert store.bytes_read < checkpoint.stat().st_size / 2


def settled(store: object) -> None:
    """Requests already under way may end; none may begin."""
    closed = time.perf_counter()
    time.sleep(0.3)
    late = [request for request in store.requests if request.t_start > closed]  # type: ignore[attr-defined]
    assert late == []
