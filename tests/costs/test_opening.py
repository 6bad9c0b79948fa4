"""A table without a checkpoint: its log is read once for state and files, and not again when it is reopened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.limits import CommitLimits
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.counted import counted, opened

MB = 1 << 20
_random = random.Random(7)


def files(version: int, count: int) -> list[Any]:
    stats = {"numRecords": 9, "minValues": {"x": version}, "maxValues": {"x": version + 1}, "nullCount": {"x": 0}}
    made = (f"{version:05}-{n:05}-{_random.getrandbits(128):032x}-c000.snappy.parquet" for n in range(count))
    return [add(name, size=_random.getrandbits(30), stats=stats) for name in made]


def log_of(root: Path, sizes: list[int]) -> tuple[LogBuilder, int]:
    """A log whose commits have so many files, and its bytes."""
    log = LogBuilder(root).metadata({"x": "long"})
    for version, count in enumerate(sizes):
        log.commit(*files(version, count))
    return log, log_bytes(root)


def log_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in (root / "_delta_log").glob("*.json"))


def listed(table: DeltaTable) -> int:
    with table.scan_files() as scan:
        return sum(batch.num_rows for batch in scan)


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


@pytest.mark.parametrize(
    "sizes", [[400] * 60, [20_000, 5, 5], [3_000] * 8], ids=["many commits", "a large one", "eight, above a guess"]
)
def test_the_log_is_read_once(tmp_path: Path, sizes: list[int]) -> None:
    """The first has 4 MB, and may hold 2: half of them as they are, the rest compressed."""
    _, size = log_of(tmp_path, sizes)
    store = counted(tmp_path)
    table = opened(store, options={"delta.sidecar.memory_budget": size})
    assert listed(table) == sum(sizes)
    guesses = 8 * 257 * 1024 if size / len(sizes) > 256 * 1024 else 0
    assert store.bytes_read <= size * 1.01 + min(guesses, size) + 4096
    before = store.bytes_read
    assert listed(table) == sum(sizes)
    assert store.bytes_read == before, "a second listing asks for nothing"
    assert table.snapshot.commits.nbytes <= size // 2


@pytest.mark.slow
def test_what_does_not_fit_the_budget_is_fetched_again(tmp_path: Path) -> None:
    _, size = log_of(tmp_path, [400] * 60)
    store = counted(tmp_path)
    table = opened(store, options={"delta.sidecar.memory_budget": size // 20})
    assert listed(table) == 24_000
    assert table.snapshot.commits.nbytes <= size // 40
    assert size * 1.5 < store.bytes_read <= size * 2.01 + 4096


def test_a_table_opened_again_costs_a_list_and_two_hints(tmp_path: Path) -> None:
    log, size = log_of(tmp_path, [400] * 60)
    listed(opened(counted(tmp_path)))
    store = counted(tmp_path)
    assert listed(opened(store)) == 24_000
    assert store.counts() == {"list": 1, "get": 2}, "the hints of an index, which are not there"
    assert store.bytes_read == 0
    log.commit(*files(60, 3))
    store = counted(tmp_path)
    assert listed(opened(store)) == 24_003
    assert store.bytes_read == log_bytes(tmp_path) - size
    assert shared_cache.size <= shared_cache.limit


@pytest.mark.slow
def test_what_the_cache_has_no_room_for_is_fetched_again(tmp_path: Path) -> None:
    _, size = log_of(tmp_path, [400] * 60)
    options = {"delta.sidecar.cache_size": size // 20}
    limit = shared_cache.limit
    try:
        for _ in range(3):
            store = counted(tmp_path)
            assert listed(opened(store, options=options)) == 24_000
        assert store.bytes_read <= size, "the state is known, the files are read once"
        assert shared_cache.size <= size // 20
    finally:
        shared_cache.resize(limit)


def test_metadata_that_changed_since_is_the_newest(tmp_path: Path) -> None:
    log, _ = log_of(tmp_path, [2, 2])
    assert opened(counted(tmp_path)).schema().names == ["x"]
    log.metadata({"x": "long", "y": "long"}).commit(*files(2, 1))
    table = opened(counted(tmp_path))
    assert (table.schema().names, listed(table)) == (["x", "y"], 5)


def test_an_index_that_has_come_is_found(tmp_path: Path) -> None:
    log_of(tmp_path, [2, 2])
    listed(opened(counted(tmp_path)))
    build_index(open_store(str(tmp_path)))
    with opened(counted(tmp_path)).scan_files() as scan:
        assert scan.read_all().num_rows == 4
    assert scan.metrics.tier == "index"


def test_a_table_made_again_at_the_same_place_is_another(tmp_path: Path) -> None:
    log_of(tmp_path, [2, 2])
    listed(opened(counted(tmp_path)))
    for path in (tmp_path / "_delta_log").glob("*.json"):
        path.unlink()
    log_of(tmp_path, [3, 2])
    assert listed(opened(counted(tmp_path))) == 5


def test_a_checkpoint_and_a_cleanup_behind_a_known_version(tmp_path: Path) -> None:
    log, _ = log_of(tmp_path, [2, 2, 2])
    store = CountingStore(open_store(str(tmp_path)))
    opened(store)
    shared_cache.get(("snapshot", store.identity)).commits._held.clear()
    log.checkpoint(version=1).cleanup(before=1)
    assert listed(opened(counted(tmp_path))) == 6


@pytest.mark.slow
def test_a_build_reads_the_log_once(tmp_path: Path) -> None:
    _, size = log_of(tmp_path, [400] * 60)
    store = counted(tmp_path)
    build_index(store)
    assert store.bytes_read < size * 1.3, "and the last commit for its checksum"


@pytest.mark.slow
def test_large_commits_are_held_compressed(tmp_path: Path) -> None:
    """Held in a fifth of their size, within the budget whatever it is."""
    log_of(tmp_path, [20_000, 5, 5])
    commit = (tmp_path / "_delta_log" / f"{0:020}.json").stat().st_size
    assert commit > 4 * MB
    assert load_snapshot(open_store(str(tmp_path))).commits.nbytes < commit // 2
    for held in (0, 1000, MB):
        assert load_snapshot(open_store(str(tmp_path)), limits=CommitLimits(held_bytes=held)).commits.nbytes <= held
