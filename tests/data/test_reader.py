"""One file after the other: partition values, deletion vectors, predicates, row groups, paths, broken files."""

from __future__ import annotations

import struct as binary
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64

from delta_sidecar.data.deletion_vectors import PORTABLE_MAGIC
from delta_sidecar.errors import CorruptDataError, UnknownColumnError, UnsupportedFeatureError
from tests.data.listing import Listing, listing_of, sorted_rows
from tests.data.made import column, file_row, made_table, struct
from tests.data.test_deletion_vectors import NAME, framed, portable

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
SCHEMA = struct(column("k", "long"), column("s", "string"))


def z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    words = binary.unpack(f">{len(data) // 4}I", data)
    return "".join(Z85[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0))


def inline_vector(*positions: int) -> dict[str, Any]:
    data = binary.pack("<i", PORTABLE_MAGIC) + BitMap64(positions).serialize()
    size, count = len(data), len(positions)
    return {"storageType": "i", "pathOrInlineDv": z85(data), "offset": None, "sizeInBytes": size, "cardinality": count}


def counted(count: int, start: int = 0) -> pa.Table:
    keys = range(start, start + count)
    return pa.table({"k": pa.array(keys, pa.int64()), "s": [f"s{i}" for i in keys]})


def one_file(root: Path, count: int, *deleted: int, **writing: Any) -> Listing:
    listing = made_table(root, SCHEMA, [counted(count)], **writing)
    listing.rows[0]["deletion_vector"] = inline_vector(*deleted) if deleted else None
    return listing


def keys(table: pa.Table) -> list[int]:
    return table.column("k").to_pylist()


def test_a_table_of_deltalake(tmp_path: Path) -> None:
    for i in range(3):
        rows = counted(100, i * 100).append_column("p", pa.array([f"a b/{i}:ü%"] * 50 + [None] * 50))
        write_deltalake(tmp_path, rows, mode="append", partition_by=["p"])
    DeltaTable(tmp_path).delete("k % 7 = 0")
    listing = listing_of(tmp_path)
    expected = DeltaTable(tmp_path).to_pyarrow_table()
    assert sorted_rows(listing.table()) == sorted_rows(expected.select(listing.schema.names))
    found = listing.table("p = 'a b/1:ü%' AND k > 120")
    assert sorted(keys(found)) == [k for k in range(121, 150) if k % 7]


def test_partition_values_come_from_the_log(tmp_path: Path) -> None:
    schema = struct(column("p", "date", "phys"), column("k", "long"), column("q", "integer"))
    listing = made_table(
        tmp_path,
        schema,
        [pa.table({"k": [1, 2], "q": [99, 99]}), pa.table({"k": [3], "q": [99]})],
        mode="name",
        partition_columns=["p", "q"],
        partition_values=[{"phys": "2024-01-02", "q": "5"}, {"phys": None, "q": ""}],
    )
    rows = listing.table()
    assert rows.schema == schema.to_arrow()
    assert rows.column("q").to_pylist() == [5, 5, None]
    assert [str(d) for d in rows.column("p").to_pylist()] == ["2024-01-02", "2024-01-02", "None"]
    assert keys(listing.table("q = 5 AND k > 1")) == [2]
    assert keys(listing.table("q IS NULL OR k = 1")) == [1, 3]


def test_a_predicate_on_partitions_alone_opens_no_other_file(tmp_path: Path) -> None:
    schema = struct(column("p", "integer"), column("k", "long"))
    tables = [pa.table({"k": [i]}) for i in range(4)]
    values = [{"p": str(i)} for i in range(4)]
    listing = made_table(tmp_path, schema, tables, partition_columns=["p"], partition_values=values)
    with listing.read("p = 2") as stream:
        assert [b.to_pylist() for b in stream] == [[{"p": 2, "k": 2}]]
        assert (stream.metrics.files_read, stream.metrics.files_skipped) == (1, 3)


def test_a_partition_value_that_cannot_be_read(tmp_path: Path) -> None:
    schema = struct(column("p", "integer"), column("k", "long"))
    listing = made_table(
        tmp_path, schema, [pa.table({"k": [1]})], partition_columns=["p"], partition_values=[{"p": "x"}]
    )
    assert keys(listing.table(columns=["k"])) == [1]
    with pytest.raises(CorruptDataError, match=r"part-00000.*'p'"):
        listing.table()


