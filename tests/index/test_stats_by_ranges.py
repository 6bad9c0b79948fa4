"""A large stats file is read by ranges: what comes is checked to the last byte, headers of pages included."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.part_entries import PartEntry
from delta_sidecar.index.format.part_format import file_entry
from delta_sidecar.index.format.seals import chunk_ranges, footer_length
from delta_sidecar.index.read.part_file import fetch_stats
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.stores import CountingStore
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import manifest_at, small_parts

WANTED = [("min", "x"), ("max", "x")]


@pytest.fixture
def part(tmp_path: Path) -> tuple[Store, str, PartEntry]:
    log = LogBuilder(tmp_path).metadata({"x": "long", "y": "string"})
    bounds = [{"x": n, "y": f"y{n}"} for n in range(5)]
    log.commit(*(add(f"f{n}", stats={"numRecords": 5, "minValues": b, "maxValues": b}) for n, b in enumerate(bounds)))
    store = open_store(str(tmp_path))
    build_index(store, options=BuildOptions(limits=small_parts(single=0, rows=10)))
    manifest, directory = manifest_at(store, 0)
    return store, directory, manifest.parts[0]


def wanted_bytes(data: bytes) -> list[int]:
    """Where the chunks of the wanted columns lie."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    names = [metadata.row_group(0).column(at).path_in_schema for at in range(metadata.num_columns)]
    wanted = {"min.x", "max.x"}
    ranges = [r for name, r in zip(names, chunk_ranges(metadata), strict=True) if name in wanted]
    assert len(ranges) == 2
    return [at for r in ranges for at in range(r.start, r.start + r.length)]


def read(store: Store, directory: str, part: PartEntry) -> list[object]:
    file = fetch_stats(store, directory, part, WANTED, whole=0)
    return file.read([0], file.positions(WANTED)).to_pylist()


def test_it_is_read(part: tuple[Store, str, PartEntry]) -> None:
    assert read(*part) == [{"min": {"x": n}, "max": {"x": n}} for n in reversed(range(5))]


@pytest.mark.slow
def test_no_byte_may_change(part: tuple[Store, str, PartEntry], tmp_path: Path) -> None:
    _, directory, entry = part
    file = tmp_path / directory / entry.stats_name
    data = bytearray(file.read_bytes())
    at_end = range(len(data) - footer_length(data) - 12, len(data))
    for at in (*wanted_bytes(bytes(data)), *at_end):
        for change in (1, 0x80, 0xFF):
            data[at] ^= change
            file.write_bytes(data)
            with pytest.raises(CorruptIndexError):
                read(*part)
            data[at] ^= change


def test_the_file_of_another_part_is_seen(tmp_path: Path) -> None:
    """Two parts whose columns take the same bytes: nothing but the id tells their footers apart."""
    log = LogBuilder(tmp_path).metadata({"x": "long"})
    bounds = [{"x": n} for n in range(4)]
    log.commit(*(add(f"f{n}", stats={"numRecords": 5, "minValues": b, "maxValues": b}) for n, b in enumerate(bounds)))
    store = open_store(str(tmp_path))
    build_index(store, options=BuildOptions(part_rows=2, limits=small_parts(single=0, small=0, rows=2)))
    manifest, directory = manifest_at(store, 0)
    one, other = manifest.parts[0:2]
    assert one.stats is not None
    assert other.stats is not None
    assert one.stats.size == other.stats.size
    (tmp_path / directory / one.stats_name).write_bytes((tmp_path / directory / other.stats_name).read_bytes())
    with pytest.raises(CorruptIndexError, match="checksum of its footer"):
        read(store, directory, one)


def test_a_file_without_checksums_of_its_columns_comes_whole(
    part: tuple[Store, str, PartEntry], tmp_path: Path
) -> None:
    store, directory, entry = part
    file = tmp_path / directory / entry.stats_name
    pq.write_table(pq.read_table(file), file, store_schema=False)
    bare = msgspec.structs.replace(entry, stats=file_entry(file.read_bytes()))
    counting = CountingStore(store)
    assert read(counting, directory, bare) == [{"min": {"x": n}, "max": {"x": n}} for n in reversed(range(5))]
    assert [request.verb for request in counting.requests] == ["range", "get"]
