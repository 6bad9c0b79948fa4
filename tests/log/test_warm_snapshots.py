"""A table that was opened before: one LIST, and only what changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.limits import CommitLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing.actions import add, remove
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder


@pytest.fixture
def built(tmp_path: Path) -> LogBuilder:
    log = LogBuilder(tmp_path)
    for version in range(6):
        log.commit(add(f"f{version}.parquet"))
    build_index(open_store(str(tmp_path)), 3)
    return log


def opened(built: LogBuilder) -> tuple[DeltaTable, CountingStore]:
    store = CountingStore(open_store(str(built.root)))
    return DeltaTable(store.root_uri, store=store), store


def names(table: DeltaTable) -> set[str]:
    return {file.path for file in table.file_infos()}


def expected(built: LogBuilder) -> set[str]:
    return {file["path"] for file in built.state().files.values()}


def test_when_nothing_changed_one_list_and_nothing_else(built: LogBuilder) -> None:
    first, _ = opened(built)
    assert names(first) == expected(built)
    table, store = opened(built)
    assert names(table) == expected(built)
    assert store.counts() == {"list": 1}
    assert table.version() == 5


def test_new_commits_are_all_that_is_fetched(built: LogBuilder) -> None:
    names(opened(built)[0])
    built.commit(add("f6.parquet")).commit(remove("f0.parquet"))
    table, store = opened(built)
    assert names(table) == expected(built)
    assert "f6.parquet" in names(table)
    assert "f0.parquet" not in names(table)
    assert [path[-6:] for path in sorted(store.paths("get"))] == ["6.json", "7.json"]
    assert store.counts()["list"] == 1


def test_a_new_checkpoint_means_a_look_at_everything(built: LogBuilder) -> None:
    names(opened(built)[0])
    built.commit(add("f6.parquet")).checkpoint()
    build_index(open_store(str(built.root)))
    table, _ = opened(built)
    assert names(table) == expected(built)
    assert table.snapshot.segment.base_version == 6


def test_news_of_a_log_without_a_base_need_no_checksum(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for version in range(4):
        log.commit(add(f"f{version}.parquet"))
    names(opened(log)[0])
    log.commit(add("f4.parquet")).metadata({"later": "string"}).commit(add("f5.parquet")).crc()
    table, store = opened(log)
    assert table.schema().names == ["later"]
    assert names(table) == expected(log)
    assert sorted(path.rpartition("/")[2] for path in store.paths("get")) == [
        *(f"{version:020}.json" for version in (4, 5)), "_last_index", "_last_index"
    ]  # fmt: skip


def test_a_newer_index_is_found_once_the_tail_is_long(built: LogBuilder) -> None:
    table, store = opened(built)
    for round_ in range(8):
        for number in range(4):
            built.commit(add(f"g{round_}-{number}.parquet"))
        build_index(open_store(str(built.root)))
        asked = len(store.requests)
        table.update_incremental()
        assert names(table) == expected(built)
        assert len(table.snapshot.segment.commits) <= CommitLimits().guesses + 4
        if len(table.snapshot.segment.commits) <= CommitLimits().guesses and round_ == 0:
            assert not [path for path in store.paths("get")[asked:] if path.endswith("_last_index")], "a short tail"
    assert table.snapshot.segment.base_version > 20


def test_a_long_tail_without_a_newer_index_costs_no_trip(built: LogBuilder) -> None:
    for number in range(12):
        built.commit(add(f"g{number}.parquet"))
    names(opened(built)[0])
    table, store = opened(built)
    assert names(table) == expected(built)
    assert table.snapshot.segment.base_version == 3
    assert store.counts() == {"list": 1, "get": 2}
    assert all(path.endswith("_last_index") for path in store.paths("get"))


def test_a_table_made_again_at_the_same_place_is_another(built: LogBuilder, tmp_path: Path) -> None:
    names(opened(built)[0])
    for path in (tmp_path / "_delta_log").glob("*.json"):
        path.unlink()
    other = LogBuilder(tmp_path)
    for version in range(6):
        other.commit(add(f"other{version}.parquet"))
    table, _ = opened(other)
    assert names(table) == expected(other) == {f"other{v}.parquet" for v in range(6)}


def test_what_stands_on_a_checkpoint_is_not_kept(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).commit(add("a.parquet")).checkpoint()
    names(opened(log)[0])
    build_index(open_store(str(tmp_path)))
    table, _ = opened(log)
    with table.scan_files() as scan:
        assert scan.read_all().num_rows == 1
    assert scan.metrics.tier == "index"


def test_a_broken_index_is_forgotten(built: LogBuilder, tmp_path: Path) -> None:
    names(opened(built)[0])
    shared_cache.clear()
    table, _ = opened(built)
    part = next((tmp_path / "_delta_log" / "_sidecars").glob("v3*.parquet"))
    part.write_bytes(b"x" * part.stat().st_size)
    assert names(table) == expected(built)
    table, store = opened(built)
    assert names(table) == expected(built)
    assert store.counts()["get"] > 0, "not from the cache"


def test_no_cache_when_its_size_is_nothing(built: LogBuilder) -> None:
    for _ in range(2):
        store = CountingStore(open_store(str(built.root)))
        table = DeltaTable(store.root_uri, store=store, options={"delta.sidecar.cache_size": 0})
        assert names(table) == expected(built)
        assert store.counts()["get"] > 1


@pytest.fixture(autouse=True)
def usual_size() -> Iterator[None]:
    yield
    shared_cache.resize(32 << 20)
