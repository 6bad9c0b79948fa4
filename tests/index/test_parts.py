"""Parts: rows come back as they went in, what is all null is left out, every damage is noticed."""

from __future__ import annotations

import io
import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import CorruptIndexError
from delta_sidecar.index.build.part_writer import write_part
from delta_sidecar.index.format.index_columns import column
from delta_sidecar.index.format.index_layout import IndexLayout
from delta_sidecar.index.format.part_entries import FileEntry, PartEntry
from delta_sidecar.index.format.part_format import MANIFEST_KEY, nested
from delta_sidecar.index.read.part_rows import read_file_keys
from delta_sidecar.index.read.whole_part import completed, read_part
from delta_sidecar.index.stats.index_rows import SOURCE_COLUMNS, index_rows, sorted_rows
from delta_sidecar.log.actions import Add, DeletionVector
from delta_sidecar.log.commits import add_rows
from delta_sidecar.storage import open_store
from delta_sidecar.storage.store import Store
from delta_sidecar.values.types import parse_schema

TYPES: dict[str, Any] = {
    "ts": "timestamp", "p": "string", "path": "long", "min": "double", "f": "float", "d": "decimal(20,3)",
    "b": "boolean",    "bin": "binary", "day": "date", "n": "timestamp_ntz", "a.b": "short",
    "a": {"type": "struct", "fields": [{"name": "b", "type": "byte", "nullable": True, "metadata": {}}]},
    "quiet": "string", "empty": {"type": "struct", "fields": []},
}  # fmt: skip
BOUNDS = {
    "ts": "2026-02-10T22:00:00.123Z", "path": 7, "min": 1.5, "f": 0.1, "d": 12.345, "b": True, "bin": "xy",
    "day": "1969-12-31", "n": "0001-01-01T00:00:00", "a.b": -3, "a": {"b": 4},
}  # fmt: skip


def layout_for(types: dict[str, Any], partition: list[str], **chosen: str) -> IndexLayout:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return IndexLayout.of(parse_schema(json.dumps({"type": "struct", "fields": fields}), "none"), partition, **chosen)


LAYOUT = layout_for(TYPES, ["p"])


def adds() -> list[Add]:
    stats = json.dumps({"numRecords": 5, "minValues": BOUNDS, "maxValues": BOUNDS, "nullCount": {"quiet": 5, "d": 0}})
    odd = json.dumps({"numRecords": 5, "minValues": {"path": 1.5}, "what": 1})
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 40, 2)
    return [
        Add("b", 10, 1, {"p": "x"}, stats),
        Add("a", 11, 2, {"p": "x"}, odd, vector, {"k": None}, 7, 8, "liquid"),
        Add("c%20d", 12, 3, {"p": None}, None),
        Add("e", 13, 4, {}, stats),
    ]


def rows() -> pa.Table:
    return sorted_rows(index_rows(add_rows(adds(), SOURCE_COLUMNS.names), LAYOUT), LAYOUT)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


@pytest.mark.parametrize("single", [False, True])
def test_rows_come_back(store: Store, single: bool) -> None:
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000, single=single)
    found = completed(read_part(store, "i", entry, LAYOUT))
    for name in rows().column_names:
        expected = rows().column(name)
        if expected.null_count < len(expected) or name in found.column_names:
            assert found.column(name).to_pylist() == expected.to_pylist(), name
    assert found.column(column("min", ("d",))).to_pylist() == [Decimal("12.345"), None, Decimal("12.345"), None]


def test_null_and_absent_partition_values_stay_apart(store: Store) -> None:
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000)
    found = read_part(store, "i", entry, LAYOUT)
    by_path = dict(zip(found.column("path").to_pylist(), found.column("partition_values").to_pylist(), strict=True))
    assert (by_path["c%20d"], by_path["e"]) == ([("p", None)], [])


def test_what_is_all_null_is_left_out(store: Store) -> None:
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000)
    stats = pq.read_schema(io.BytesIO(bytes(store.get(f"i/{entry.stats_name}"))))
    assert "quiet" not in [field.name for field in stats.field("min").type]
    assert "ts" not in [field.name for field in stats.field("min").type], "the time column's bounds are in the core"
    plain = write_part(store, "i", "plain", rows().slice(3, 1), LAYOUT, 10_000)
    core = pq.read_schema(io.BytesIO(bytes(store.get(f"i/{plain.core_name}")))).names
    assert {"path", "size", "modification_time", "partition_values", "partition"} <= set(core)
    assert not {"dv", "tags", "base_row_id", "clustering_provider"} & set(core)