@pytest.mark.parametrize("batch_size", [7, 1000])
@pytest.mark.parametrize("group_size", [10, 1000])
@pytest.mark.parametrize("where", [None, "k >= 20", "s = 's33'", "k < 5 OR k > 90"])
def test_deleted_rows_go_by_position_before_the_predicate(
    tmp_path: Path, batch_size: int, group_size: int, where: str | None
) -> None:
    listing = one_file(tmp_path, 100, 0, 9, 10, 33, 99, row_group_size=group_size)
    live = set(range(100)) - {0, 9, 10, 33, 99}
    wanted = {None: live, "k >= 20": {k for k in live if k >= 20}, "s = 's33'": set()}
    expected = wanted.get(where, {k for k in live if k < 5 or k > 90})
    assert keys(listing.table(where, batch_size=batch_size)) == sorted(expected)


def test_a_vector_beyond_the_file_deletes_nothing_else(tmp_path: Path) -> None:
    assert keys(one_file(tmp_path, 3, 1, 5_000_000_000).table()) == [0, 2]


def test_a_vector_by_absolute_path_and_one_below_a_prefix(tmp_path: Path) -> None:
    table, other = tmp_path / "table", tmp_path / "other place"
    (table / "ab").mkdir(parents=True)
    other.mkdir()
    data = portable([1, 3])
    content = b"\1" + framed(data)
    (other / "v.bin").write_bytes(content)
    (table / "ab" / NAME).write_bytes(content)
    listing = made_table(table, SCHEMA, [counted(5)])
    absolute = f"file://{other}/v.bin".replace(" ", "%20")
    for kind, path in (("p", absolute), ("u", "ab^-aqEH.-t@S}K{vb[*k^")):
        sizes = {"offset": 1, "sizeInBytes": len(data), "cardinality": 2}
        listing.rows[0]["deletion_vector"] = {"storageType": kind, "pathOrInlineDv": path, **sizes}
        assert keys(listing.table()) == [0, 2, 4]
    listing.rows[0]["deletion_vector"] |= {"storageType": "r"}
    with pytest.raises(UnsupportedFeatureError, match="'r'"):
        listing.table()


def test_row_groups_are_pruned_by_their_statistics(tmp_path: Path) -> None:
    listing = one_file(tmp_path, 1000, row_group_size=100)
    with listing.read("k BETWEEN 350 AND 360") as stream:
        assert [k for batch in stream for k in keys(batch)] == list(range(350, 361))
        assert (stream.metrics.row_groups_read, stream.metrics.row_groups_pruned) == (1, 9)


@pytest.mark.parametrize(("rows", "read"), [(1000, 1), (20_000, 0)])
def test_a_lone_row_group_is_asked_for_statistics_only_if_its_column_is_long(
    tmp_path: Path, rows: int, read: int
) -> None:
    with one_file(tmp_path, rows).read("k < 0") as stream:
        assert list(stream) == []
        assert (stream.metrics.row_groups_read, stream.metrics.row_groups_pruned) == (read, 1 - read)


@pytest.mark.parametrize("where", [None, "k % 3 = 0", "s LIKE '%7'", "k = 77777"])
def test_large_row_groups_come_in_batches(tmp_path: Path, where: str | None) -> None:
    """Row groups over a megabyte, because the budget is small: the same rows, no batch above its size."""
    table = counted(120_000).append_column("x", pa.array([f"{i * 7919 % 99991:040}" for i in range(120_000)]))
    schema = struct(*SCHEMA.fields, column("x", "string"))
    listing = made_table(tmp_path, schema, [table], use_dictionary=False, compression="none")
    listing.rows[0]["deletion_vector"] = inline_vector(3, 7, 70_000)
    if where == "k % 3 = 0":
        where = "k IN (0, 3, 6, 7, 50000, 70000)"
    with listing.read(where, memory_budget=1 << 20, batch_size=10_000, columns=["x", "k"]) as stream:
        batches = list(stream)
    assert max(b.num_rows for b in batches) <= 10_000
    live = [k for k in range(120_000) if k not in (3, 7, 70_000)]
    expected = {
        None: live,
        "s LIKE '%7'": [k for k in live if k % 10 == 7],
        "k = 77777": [77777],
    }.get(where, [0, 6, 50000])
    assert [k for b in batches for k in keys(b)] == expected
    assert all(b.schema.names == ["x", "k"] for b in batches)


def test_columns_for_the_predicate_alone_are_dropped(tmp_path: Path) -> None:
    listing = one_file(tmp_path, 10)
    assert listing.table("k = 4", columns=["s"]).to_pydict() == {"s": ["s4"]}
    assert listing.table("s = 's4'", columns=["s", "k"]).to_pydict() == {"s": ["s4"], "k": [4]}
    with pytest.raises(UnknownColumnError, match="nothere"):
        listing.table(columns=["nothere"])


