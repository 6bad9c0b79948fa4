"""Rows and ranges out of splits that IndexTables wrote; text search in them is refused by name."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest

tantivy = pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import (  # noqa: E402
    CorruptDataError,
    MissingDataError,
    UnknownColumnError,
    UnsupportedFeatureError,
    UnsupportedTypeError,
)
from delta_sidecar.predicates.binding import bind_predicate  # noqa: E402
from delta_sidecar.search import SearchTable, Split, append, create_table, their_rows  # noqa: E402
from delta_sidecar.search.splits.file import read_split_list  # noqa: E402
from delta_sidecar.search.splits.their_splits import open_split  # noqa: E402
from delta_sidecar.storage import open_store  # noqa: E402
from tests.golden import WHY_NO_SEARCH, golden_search_names, golden_search_root  # noqa: E402
from tests.search.made import schema  # noqa: E402

COLUMNS = schema(id="long", text="string", score="double", region="string")


def bundle(folder: Path, hotcache: bytes = b"cache") -> bytes:
    """The files of an index as a split has them."""
    sink, places = io.BytesIO(), {}
    for path in sorted(folder.iterdir()):
        start = sink.tell()
        sink.write(path.read_bytes())
        places[path.name] = f'"{path.name}":{{"start":{start},"end":{sink.tell()}}}'
    listed = bytes.fromhex("aebe1218") + struct.pack("<I", 1) + f'{{"files":{{{",".join(places.values())}}}}}'.encode()
    sink.write(listed + struct.pack("<I", len(listed)) + hotcache + struct.pack("<I", len(hotcache)))
    return sink.getvalue()


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A table with a split of ten documents, one of which has no score."""
    folder = tmp_path / "index"
    folder.mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", stored=True, fast=True, indexed=True)
    builder.add_text_field("text", stored=True)
    builder.add_float_field("score", stored=True)
    index = tantivy.Index(builder.build(), str(folder))
    writer = index.writer(15_000_000, 1)
    for number in range(10):
        fields = {"id": number, "text": f"line {number}"} | ({"score": number / 2} if number else {})
        writer.add_document(tantivy.Document(**fields))
    writer.commit()
    writer.wait_merging_threads()
    for lock in folder.glob(".tantivy-*.lock"):
        lock.unlink()
    root = tmp_path / "table"
    create_table(root, COLUMNS, ["region"])
    data = bundle(folder)
    (root / "a.split").write_bytes(data)
    append(root, [Split(path="a.split", size=len(data), partitionValues={"region": "eu"}, minValues={"id": "0"})])
    return root


def rows(table: Path, where: str | None = None, columns: list[str] | None = None) -> list[dict[str, object]]:
    return [row for batch in their_rows(SearchTable(table), where, columns) for row in batch.to_pylist()]


def test_documents_are_rows_with_their_partition_values(made: Path) -> None:
    found = rows(made)
    assert found[0] == {"id": 0, "text": "line 0", "score": None, "region": "eu"}
    assert [row["id"] for row in found] == list(range(10))


def test_documents_are_read_some_at_a_time(made: Path) -> None:
    table = SearchTable(made)
    columns = table.schema().resolve(["id"])
    predicate = bind_predicate("id > 3", table.schema(), ["region"])
    (split,) = table.splits()
    with open_split(table.store, split.path, split) as opened:
        batches = list(opened.rows(columns, ["region"], split, predicate, batch_rows=4))
    assert [batch["id"].to_pylist() for batch in batches] == [[4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id >= 7", [7, 8, 9]),
        ("id > 7 AND id != 9", [8]),
        ("id < 2", [0, 1]),
        ("id <= 1 AND score IS NULL", [0]),
        ("id = 4", [4]),
        ("id != 4 AND id < 6", [0, 1, 2, 3, 5]),
        ("score > 3.5 AND region = 'eu'", [8, 9]),
        ("text = 'line 3' OR id IN (1)", [1, 3]),
        ("region = 'us'", []),
        ("id > 100", []),
    ],
)
def test_only_rows_that_match(made: Path, where: str, ids: list[int]) -> None:
    assert [row["id"] for row in rows(made, where)] == ids


def test_columns_in_the_order_asked_for(made: Path) -> None:
    assert rows(made, "id = 3", ["text", "id"]) == [{"text": "line 3", "id": 3}]
    assert rows(made, "id = 3", ["region"]) == [{"region": "eu"}]
    with pytest.raises(UnknownColumnError):
        rows(made, None, ["nope"])


def test_a_long_footer_is_read_in_two_steps(made: Path, tmp_path: Path) -> None:
    data = bundle(tmp_path / "index", hotcache=b"c" * 200_000)
    (made / "b.split").write_bytes(data)
    store = open_store(made)
    assert read_split_list(store, "b.split").files.keys() == read_split_list(store, "a.split").files.keys()
    with open_split(store, "b.split") as opened:
        assert opened.searcher.num_docs == 10


@pytest.mark.parametrize("damage", ["cut", "empty", "magic", "version", "escape"])
def test_damage(made: Path, damage: str) -> None:
    path = made / "a.split"
    data = path.read_bytes()
    changed = {
        "cut": data[:-100],
        "empty": b"",
        "magic": data.replace(bytes.fromhex("aebe1218"), b"nope"),
        "version": data.replace(bytes.fromhex("aebe121801"), bytes.fromhex("aebe121807")),
        "escape": data.replace(b'"meta.json":', b'"..//a.bin":'),
    }[damage]
    path.write_bytes(changed)
    with pytest.raises((CorruptDataError, UnsupportedFeatureError)), open_split(open_store(made), "a.split"):
        pass


def test_a_split_that_is_gone(made: Path) -> None:
    (made / "a.split").unlink()
    with pytest.raises(MissingDataError, match=r"the split a.split is missing"):
        rows(made)


def test_types_that_are_not_read_are_named(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    create_table(other, schema(id="binary"))
    (other / "a.split").write_bytes((made / "a.split").read_bytes())
    append(other, [Split(path="a.split")])
    with pytest.raises(UnsupportedTypeError, match="the column id is binary, which splits do not give"):
        rows(other)


@pytest.mark.slow
@pytest.mark.parametrize("name", golden_search_names() or ["none"])
def test_golden_splits(name: str) -> None:
    root = golden_search_root()
    if root is None:
        pytest.skip(WHY_NO_SEARCH)
    table = SearchTable(root / name)
    if not table.splits() or any(split.companionSourceFiles for split in table.splits()):
        pytest.skip("its splits store no rows")
    found = rows(root / name)
    assert len(found) == sum(split.numRecords or 0 for split in table.splits())
    ids = sorted(row["id"] for row in found)  # type: ignore[type-var]
    for limit in (2, 100, 251):
        expected = [number for number in ids if number >= limit]  # type: ignore[operator]
        assert sorted(row["id"] for row in rows(root / name, f"id >= {limit}")) == expected  # type: ignore[type-var]
    for column in table.partition_columns:
        assert {row[column] for row in found} == {split.partitionValues.get(column) for split in table.splits()}
    split = table.splits()[0]
    with open_split(table.store, table.split_path(split), split) as opened:
        query = tantivy.Query.term_query(opened.index.schema, "text", "doc")
        with pytest.raises(UnsupportedFeatureError, match="its dictionary format is SSTable"):
            opened.search(query, 1)
