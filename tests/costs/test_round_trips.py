"""What a cold open, the first file and a whole listing cost in requests and in sequential round trips."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.costs.counted import commits_asked, counted, opened


def log(root: Path, checkpoint: int | None, head: int, crc: bool = False) -> LogBuilder:
    """One add a commit; a checkpoint at a version, and a checksum at the head."""
    built = LogBuilder(root)
    for version in range(head + 1):
        built.commit(add(f"f{version}.parquet"))
        if version == checkpoint:
            built.checkpoint()
    return built.crc() if crc else built


def answered(store: CountingStore) -> Counter[str]:
    """Requests that brought something; guesses at commits that do not exist may be under way or never begun."""
    return Counter(request.verb for request in store.requests if not request.failed)


def test_no_checkpoint_two_trips_to_every_file(tmp_path: Path) -> None:
    log(tmp_path, None, head=2)
    store = counted(tmp_path, in_step=True)
    table = opened(store)
    assert store.round_trips() == 2, "the hint that is not there; the listing beside commits 0 to 7"
    assert answered(store) == {"list": 1, "stream": 3}
    assert len(store.requests) <= 12, "the hints and five commits that are not there"
    store.reset()
    assert len(list(table.file_infos())) == 3
    assert answered(store) == {}, "all commits came with the listing"


def test_checkpoint_checksum_and_short_tail_three_trips_to_the_first_file(tmp_path: Path) -> None:
    log(tmp_path, checkpoint=10, head=14, crc=True)
    store = counted(tmp_path, in_step=True)
    files = opened(store).file_infos(strategy="reverse")
    assert next(files).path == "f14.parquet"
    assert store.round_trips() == 3, "the hint; the listing beside commits 11 to 18; the checksum"
    assert answered(store) == {"get": 2, "list": 1, "stream": 4}
    assert len(store.requests) <= 15, "two hints and two manifests of an index that is not there"
    assert not [path for path in store.paths() if "checkpoint.parquet" in path]
    files.close()


def test_without_checksum_the_checkpoint_is_asked_for_metadata(tmp_path: Path) -> None:
    log(tmp_path, checkpoint=10, head=14)
    store = counted(tmp_path, in_step=True)
    files = opened(store).file_infos(strategy="reverse")
    assert next(files).path == "f14.parquet"
    trips, counts = store.round_trips(), answered(store)
    files.close()
    assert trips == 3, "the hint; the listing beside commits 11 to 18; the checkpoint, small enough to come at once"
    assert counts == {"get": 1, "list": 1, "stream": 4, "range": 1}


def test_metadata_in_the_tail_needs_no_checkpoint(tmp_path: Path) -> None:
    built = log(tmp_path, checkpoint=10, head=11)
    built.protocol(reader=1, writer=2).metadata({"y": "long"}).commit(add("f12.parquet"))
    store = counted(tmp_path, in_step=True)
    files = opened(store).file_infos(strategy="reverse")
    assert next(files).path == "f12.parquet"
    assert store.round_trips() == 2
    assert not [path for path in store.paths() if "checkpoint.parquet" in path]
    files.close()


def test_the_first_file_does_not_wait_for_a_long_tail(tmp_path: Path) -> None:
    log(tmp_path, checkpoint=1, head=60, crc=True)
    store = counted(tmp_path, in_step=True)
    files = opened(store).file_infos()
    assert next(files).path == "f60.parquet"
    assert store.round_trips() == 3, "the hint; the listing; the checksum beside the newest commit"
    files.close()


def test_a_long_tail_is_fetched_in_parallel(tmp_path: Path) -> None:
    log(tmp_path, checkpoint=1, head=29, crc=True)
    store = counted(tmp_path, in_step=True)
    assert len(list(opened(store).file_infos())) == 30
    assert commits_asked(store) == list(range(29, 1, -1))
    requests = [p for p in store.paths() if p.endswith(".json") and "manifest" not in p]
    assert len(requests) == len(set(requests)) == 28, "no commit is asked for twice"
    assert store.round_trips() <= 7, "hint, listing, checksum, two windows of ten commits, checkpoint"


def test_the_warm_table_lists_again_without_opening_again(tmp_path: Path) -> None:
    log(tmp_path, checkpoint=3, head=6)
    store = counted(tmp_path)
    table = opened(store)
    list(table.file_infos())
    store.reset()
    assert len(list(table.file_infos())) == 7
    assert commits_asked(store) == []
    assert store.counts()["list"] == 0


def test_the_table_tells_the_cost_it_was_charged(tmp_path: Path) -> None:
    log(tmp_path, checkpoint=3, head=11, crc=True)  # every guess is right, so none is left under way
    store = counted(tmp_path)
    table = opened(store)
    assert table.opening_cost.requests == len(store.requests)
    assert table.opening_cost.bytes_read == store.bytes_read
    store.reset()
    with table.scan_files() as scan:
        scan.read_all()
    assert scan.metrics.requests == len(store.requests)
    assert scan.metrics.bytes_read == store.bytes_read