def test_a_predicate_inside_a_struct(tmp_path: Path) -> None:
    schema = struct(column("a", struct(column("b", "long"), column("c", "string"))))
    rows = pa.table({"a": [{"b": 1, "c": "x"}, None, {"b": None, "c": "z"}, {"b": 2, "c": "y"}]})
    listing = made_table(tmp_path, schema, [rows], row_group_size=2)
    assert listing.table("a.b >= 2").to_pylist() == [{"a": {"b": 2, "c": "y"}}]
    assert listing.table("a.b IS NULL").to_pylist() == [{"a": None}, {"a": {"b": None, "c": "z"}}]


def test_no_columns_at_all_still_count_rows(tmp_path: Path) -> None:
    listing = one_file(tmp_path, 100, 1, 2, 3)
    assert listing.table(columns=[]).num_rows == 97
    assert listing.table("k < 10", columns=[]).num_rows == 7
    assert listing.table(columns=[], limit=5).num_rows == 5
    listing.rows[0]["num_records"] = None
    assert listing.table(columns=[]).num_rows == 97


def test_a_count_opens_no_file_whose_log_entry_tells(tmp_path: Path) -> None:
    listing = one_file(tmp_path, 100, 1, 2, 3)
    (tmp_path / "part-00000.parquet").unlink()
    assert listing.table(columns=[], batch_size=40).num_rows == 97


@pytest.mark.parametrize("limit", [0, 1, 9, 10, 25, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_a_limit_is_exact(tmp_path: Path, limit: int, known: bool) -> None:
    listing = made_table(tmp_path, SCHEMA, [counted(10, i * 10) for i in range(5)], row_group_size=4)
    for row in listing.rows:
        row["num_records"] = row["num_records"] if known else None
    assert keys(listing.table(limit=limit)) == list(range(min(limit, 50)))
    assert keys(listing.table("k >= 15", limit=limit)) == list(range(15, 50))[:limit]


def test_no_files_no_rows(tmp_path: Path) -> None:
    table = Listing(str(tmp_path), [], SCHEMA, [], "none").table()
    assert table.num_rows == 0
    assert table.schema == SCHEMA.to_arrow()


def test_an_empty_file(tmp_path: Path) -> None:
    listing = made_table(tmp_path, SCHEMA, [counted(0), counted(2)])
    assert keys(listing.table()) == [0, 1]
    assert keys(listing.table("k > 0")) == [1]


@pytest.mark.parametrize("name", ["a b.parquet", "x=%3A/ü#?.parquet", "p=100%25/f+g.parquet"])
def test_paths_of_the_log_are_decoded(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    pq.write_table(counted(2), tmp_path / name)
    listing = Listing(str(tmp_path), [file_row(quote(name), 1000, 2)], SCHEMA, [], "none")
    assert keys(listing.table()) == [0, 1]


def test_absolute_paths_lead_out_of_the_table(tmp_path: Path) -> None:
    other = tmp_path / "other place"
    other.mkdir()
    (tmp_path / "table").mkdir()
    pq.write_table(counted(2), other / "f.parquet")
    encoded = str(other / "f.parquet").replace(" ", "%20")
    rows = [file_row(f"file:{encoded}", 1000, 2), file_row(f"file://{encoded}", 1000, 2), file_row(encoded, 1000, 2)]
    listing = Listing(str(tmp_path / "table"), rows, SCHEMA, [], "none")
    assert keys(listing.table()) == [0, 1] * 3


def test_broken_files_are_named(tmp_path: Path) -> None:
    listing = made_table(tmp_path, SCHEMA, [counted(1000)])
    path = tmp_path / "part-00000.parquet"
    content = path.read_bytes()
    for broken in (
        content[:-20],
        content[:100],
        b"",
        b"PAR1",
        b"x" * 5000,
        content[:4] + b"\xff" * 600 + content[604:],
    ):
        path.write_bytes(broken)
        with pytest.raises(CorruptDataError, match=r"data file 'part-00000\.parquet'") as caught:
            listing.table()
        assert "\n" not in str(caught.value)
    path.unlink()
    with pytest.raises(CorruptDataError, match=r"'part-00000\.parquet' is missing"):
        listing.table()
    path.mkdir()
    with pytest.raises(CorruptDataError, match=r"part-00000\.parquet"):
        listing.table()
