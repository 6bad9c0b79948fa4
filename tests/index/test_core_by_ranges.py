"""A core that lies at hand is read by ranges where few of its row groups are wanted, and checked to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import file_entry
from delta_sidecar.index.format.seals import chunk_ranges, footer_length
from delta_sidecar.index.read.part_file import fetch_core
from delta_sidecar.limits import PartLimits, ReaderLimits
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.local import LocalStore
from delta_sidecar.storage.store import Buffer, ByteRange, Store
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import manifest_at, small_parts

FILES, GROUP = 12, 3
Part = tuple[Store, str, PartEntry]


BY_RANGES = ReaderLimits(parts=PartLimits(whole_core=0))


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


def path_of(number: int) -> str:
    return f"p={number // GROUP}/f{number:02}"


@pytest.fixture
def part(tmp_path: Path) -> Part:
    """One part of four row groups, each of one partition value, the greatest first."""
    log = LogBuilder(tmp_path).metadata({"p": "string", "x": "long"}, partition_by=["p"])
    log.commit(*(add(path_of(n), partition={"p": str(n // GROUP)}) for n in range(FILES)))
    store = open_store(str(tmp_path))
    build_index(
        store, options=BuildOptions(part_rows=FILES, limits=small_parts(single=0, rows=FILES, row_group_rows=GROUP))
    )
    manifest, directory = manifest_at(store, 0)
    assert len(manifest.parts) == 1
    return store, directory, manifest.parts[0]


def bytes_of_group(data: bytes, group: int) -> list[int]:
    metadata = pq.read_metadata(pa.BufferReader(data))
    columns = metadata.num_columns
    ranges = chunk_ranges(metadata)[group * columns : (group + 1) * columns]
    return [at for r in ranges for at in range(r.start, r.start + r.length)]


def read(store: Store, directory: str, part: PartEntry, group: int) -> list[str]:
    file = fetch_core(store, directory, part, whole=0)
    positions = range(file.metadata.num_columns)
    return file.read([group], positions).column("path").to_pylist()  # type: ignore[no-any-return]


def test_a_row_group_comes_alone(part: Part) -> None:
    store, directory, entry = part
    counting = CountingStore(store)
    assert read(counting, directory, entry, 2) == [path_of(n) for n in (5, 4, 3)]
    assert [request.verb for request in counting.requests] == ["range", "range"]
    whole = fetch_core(CountingStore(store), directory, entry)
    assert whole.read(range(4), [0]).num_rows == FILES


def test_what_is_here_is_not_asked_for_again(part: Part) -> None:
    store, directory, entry = part
    counting = CountingStore(store)
    file = fetch_core(counting, directory, entry, whole=0)
    for groups in ([1], [1], [0, 1], [0]):
        assert file.read(groups, [0, 1]).num_rows == GROUP * len(groups)
    assert [request.verb for request in counting.requests] == ["range", "range", "range"]


def test_threads_that_want_more_and_less_of_a_row_group(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ask before either has its answer; whichever comes last, nothing that came is lost."""
    store, directory, entry = part
    file = fetch_core(store, directory, entry, whole=0)
    whole = LocalStore.get_ranges
    columns = range(file.metadata.num_columns)

    def in_between(self: LocalStore, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        monkeypatch.setattr(LocalStore, "get_ranges", whole)
        answers = whole(self, path, ranges)
        assert file.read([1], columns).num_rows == GROUP
        return answers

    monkeypatch.setattr(LocalStore, "get_ranges", in_between)
    assert file.read([1], columns[:1]).num_rows == GROUP
    assert file.read([1], columns).column("path").to_pylist() == [path_of(n) for n in (8, 7, 6)]


@pytest.mark.slow
def test_no_byte_of_what_is_read_may_change(part: Part, tmp_path: Path) -> None:
    _, directory, entry = part
    file = tmp_path / directory / entry.core_name
    data = bytearray(file.read_bytes())
    at_end = range(len(data) - footer_length(data) - 12, len(data))
    for at in (*bytes_of_group(bytes(data), 2), *at_end):
        data[at] ^= 0x10
        file.write_bytes(data)
        with pytest.raises(CorruptIndexError):
            read(*part, 2)
        data[at] ^= 0x10


def test_a_core_without_checksums_of_its_columns_comes_whole(part: Part, tmp_path: Path) -> None:
    store, directory, entry = part
    file = tmp_path / directory / entry.core_name
    pq.write_table(pq.read_table(file), file, store_schema=False, row_group_size=GROUP)
    bare = msgspec.structs.replace(entry, core=file_entry(file.read_bytes()))
    counting = CountingStore(store)
    assert read(counting, directory, bare, 0) == [path_of(n) for n in (11, 10, 9)]
    assert [request.verb for request in counting.requests] == ["range", "get"]


def listed(root: Path, predicate: str | None) -> tuple[list[str], str]:
    with DeltaTable(str(root), limits=BY_RANGES).scan_files(predicate=predicate) as scan:
        return [path for batch in scan for path in batch["path"].to_pylist()], scan.metrics.tier


@pytest.mark.parametrize("broken", range(4))
def test_damage_in_one_row_group(part: Part, tmp_path: Path, broken: int) -> None:
    """Who does not read it is not disturbed; who does falls back, and no file is told twice or lost."""
    _, directory, entry = part
    file = tmp_path / directory / entry.core_name
    data = bytearray(file.read_bytes())
    data[bytes_of_group(bytes(data), broken)[9]] ^= 1
    file.write_bytes(data)
    for group in range(4):
        shared_cache.clear()
        found, tier = listed(tmp_path, f"p = '{group}'")
        assert sorted(found) == [path_of(n) for n in range(group * GROUP, group * GROUP + GROUP)]
        assert tier == ("log" if group == 3 - broken else "index")
    for predicate in ("p >= '0'", None):
        shared_cache.clear()
        found, tier = listed(tmp_path, predicate)
        assert sorted(found) == [path_of(n) for n in range(FILES)]
        assert tier == "log"


def test_a_core_that_goes_while_its_row_groups_are_read(tmp_path: Path) -> None:
    """More parts than the cache takes: what was read of a part is still here, and tells which files are out."""
    log = LogBuilder(tmp_path).metadata({"p": "string", "x": "long"}, partition_by=["p"])
    log.commit(*(add(f"p={n // 12}/f{n:02}", partition={"p": str(n // 12)}) for n in range(96)))
    build_index(
        open_store(str(tmp_path)),
        options=BuildOptions(part_rows=12, limits=small_parts(single=0, rows=12, row_group_rows=GROUP)),
    )
    found: list[str] = []
    with DeltaTable(str(tmp_path), limits=BY_RANGES).scan_files(limit=20) as scan:
        for batch in scan:
            if not found:
                for core in tmp_path.rglob("*.core.parquet"):
                    core.unlink()
            found += batch["path"].to_pylist()
    assert len(found) == len(set(found)) == 20
    assert scan.metrics.tier == "log"


def test_whoever_reads_from_a_cached_core_is_charged(part: Part, tmp_path: Path) -> None:
    costs = []
    for group in range(4):
        with DeltaTable(str(tmp_path), limits=BY_RANGES).scan_files(predicate=f"p = '{group}'") as scan:
            assert sum(batch.num_rows for batch in scan) == GROUP
            costs.append(scan)
    assert [scan.metrics.requests for scan in costs] == [2, 1, 1, 1]