def test_the_greatest_come_first_and_unknown_keys_last(store: Store) -> None:
    assert rows().column("path").to_pylist() == ["b", "a", "e", "c%20d"]
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000)
    assert (entry.key, entry.key_unknown) == (("x", "x"), 2)
    assert (entry.path, entry.vectors, entry.bytes, entry.records) == (None, 1, 46, None)
    assert entry.time_unknown == 2
    assert entry.time == (1_770_760_800_123_000, 1_770_760_800_123_000)


def test_keys_of_a_part(store: Store) -> None:
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000)
    keys = read_file_keys(store, "i", entry)
    assert keys.column("path").to_pylist() == ["b", "a", "e", "c%20d"]
    assert [v and v["offset"] for v in keys.column("deletion_vector").to_pylist()] == [None, 4, None, None]


@pytest.mark.parametrize(
    ("sort_column", "key"),
    [
        ("d", ("12345e-3", "12345e-3")),
        ("f", (0.10000000149011612, 0.10000000149011612)),
        ("day", (-1, -1)),
        ("n", (-62_135_596_800_000_000, -62_135_596_800_000_000)),
        ("a.b", (-3, -3)),
        ("min", (1.5, 1.5)),
        ("modification_time", (1, 4)),
    ],
)
def test_keys_as_the_manifest_writes_them(store: Store, sort_column: str, key: tuple[Any, Any]) -> None:
    layout = layout_for(TYPES, ["p"], sort_column=sort_column)
    table = sorted_rows(index_rows(add_rows(adds(), SOURCE_COLUMNS.names), layout), layout)
    assert write_part(store, "i", "part", table, layout, 10_000).key == key


def test_a_single_file_describes_itself(store: Store) -> None:
    entry = write_part(store, "i", "one", rows(), LAYOUT, 10_000, single=True, metadata={MANIFEST_KEY: b"{}"})
    assert entry.names == ("one.parquet",)
    assert pq.read_metadata(io.BytesIO(bytes(store.get("i/one.parquet")))).metadata[MANIFEST_KEY] == b"{}"


def test_the_footer_is_where_the_entry_says(store: Store) -> None:
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000)
    for name, file in zip(entry.names, (entry.core, entry.stats), strict=True):
        assert file is not None
        data = bytes(store.get(f"i/{name}"))
        tail = data[file.size - 8 - file.footer :]
        assert (len(data), zlib.crc32(data), zlib.crc32(tail)) == (file.size, file.crc32, file.footer_crc32)
        assert pq.read_metadata(io.BytesIO(b"PAR1" + tail)).num_rows == 4


@pytest.mark.parametrize("which", [0, 1])
def test_damage_is_noticed(store: Store, tmp_path: Path, which: int) -> None:
    entry = write_part(store, "i", "part", rows(), LAYOUT, 10_000)
    path = tmp_path / "i" / entry.names[which]
    whole = path.read_bytes()
    for place in [*range(0, len(whole), 97), len(whole) - 1]:
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(CorruptIndexError, match="checksum"):
            read_part(store, "i", entry, LAYOUT)
    for length in (0, 4, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptIndexError, match="bytes"):
            read_part(store, "i", entry, LAYOUT)
    path.unlink()
    with pytest.raises(CorruptIndexError, match="missing"):
        read_part(store, "i", entry, LAYOUT)


def test_nested_structs() -> None:
    array = nested({("a", "b"): pa.array([1]), ("a", "c", "d"): pa.array(["x"]), ("a.b",): pa.array([2])})
    assert array.to_pylist() == [{"a": {"b": 1, "c": {"d": "x"}}, "a.b": 2}]


def test_a_thousand_columns_cost_only_those_with_stats(store: Store) -> None:
    wide = layout_for({f"c{n}": "long" for n in range(1000)}, [])
    bounds = {f"c{n}": n for n in range(32)}
    stats = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": bounds})
    table = index_rows(add_rows([Add(f"f{n}", 1, 1, {}, stats) for n in range(50)], SOURCE_COLUMNS.names), wide)
    entry = write_part(store, "i", "wide", table, wide, 10_000)
    assert entry.stats is not None
    assert pq.read_metadata(io.BytesIO(bytes(store.get(f"i/{entry.stats_name}")))).num_columns == 96
    found = read_part(store, "i", entry, wide)
    assert found.column(column("max", ("c31",))).to_pylist() == [31] * 50


def test_an_entry_is_small() -> None:
    """A manifest lists parts, so that a billion files have a manifest of megabytes."""
    file = FileEntry(2**31, 2**20, 2**32 - 1, 2**32 - 1)
    entry = PartEntry(f"v1-{'a' * 32}-1", 80_000, 10**12, file, file, key=("2026021022", "2026021022"))
    assert len(msgspec.json.encode(entry)) < 250
