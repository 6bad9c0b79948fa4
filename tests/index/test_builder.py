"""Builds that die at any write, run side by side, or meet another table: readers are right, the next build mends."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import BuildOptions, BuildReport, build_index
from delta_sidecar.index.build.garbage import collect_garbage
from delta_sidecar.index.format.index_names import SIDECAR_INDEX, SIDECARS
from delta_sidecar.index.read.manifests import listed_manifests, newest_usable_manifest, read_hint
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.testing import CountingStore, LogBuilder, add, remove
from tests.index.models import assert_index_is, index_rows_at, manifest_at, small_parts

FINE = BuildOptions(part_rows=2, limits=small_parts(single=1, small=2, most=2, rows=3))


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """A store whose process dies at its n-th write: before it takes place, or right after."""

    def __init__(self, inner: Store, write: int, after: bool) -> None:
        self._inner, self._left, self._after = inner, write, after

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        return self._dying(method) if name in ("put_if_absent", "replace", "delete") else method

    def _dying(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def write(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0 and not (self._after and self._left == -1):
                raise Killed
            done = method(*arguments)
            if self._left < 0:
                raise Killed
            return done

        return write


def a_table(root: Path, files: int = 7) -> LogBuilder:
    log = LogBuilder(root)
    log.commit(*(add(f"f{n}.parquet", stats={"numRecords": n}) for n in range(files)))
    return log


def grown(log: LogBuilder) -> LogBuilder:
    """Files of several parts are gone, some are new."""
    log.commit(remove("f1.parquet"), remove("f4.parquet"))
    return log.commit(*(add(f"g{n}.parquet", stats={"numRecords": n}) for n in range(3)))


def check(store: Store, log: LogBuilder) -> None:
    found = verify_index(store)
    assert found.ok, found
    assert (found.version, found.notes) == (log.version, ())
    assert_index_is(store, log.version, log.state().files.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("full", "after"),
    [
        pytest.param(False, True, id="incremental-after"),
        pytest.param(True, False, id="full-before"),
        pytest.param(False, False, id="incremental-before", marks=pytest.mark.slow),
        pytest.param(True, True, id="full-after", marks=pytest.mark.slow),
    ],
)
def test_a_build_that_dies_at_any_write(tmp_path: Path, full: bool, after: bool) -> None:
    """Whatever is there when it dies is what was there before, or the new index; the next build completes."""
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        log = a_table(root)
        store = open_store(str(root))
        build_index(store, options=FINE)
        grown(log)
        options = replace(FINE, full=full)
        try:
            build_index(Dying(store, deaths, after), options=options)  # type: ignore[arg-type]
            break
        except Killed:
            base, passed = newest_usable_manifest(load_snapshot(store))
            assert base is not None
            assert passed == []
            assert base.manifest.version in (0, 2)
            assert_index_is(store, base.manifest.version, log.state(base.manifest.version).files.values())
        build_index(store, options=FINE)
        check(store, log)
        collect_garbage(store, retention=timedelta(0), grace=timedelta(0), lease_limit=timedelta(0))
        check(store, log)
        deaths += 1
        shutil.rmtree(root)
    assert deaths >= 8, "lease, two files a part, manifest, hint, lease"


@pytest.mark.parametrize("files", [0, 1, 7])
def test_a_first_build_that_dies_at_any_write(tmp_path: Path, files: int) -> None:
    for death in range(30):
        root = tmp_path / f"{files}-{death}"
        log = a_table(root, files)
        store = open_store(str(root))
        try:
            build_index(Dying(store, death, True), options=FINE)  # type: ignore[arg-type]
            return
        except Killed:
            build_index(store, options=FINE)
            check(store, log)
    pytest.fail("it never lived")


def test_builders_of_one_version_agree(tmp_path: Path) -> None:
    log = grown(a_table(tmp_path))
    reports = side_by_side(lambda _: build_index(open_store(str(tmp_path)), options=FINE))
    store = open_store(str(tmp_path))
    check(store, log)
    assert {report.version for report in reports} == {2}
    assert [version for version, _, _ in listed_manifests(store)] == [2]


def test_builders_of_different_versions(tmp_path: Path) -> None:
    log = grown(a_table(tmp_path))
    side_by_side(lambda n: build_index(open_store(str(tmp_path)), n % 3, FINE))
    store = open_store(str(tmp_path))
    for version in range(3):
        assert verify_index(store, version).ok
        assert_index_is(store, version, log.state(version).files.values())
    build_index(store, options=FINE)
    check(store, log)


def side_by_side(build: Callable[[int], BuildReport], threads: int = 6) -> list[BuildReport]:
    ready = threading.Barrier(threads)

    def run(number: int) -> BuildReport:
        ready.wait(30)
        return build(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


@pytest.mark.slow
def test_builders_beside_a_garbage_collector(tmp_path: Path) -> None:
    """A collector that spares nothing but what builders hold and readers need."""
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    stop = threading.Event()

    def collect() -> int:
        runs = 0
        while not stop.is_set():
            collect_garbage(store, retain=1, retention=timedelta(0), grace=timedelta(seconds=1))
            runs += 1
        return runs

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(collect)
        try:
            for number in range(25):
                log.commit(add(f"h{number}.parquet"), remove(f"h{number - 3}.parquet"))
                build_index(open_store(str(tmp_path)), options=FINE)
                check(store, log)
        finally:
            stop.set()
        assert running.result() > 3


def test_a_table_made_again_at_the_same_place(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    grown(a_table(tmp_path))
    for version in range(3):
        build_index(store, version, FINE)
    for path in (tmp_path / "_delta_log").glob("*.json"):
        path.unlink()
    log = LogBuilder(tmp_path).metadata(table_id="made-again").commit(add("other.parquet"))
    assert not verify_index(store).ok
    with pytest.raises(CorruptIndexError):
        raise CorruptIndexError(*newest_usable_manifest(load_snapshot(store))[1])
    report = build_index(store, options=FINE)
    assert (report.mode, report.files) == ("full", 1)
    assert_index_is(store, 0, log.state().files.values())
    assert read_hint(store, SIDECARS) == 0, "not the old table's newer index"
    report = verify_index(store)
    assert report.ok
    assert report.version == 0
    assert [note.split()[0] for note in report.notes][:2] == [f"{SIDECARS}/v{n}.manifest.json" for n in (2, 1)]


def test_a_table_made_again_with_as_many_versions(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    a_table(tmp_path, 1)
    build_index(store)
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    log = LogBuilder(tmp_path).metadata(table_id="made-again").commit(add("other.parquet"))
    build_index(store)
    check(store, log)


def test_replace_table_keeps_the_index_a_right_base(tmp_path: Path) -> None:
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    log.metadata({"y": "string"}, table_id="replaced").commit(*(remove(f"f{n}.parquet") for n in range(7)), add("new"))
    report = build_index(store, options=FINE)
    assert report.mode in ("incremental", "full")
    check(store, log)


def test_a_type_that_was_widened(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "integer", "d": "decimal(5,2)"})
    stats = {"numRecords": 3, "minValues": {"x": 1, "d": 1.25}, "maxValues": {"x": 9, "d": 2.5}, "nullCount": {"x": 0}}
    log.commit(*(add(f"f{n}", stats=stats) for n in range(4)))
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    log.metadata({"x": "long", "d": "decimal(10,4)"}).commit(add("g", stats=stats), remove("f1"))
    assert build_index(store, options=FINE).mode == "incremental"
    check(store, log)


def test_a_column_that_was_dropped(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long", "y": "string"})
    stats = {"numRecords": 3, "minValues": {"x": 1, "y": "a"}, "maxValues": {"x": 9, "y": "b"}}
    log.commit(*(add(f"f{n}", stats=stats) for n in range(4)))
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    log.metadata({"x": "long"}).commit(add("g", stats=stats), remove("f1"))
    assert build_index(store, options=FINE).mode == "incremental"
    check(store, log)


def test_the_protocol_moves_the_index(tmp_path: Path) -> None:
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    assert build_index(store, options=FINE).manifest.startswith(f"{SIDECARS}/")
    log.protocol(3, features=["v2Checkpoint"]).commit(add("more"))
    assert build_index(store, options=FINE).manifest.startswith(f"{SIDECAR_INDEX}/")
    check(store, log)


def test_many_small_parts_are_merged(tmp_path: Path) -> None:
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    for number in range(12):
        log.commit(add(f"s{number}"))
        build_index(store, options=FINE)
    manifest, _ = manifest_at(store, log.version)
    small = [part for part in manifest.parts if part.rows < FINE.limits.small_rows]
    assert len(small) <= FINE.limits.small_parts
    check(store, log)


def test_untouched_parts_are_named_again(tmp_path: Path) -> None:
    log = a_table(tmp_path, 12)
    store = open_store(str(tmp_path))
    options = replace(FINE, limits=small_parts(single=1, small=0, most=50, rows=3))
    build_index(store, options=options)
    before = {part.id for part in manifest_at(store, 0)[0].parts}
    log.commit(remove("f3.parquet"))
    report = build_index(store, options=options)
    after = {part.id for part in manifest_at(store, 1)[0].parts}
    assert len(before - after) == 1, "the part that held it"
    assert report.parts_reused == len(before) - 1
    check(store, log)


def test_an_empty_table(tmp_path: Path) -> None:
    log = a_table(tmp_path, 0)
    store = open_store(str(tmp_path))
    assert build_index(store).files == 0
    check(store, log)
    assert index_rows_at(store, 0) == []


def test_a_missing_part_is_mended_by_the_next_build(tmp_path: Path) -> None:
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    next((tmp_path / SIDECARS).glob("*.core.parquet")).unlink()
    assert not verify_index(store).ok
    assert build_index(store, options=FINE).mode == "full"
    check(store, log)


def test_a_missing_single_file_is_mended_by_the_next_build(tmp_path: Path) -> None:
    """Its successor has the same name and, but for the ids inside, the same bytes: as many, too."""
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store)
    (single,) = (tmp_path / SIDECARS).glob("*.parquet")
    size = single.stat().st_size
    single.unlink()
    assert not verify_index(store).ok
    assert build_index(store).mode == "full"
    assert single.stat().st_size == size
    check(store, log)
    assert build_index(store).mode == "current"


def test_a_flipped_byte_is_mended_by_a_full_build(tmp_path: Path) -> None:
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    part = next((tmp_path / SIDECARS).glob("*.stats.parquet"))
    data = bytearray(part.read_bytes())
    data[10] ^= 1
    part.write_bytes(data)
    assert "checksum" in verify_index(store).problems[0]
    build_index(store, options=replace(FINE, full=True))
    check(store, log)


def test_the_hint_follows_the_newest(tmp_path: Path) -> None:
    grown(a_table(tmp_path))
    store = open_store(str(tmp_path))
    for version, expected in ((1, 1), (0, 1), (2, 2), (1, 2)):
        build_index(store, version, FINE)
        assert read_hint(store, SIDECARS) == expected
    (tmp_path / SIDECARS / "_last_index").write_bytes(b"{")
    build_index(store, options=FINE)
    assert read_hint(store, SIDECARS) == 2


def test_another_sort_column_replaces_the_index(tmp_path: Path) -> None:
    log = a_table(tmp_path)
    store = open_store(str(tmp_path))
    build_index(store, options=FINE)
    again = build_index(store, options=replace(FINE, sort_column="x"))
    assert again.mode == "full"
    assert manifest_at(store, 0)[0].sort.kind == "min"
    check(store, log)


def test_in_memory(tmp_path: Path) -> None:
    log = grown(a_table(tmp_path))
    store = open_store("memory://")
    for version in range(3):
        name = f"_delta_log/{version:020}.json"
        store.put_if_absent(name, (tmp_path / name).read_bytes())
        build_index(store, options=FINE)
    check(store, log)
    collect_garbage(store, retain=1, retention=timedelta(0), grace=timedelta(0))
    check(store, log)


def test_an_indexed_table_that_becomes_empty_has_an_empty_index(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.commit(add("a.parquet", stats={"numRecords": 1}), add("b.parquet"))
    store = open_store(str(tmp_path))
    build_index(store)
    log.commit(remove("a.parquet"), remove("b.parquet"))
    emptied = build_index(store)
    assert (emptied.mode, emptied.files, emptied.parts) == ("incremental", 0, 0)
    assert verify_index(store).ok
    log.commit(add("c.parquet"))
    assert build_index(store).files == 1
    assert_index_is(store, 2, log.state().files.values())


def test_an_index_of_many_parts_may_become_empty(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.commit(*(add(f"{n}.parquet") for n in range(9)))
    store = open_store(str(tmp_path))
    assert build_index(store, options=FINE).parts > 2
    log.commit(*(remove(f"{n}.parquet") for n in range(9)))
    for full in (False, True):
        assert build_index(store, options=replace(FINE, full=full)).files == 0
        assert verify_index(store).ok


def test_the_base_is_opened_once(tmp_path: Path) -> None:
    """Files are counted and read through one look at the checkpoint's footer."""
    log = a_table(tmp_path)
    log.checkpoint()
    log.protocol().metadata().commit(add("more.parquet"))
    store = CountingStore(open_store(str(tmp_path)))
    build_index(store)
    of_checkpoint = [request.verb for request in store.requests if "checkpoint.parquet" in request.path]
    assert of_checkpoint == ["range", "range"], "its end, which tells how many files it has, and its rows"
