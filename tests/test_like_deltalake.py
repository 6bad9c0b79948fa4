"""Our table answers as `deltalake` does; what only `deltalake` does is refused by name."""

from __future__ import annotations

import copy
import datetime as dt
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError, DeltaProtocolError

from delta_sidecar import DeltaTable
from delta_sidecar.errors import (
    CorruptDataError,
    DeltaSidecarError,
    InputError,
    NotOfferedError,
    UnknownColumnError,
    VersionNotFoundError,
)
from delta_sidecar.index.build.build import build_index
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import DeletionVector, RemoveFile, add, column
from delta_sidecar.testing.data_files import write_data_file
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.test_reader import inline_vector
from tests.golden import golden_names

DAY = dt.date(2026, 2, 10)
MOMENT = dt.datetime(2026, 2, 10, 22, 1, 2, 345678)
NESTED = pa.table(
    {
        "text": ["a", None],
        "flag": [True, False],
        "amount": [Decimal("1.50"), Decimal("-2.25")],
        "day": [DAY, None],
        "at": pa.array([MOMENT, MOMENT], pa.timestamp("us", "UTC")),
        "wall": pa.array([MOMENT, None], pa.timestamp("us")),
        "ratio": pa.array([0.5, -1.5], pa.float32()),
        "raw": [b"x", b"y"],
        "list": [["a"], []],
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "place": [{"x": 1, "deeper": {"y": "b"}}, {"x": 2, "deeper": None}],
        "only_raw": [{"raw": b"x"}, None],
    }
)
PARTITIONED = pa.table(
    {
        "p_long": pa.array([None, 7], pa.int64()),
        "p_day": [DAY, None],
        "p_at": pa.array([MOMENT, None], pa.timestamp("us", "UTC")),
        "p_wall": pa.array([MOMENT, None], pa.timestamp("us")),
        "p_amount": [Decimal("1.50"), None],
        "p_flag": [True, None],
        "p_text": ["a b/c%", ""],
        "p_ratio": [1.5, None],
        "id": [1, 2],
    }
)
WIDE = pa.table({"list": [[1]], "place": [{"a": 1, "b": 2}], **{f"c{i}": [i] for i in range(40)}})


def listed(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(table).to_pylist()
    return sorted(rows, key=lambda row: row["path"])


def assert_same_actions(root: Path, *forms: bool) -> None:
    """In the forms given, flat or not; in both without."""
    ours, theirs = DeltaTable(root), deltalake.DeltaTable(root)
    for flatten in forms or (False, True):
        expected = pa.table(theirs.get_add_actions(flatten=flatten))
        found = ours.get_add_actions(flatten=flatten)
        assert found.schema == expected.schema
        assert listed(found) == listed(expected)


def by_checkpoint(root: Path) -> None:
    deltalake.DeltaTable(root).create_checkpoint()


def by_index(root: Path) -> None:
    build_index(open_store(root))


def by_commits(root: Path) -> None:
    pass


@pytest.mark.parametrize("kept", [by_commits, by_checkpoint, by_index])
@pytest.mark.parametrize(
    ("rows", "writing"),
    [
        (NESTED, {}),
        (PARTITIONED, {"partition_by": [name for name in PARTITIONED.column_names if name != "id"]}),
        (WIDE, {}),
        (WIDE, {"partition_by": ["c0"]}),
        (WIDE, {"configuration": {"delta.dataSkippingNumIndexedCols": "-1"}}),
        (WIDE, {"configuration": {"delta.dataSkippingNumIndexedCols": "0"}}),
        (WIDE, {"configuration": {"delta.dataSkippingNumIndexedCols": "2"}}),
        (WIDE, {"configuration": {"delta.dataSkippingStatsColumns": "c39, place.b,`c1`, nothing"}}),
        (WIDE, {"configuration": {"delta.dataSkippingStatsColumns": "place", "delta.dataSkippingNumIndexedCols": "1"}}),
        (NESTED.select(["raw"]), {}),
        (NESTED.slice(0, 0), {}),
    ],
    ids=[
        "nested",
        "partitioned",
        "wide",
        "wide-in-partitions",
        "all",
        "none",
        "two",
        "named",
        "struct",
        "raw",
        "empty",
    ],
)
def test_add_actions(tmp_path: Path, rows: pa.Table, writing: dict[str, Any], kept: Callable[[Path], None]) -> None:
    write_deltalake(tmp_path, rows, **writing)
    write_deltalake(tmp_path, rows, mode="append")
    kept(tmp_path)
    assert_same_actions(tmp_path)


def test_add_actions_of_files_with_some_statistics(tmp_path: Path) -> None:
    texts = [
        None,
        '{"numRecords":1}',
        '{"numRecords":2,"minValues":{},"maxValues":{},"nullCount":{}}',
        '{"numRecords":2,"minValues":{"x":null},"maxValues":{"x":1}}',
        '{"minValues":{"b":true,"x":3},"nullCount":{"x":1,"b":0}}',
        '{"numRecords":3,"minValues":{"b":false,"x":-3},"maxValues":{"b":true,"x":9},"nullCount":{"x":1}}',
    ]
    log = LogBuilder(tmp_path).metadata({"x": "long", "b": "boolean"})
    log.commit(*(add(f"{n}.parquet", stats=text) for n, text in enumerate(texts)))
    assert_same_actions(tmp_path, True)
    found = listed(DeltaTable(tmp_path).get_add_actions())
    assert found[0] == {
        "path": "0.parquet", "size_bytes": 100, "modification_time": 1_700_000_000_000,
        "num_records": None, "null_count": None, "min": None, "max": None,
    }  # fmt: skip
    assert [row["max"] for row in found[1:4]] == [{"x": None, "b": None}, {"x": None, "b": None}, {"x": 1, "b": None}]
    build_index(open_store(tmp_path))
    assert listed(DeltaTable(tmp_path).get_add_actions()) == found, "whatever the listing is read from"


@pytest.mark.parametrize("kept", [by_commits, by_checkpoint, by_index])
def test_add_actions_of_structs_without_bounds(tmp_path: Path, kept: Callable[[Path], None]) -> None:
    """A struct of nulls where its values are all null, null where the file is older than the column."""
    kind = pa.struct([("a", pa.int64()), ("deeper", pa.struct([("b", pa.int64())]))])
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    for value in (None, {"a": None}, {"a": 1, "deeper": {"b": None}}, {"a": 1, "deeper": {"b": 2}}):
        rows = pa.table({"x": [1], "s": pa.array([value], kind)})
        write_deltalake(tmp_path, rows, mode="append", schema_mode="merge")
    kept(tmp_path)
    assert_same_actions(tmp_path)


def mapped_column(name: str, number: int) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"col-{number}"}
    return column(name, "long", metadata=mapping)


def test_add_actions_have_logical_names(tmp_path: Path) -> None:
    """`deltalake` shows physical names in statistics, logical ones in partition values."""
    log = LogBuilder(tmp_path).protocol(2, 5)
    log.metadata(
        [mapped_column("x", 0), mapped_column("p", 1)],
        partition_by=["p"],
        configuration={"delta.columnMapping.mode": "name"},
    )
    stats = {"numRecords": 5, "minValues": {"col-0": 1}, "maxValues": {"col-0": 2}, "nullCount": {"col-0": 0}}
    log.commit(add("a.parquet", stats=stats, partition={"col-1": "7"}))
    (found,) = DeltaTable(tmp_path).get_add_actions(flatten=True).to_pylist()
    assert (found["min.x"], found["max.x"], found["null_count.x"], found["partition.p"]) == (1, 2, 0, 7)
    (theirs,) = pa.table(deltalake.DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()
    assert (theirs["min.col-0"], theirs["partition.p"]) == (1, 7)


def test_add_actions_refuse_a_partition_value_of_another_type(tmp_path: Path) -> None:
    LogBuilder(tmp_path).metadata({"x": "long", "p": "long"}, partition_by=["p"]).commit(add("a", partition={"p": "?"}))
    with pytest.raises(CorruptDataError, match="'p' is not a long"):
        DeltaTable(tmp_path).get_add_actions()


KNOWN_DIFFERENCES = {
    "basic-decimal-table": "deltalake does not read 0E-10",
    "basic-decimal-table-legacy": "deltalake does not read 0E-10",
    "decimal-various-scale-precision": "deltalake does not read numbers with an exponent as decimals",
    "canonicalized-paths-normal-a": "deltalake does not see that two paths are one file",
    "canonicalized-paths-normal-b": "deltalake does not see that two paths are one file",
    "canonicalized-paths-special-a": "deltalake does not see that two paths are one file",
    "canonicalized-paths-special-b": "deltalake does not see that two paths are one file",
}


@pytest.mark.golden
@pytest.mark.parametrize("name", golden_names())
def test_golden_tables(golden: Path, name: str) -> None:
    root = golden / name / "delta"
    try:
        theirs = deltalake.DeltaTable(root)
        theirs.get_add_actions()
    except BaseException as error:
        pytest.skip(f"deltalake does not open it: {str(error)[:100]}")
    ours = DeltaTable(root)
    assert json.loads(ours.schema().to_json()) == json.loads(theirs.schema().to_json())
    for large in (False, True):
        assert ours.schema().to_arrow(as_large_types=large) == pa.schema(theirs.schema().to_arrow(as_large_types=large))
    assert sorted(map(sorted_items, ours.partitions())) == sorted(map(sorted_items, theirs.partitions()))
    mapped = ours.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    if not mapped and name not in KNOWN_DIFFERENCES:
        assert_same_actions(root)
    if "vacuumProtocolCheck" not in (ours.protocol().reader_features or []):
        assert_same_vectors(ours, theirs)


def sorted_items(values: dict[str, str | None]) -> list[tuple[str, str]]:
    return sorted((key, repr(value)) for key, value in values.items())


def assert_same_vectors(ours: DeltaTable, theirs: deltalake.DeltaTable) -> None:
    expected, found = pa.table(theirs.deletion_vectors().read_all()), ours.deletion_vectors().read_all()
    assert found.schema == expected.schema
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def vector(*positions: int) -> DeletionVector:
    row = inline_vector(*positions)
    return DeletionVector(row["pathOrInlineDv"], "i", None, row["sizeInBytes"], row["cardinality"])


def with_vectors(tmp_path: Path, b: dict[str, Any] | None) -> Path:
    """Three files of five rows; two of them have a deletion vector."""
    root = tmp_path / "my table"
    log = LogBuilder(root).protocol(3, 7, features=["deletionVectors"]).metadata({"x": "long"})
    adds = []
    for n, (name, deleted, stats) in enumerate(
        [("a b.parquet", vector(0, 4), {"numRecords": 5}), ("b.parquet", vector(2), b), ("c.parquet", None, None)]
    ):
        pq.write_table(pa.table({"x": range(5 * n, 5 * n + 5)}), root / name)
        size = (root / name).stat().st_size
        adds.append(add(name.replace(" ", "%20"), size=size, dv=deleted, stats=stats))
    log.commit(*adds)
    return root


def test_deletion_vectors(tmp_path: Path) -> None:
    root = with_vectors(tmp_path, {"numRecords": 5})
    assert_same_vectors(DeltaTable(root), deltalake.DeltaTable(root))
    found = DeltaTable(root).deletion_vectors().read_all().to_pylist()
    assert {row["filepath"]: row["selection_vector"] for row in found} == {
        (root / "a b.parquet").as_uri(): [False, True, True, True, False],
        (root / "b.parquet").as_uri(): [True, True, False, True, True],
    }


def test_deletion_vectors_of_files_without_statistics(tmp_path: Path) -> None:
    """`deltalake` refuses them; here the file itself says how many rows it has."""
    root = with_vectors(tmp_path, None)
    found = DeltaTable(root).deletion_vectors().read_all().to_pylist()
    assert sorted(len(row["selection_vector"]) for row in found) == [5, 5]


def test_deletion_vectors_in_a_store(tmp_path: Path) -> None:
    store = open_store("memory://vectors/a table")
    root = with_vectors(tmp_path, None)
    for file in (path for path in root.rglob("*") if path.is_file()):
        store.put_if_absent(str(file.relative_to(root)), file.read_bytes())
    table = DeltaTable("memory://vectors/a table", store=store)
    found = [row["filepath"] for row in table.deletion_vectors().read_all().to_pylist()]
    assert sorted(found) == ["memory://vectors/a%20table/a%20b.parquet", "memory://vectors/a%20table/b.parquet"]


def test_no_deletion_vectors(tmp_path: Path) -> None:
    write_deltalake(tmp_path, NESTED)
    masks = DeltaTable(tmp_path).deletion_vectors()
    assert masks.schema.names == ["filepath", "selection_vector"]
    assert masks.read_all().num_rows == 0


def test_a_reader_of_deletion_vectors_may_be_left(tmp_path: Path) -> None:
    masks = DeltaTable(with_vectors(tmp_path, None)).deletion_vectors()
    assert masks.read_next_batch().num_rows == 1
    masks.close()


def test_partitions(tmp_path: Path) -> None:
    """Values are texts of the log, null is None; a table without partition columns has no partitions."""
    whole, split = tmp_path / "whole", tmp_path / "split"
    write_deltalake(whole, PARTITIONED)
    assert DeltaTable(whole).partitions() == deltalake.DeltaTable(whole).partitions() == []
    write_deltalake(split, PARTITIONED, partition_by=["p_long", "p_day", "p_text"])
    ours, theirs = DeltaTable(split), deltalake.DeltaTable(split)
    assert sorted(map(sorted_items, ours.partitions())) == sorted(map(sorted_items, theirs.partitions()))
    for predicate in ("p_long = 7", [("p_long", "=", 7)]):
        assert ours.partitions(file_pruning_predicate=predicate) == theirs.partitions(file_pruning_predicate=predicate)
    assert ours.partitions([("p_long", "=", 7)], file_pruning_predicate="p_day is not null") == []


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("indexed", [False, True])
def test_partitions_that_are_not_finite(tmp_path: Path, kind: pa.DataType, indexed: bool) -> None:
    """Spark writes them as `Infinity`, `deltalake` as `inf`, and as `nan` in older versions."""
    numbers = [0.5, float("inf"), float("-inf"), float("nan"), None]
    write_deltalake(tmp_path, pa.table({"p": pa.array(numbers, kind), "x": [*range(5)]}), partition_by=["p"])
    commit = tmp_path / "_delta_log" / "00000000000000000000.json"
    assert '"p":"inf"' in commit.read_text()
    older = add("nan", partition={"p": "nan"}), add("spark", partition={"p": "-Infinity"})
    lines = "".join(json.dumps(made.wire()) + "\n" for made in older)
    (commit.parent / "00000000000000000001.json").write_text(lines)
    if indexed:
        build_index(open_store(str(tmp_path)))
    rows = DeltaTable(tmp_path, version=0).to_pyarrow_table().sort_by("x")
    assert str(rows["p"].to_pylist()) == str(numbers)
    table = DeltaTable(tmp_path)
    for condition, count in (("p > 1e30", 1), ("p < -1e30", 2), ("p = 0.5", 1), ("p IS NULL", 1)):
        known = [f for f in table.file_infos(condition) if f.partition_values["p"] not in ("NaN", "nan")]
        assert len(known) == count, condition


def test_equality(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_deltalake(tmp_path / name, WIDE)
        write_deltalake(tmp_path / name, WIDE, mode="append")
    table = DeltaTable(tmp_path / "a")
    assert table == DeltaTable((tmp_path / "a").as_uri())
    assert table != DeltaTable(tmp_path / "a", version=0)
    assert table != DeltaTable(tmp_path / "b")
    assert table != "a"
    shutil.rmtree(tmp_path / "a")
    write_deltalake(tmp_path / "a", WIDE)
    write_deltalake(tmp_path / "a", WIDE, mode="append")
    assert table != DeltaTable(tmp_path / "a"), "made again at the same place"
    for kind in (table, deltalake.DeltaTable(tmp_path / "a")):
        with pytest.raises(TypeError, match="unhashable"):
            hash(kind)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_table_config(tmp_path: Path) -> None:
    write_deltalake(tmp_path, WIDE)
    config, theirs = DeltaTable(tmp_path).table_config, deltalake.DeltaTable(tmp_path).table_config
    assert config._fields == theirs._fields
    assert (config.without_files, config.skip_stats) == (theirs.without_files, theirs.skip_stats)
    assert DeltaTable(tmp_path, log_buffer_size=3).table_config.log_buffer_size == 3


def test_schema(tmp_path: Path) -> None:
    write_deltalake(tmp_path, NESTED)
    ours, theirs = DeltaTable(tmp_path).schema(), deltalake.DeltaTable(tmp_path).schema()
    assert (ours.type, json.loads(ours.to_json())) == (theirs.type, json.loads(theirs.to_json()))
    assert ours == DeltaTable(tmp_path, version=0).schema()
    assert ours != ours.select(["text"])
    for mine, other in zip(ours.fields, theirs.fields, strict=True):
        assert (mine.name, mine.nullable, mine.metadata) == (other.name, other.nullable, other.metadata)
        assert json.loads(mine.to_json()) == json.loads(other.to_json())
        assert mine.type.type == other.type.type
        assert json.loads(mine.type.to_json()) == json.loads(other.type.to_json())
        assert mine.to_arrow() == pa.field(other.to_arrow())
        assert mine.to_arrow(as_large_types=True).type == ours.to_arrow(as_large_types=True).field(mine.name).type
    (lists,), (maps,) = ours.resolve(["list"]), ours.resolve(["map"])
    assert str(lists.type.element_type) == "string"
    assert (str(maps.type.key_type), str(maps.type.value_type)) == ("string", "long")


def test_a_dataset_of_large_types(tmp_path: Path) -> None:
    write_deltalake(tmp_path, NESTED, partition_by=["text"])
    ours, theirs = DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path)
    found = ours.to_pyarrow_dataset(as_large_types=True).to_table()
    assert found.schema == pa.schema(theirs.schema().to_arrow(as_large_types=True))
    assert found.sort_by("ratio").to_pylist() == ours.to_pyarrow_table().sort_by("ratio").to_pylist()
    assert ours.to_pyarrow_dataset(as_large_types=True).to_table(filter=pds.field("text") == "a").num_rows == 1


def test_a_dataset_of_large_types_whose_files_pyarrow_reads_otherwise(tmp_path: Path) -> None:
    """The file's column differs in case: rows come from the table's own reader, in the types asked for."""
    pq.write_table(pa.table({"TEXT": ["a"], "L": [["b"]]}), tmp_path / "a.parquet")
    strings = {"type": "array", "elementType": "string", "containsNull": True}
    size = (tmp_path / "a.parquet").stat().st_size
    LogBuilder(tmp_path).metadata({"text": "string", "l": strings}).commit(add("a.parquet", size=size))
    table = DeltaTable(tmp_path)
    found = table.to_pyarrow_dataset(as_large_types=True).to_table(columns=["l", "text"])
    assert [str(field.type) for field in found.schema] == ["large_list<element: large_string>", "large_string"]
    assert found.to_pylist() == [{"l": ["b"], "text": "a"}]
    options = pds.ParquetReadOptions(dictionary_columns=["text"])
    coded = table.to_pyarrow_dataset(parquet_read_options=options).to_table()
    assert coded.schema.field("text").type == pa.dictionary(pa.int32(), pa.string())
    assert coded.to_pylist() == [{"text": "a", "l": ["b"]}]


def test_a_dataset_of_a_schema(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "text": ["a", "b"], "p": ["x", "y"]}), partition_by=["p"])
    schema = pa.schema([("p", pa.large_string()), ("text", pa.large_string()), ("id", pa.float64())])
    rows = [{"p": "x", "text": "a", "id": 1.0}, {"p": "y", "text": "b", "id": 2.0}]
    for table in (DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path)):
        dataset = table.to_pyarrow_dataset(schema=schema, as_large_types=True)
        assert dataset.schema == schema
        assert dataset.to_table().sort_by("id").to_pylist() == rows
    some = DeltaTable(tmp_path).to_pyarrow_dataset(schema=pa.schema([("id", pa.int64())])).to_table()
    assert some.sort_by("id").to_pylist() == [{"id": 1}, {"id": 2}]
    with pytest.raises(UnknownColumnError, match="'nope'"):
        DeltaTable(tmp_path).to_pyarrow_dataset(schema=pa.schema([("nope", pa.int64())]))


def test_read_options(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"text": ["a", "b"], "p": ["x", "x"]}), partition_by=["p"])
    options = pds.ParquetReadOptions(dictionary_columns=["text", "p"])
    found = DeltaTable(tmp_path).to_pyarrow_dataset(parquet_read_options=options).to_table()
    assert found.schema.field("text").type == pa.dictionary(pa.int32(), pa.string())
    again = DeltaTable(tmp_path).to_pyarrow_dataset(parquet_read_options=options, schema=found.schema)
    assert again.to_table() == found, "a schema may say it, too"
    assert found.schema.field("p").type == pa.string(), "a partition value is not in the file"
    assert found.to_pylist() == [{"text": "a", "p": "x"}, {"text": "b", "p": "x"}]
    assert options.coerce_int96_timestamp_unit == "ns", "the user's object stays as it is"
    with pytest.raises(InputError, match="ParquetReadOptions, not a dict"):
        DeltaTable(tmp_path).to_pyarrow_dataset(parquet_read_options={"dictionary_columns": ["text"]})


@pytest.mark.parametrize("name", ["s", "n", "p"])
def test_nulls_in_filters_of_rows(tmp_path: Path, name: str) -> None:
    """In tuples of `filters`, null means what it means in pyarrow, to which deltalake hands them."""
    rows = {"s": ["a", "b", None, "c"], "n": [1, 2, None, 3], "p": ["x", None, "y", "x"]}
    write_deltalake(tmp_path, pa.table(rows), partition_by=["p"])
    values = [value for value in dict.fromkeys(rows[name]) if value is not None]
    lists = [values[:1], values, [*values[:1], None]]
    filters: list[Any] = [[(name, operator, each)] for operator in ("in", "not in") for each in lists]
    filters += [[(name, operator, None)] for operator in ("=", "!=", "<", ">=")]
    filters += [[(name, operator, values[1])] for operator in ("=", "!=", "<", ">=")]
    filters += [[[(name, "not in", values[:1])], [(name, "=", values[0])]]]
    tables = (DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path))
    for each in filters:
        ours, theirs = ([str(v) for v in t.to_pyarrow_table(filters=each)[name].to_pylist()] for t in tables)
        assert sorted(ours) == sorted(theirs), each


def test_filters_of_pyarrow(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"id": range(6), "p": ["x", "y"] * 3}), partition_by=["p"])
    table, theirs = DeltaTable(tmp_path), deltalake.DeltaTable(tmp_path)
    expression = (pds.field("id") > 1) & (pds.field("id") * 2 < 9)
    for each in (table, theirs):
        assert sorted(each.to_pandas(filters=expression, columns=["id"])["id"]) == [2, 3, 4]
        assert each.to_pyarrow_table(filters=expression, columns=["id"]).column_names == ["id"]
    assert table.to_pyarrow_table([("p", "=", "x")], filters=expression)["id"].to_pylist() == [2, 4]
    with pytest.raises(UnknownColumnError):
        table.to_pyarrow_table(columns=["nope"], filters=expression)


def test_a_file_system_of_pyarrow(tmp_path: Path) -> None:
    """Rows come from the files there: a copy of the data files, elsewhere."""
    table, copied = tmp_path / "table", tmp_path / "copied"
    write_deltalake(table, pa.table({"id": range(6), "p": ["x y", "z"] * 3}), partition_by=["p"])
    shutil.copytree(table, copied)
    for path in [*table.rglob("*.parquet")]:
        path.unlink()
    here = pa_fs.SubTreeFileSystem(str(copied), pa_fs.LocalFileSystem())
    ours = DeltaTable(table)
    assert sorted(ours.to_pyarrow_table(filesystem=here)["id"].to_pylist()) == [*range(6)]
    assert sorted(ours.to_pandas(filesystem=here, filters="id > 3")["id"]) == [4, 5]
    assert sorted(ours.to_pandas(filesystem=here, filters=pds.field("id") > 3)["id"]) == [4, 5]
    assert sorted(ours.to_pyarrow_dataset(filesystem=here).to_table()["id"].to_pylist()) == [*range(6)]
    theirs = deltalake.DeltaTable(table)
    assert sorted(theirs.to_pyarrow_dataset(filesystem=here).to_table()["id"].to_pylist()) == [*range(6)]
    empty = pa_fs.SubTreeFileSystem(str(table), pa_fs.LocalFileSystem())
    with pytest.raises(CorruptDataError, match="missing"):
        ours.to_pyarrow_table(filesystem=empty)
    with pytest.raises(InputError, match=r"pyarrow\.fs\.FileSystem"):
        ours.to_pandas(filesystem="s3://bucket")


# What the table does not do


def offered(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def refused() -> list[str]:
    return [n for n in sorted(offered(DeltaTable)) if repr(getattr(DeltaTable, n)).endswith(": not offered>")]


def test_every_name_of_deltalake_is_here() -> None:
    """A name that a new deltalake brings needs a method, or a line that says which tool does it."""
    assert offered(deltalake.DeltaTable) - offered(DeltaTable) == set()
    assert set(refused()) <= offered(deltalake.DeltaTable), "refused, and deltalake has no such name"
    assert {"delete", "merge", "create", "optimize", "vacuum"} <= set(refused())


@pytest.mark.parametrize("name", refused())
def test_what_is_not_offered_names_another_tool(tmp_path: Path, name: str) -> None:
    LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("a"))
    before = sorted(tmp_path.rglob("*"))
    for owner in (DeltaTable(tmp_path), DeltaTable):
        with pytest.raises(NotOfferedError) as raised:
            getattr(owner, name)("x", y=1)
        assert f"DeltaTable.{name} " in str(raised.value)
        assert "\n" not in str(raised.value)
        assert "deltalake" in str(raised.value)
        with pytest.raises(NotOfferedError):
            getattr(owner, name).compact()
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_not_offered_is_no_trap_for_consoles(tmp_path: Path) -> None:
    assert hasattr(DeltaTable, "optimize")
    assert not hasattr(DeltaTable.optimize, "_repr_html_")
    copy.copy(DeltaTable.optimize)


# What the guide says


def sections_of_the_guide() -> dict[str, str]:
    page = Path(__file__).resolve().parents[1] / "docs" / "guide" / "coming-from-deltalake.md"
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page.read_text(), re.DOTALL | re.MULTILINE))


def names_in_rows(section: str) -> list[str]:
    """The names that the rows of a section's table begin with."""
    _, rows = sections_of_the_guide()[section].split("|---|---|")
    return re.findall(r"^\| `?([\w=]+)", rows, re.MULTILINE)


@pytest.fixture
def telemetry(tmp_path: Path) -> Path:
    """Three versions: two partitions, a commit with an application's version, one that adds to a partition."""
    root = tmp_path / "my table"
    rows = pa.table({"id": range(6), "text": ["a", None] * 3, "p": ["x", None] * 3})
    write_deltalake(root, rows, partition_by=["p"], name="telemetry", description="of sensors")
    application = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("app", 7)])
    write_deltalake(root, rows, mode="append", commit_properties=application)
    write_deltalake(root, rows.slice(0, 1), mode="append")
    return root


def by_id(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: (row["id"], row.get("p") or ""))


def moved(table: Any) -> Any:
    table.update_incremental()
    return table.version()


SAME: dict[str, Callable[[Any], Any]] = {
    "DeltaTable": lambda t: type(t)(t.table_uri, 1, {}).version(),
    "is_deltatable": lambda t: (type(t).is_deltatable(t.table_uri, {}), type(t).is_deltatable(t.table_uri + "/p=x")),
    "version": lambda t: t.version(),
    "protocol": lambda t: t.protocol()._asdict(),
    "metadata": lambda t: [
        getattr(t.metadata(), name)
        for name in ("id", "name", "description", "partition_columns", "created_time", "configuration")
    ],
    "history": lambda t: (t.history(), t.history(2)),
    "update_incremental": lambda t: moved(type(t)(t.table_uri, version=0)),
    "transaction_version": lambda t: (t.transaction_version("app"), t.transaction_version("other")),
    "count": lambda t: t.count(),
    "partitions": lambda t: sorted(map(sorted_items, t.partitions(file_pruning_predicate="p = 'x'"))),
    "get_add_actions": lambda t: listed(t.get_add_actions(flatten=True)),
    "deletion_vectors": lambda t: pa.table(t.deletion_vectors().read_all()).to_pylist(),
    "table_config": lambda t: (t.table_config._fields, t.table_config.without_files),
    "to_pyarrow_table": lambda t: by_id(t.to_pyarrow_table(columns=["id", "p"], filters=[("id", ">", 2)])),
    "to_pandas": lambda t: sorted(t.to_pandas(filters=[[("id", "=", 1)], [("p", "=", "x")]])["id"]),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", names_in_rows("Same"))
def test_the_same(telemetry: Path, name: str) -> None:
    assert SAME[name](DeltaTable(telemetry)) == SAME[name](deltalake.DeltaTable(telemetry))


def test_every_claim_of_sameness_is_tried() -> None:
    assert names_in_rows("Same") == list(SAME)


def mapped_table(root: Path, values: list[int]) -> Path:
    """One file, whose column `x` is named otherwise in it."""
    log = LogBuilder(root).protocol(3, 7, features=["columnMapping"])
    log.metadata([mapped_column("x", 0)], configuration={"delta.columnMapping.mode": "name"})
    pq.write_table(pa.table({"col-0": values}), root / "a")
    bounds = {"minValues": {"col-0": min(values)}, "maxValues": {"col-0": max(values)}}
    log.commit(add("a", size=(root / "a").stat().st_size, stats={"numRecords": len(values), **bounds}))
    return root


def differs_table_uri(root: Path, tmp_path: Path) -> None:
    assert (DeltaTable(root).table_uri, deltalake.DeltaTable(root).table_uri) == (str(root), root.as_uri() + "/")


def differs_equality(root: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "other", WIDE)
    assert deltalake.DeltaTable(root) == deltalake.DeltaTable(tmp_path / "other")
    assert DeltaTable(root) != DeltaTable(tmp_path / "other")
    assert DeltaTable(root) == DeltaTable(root)


def differs_schema(root: Path, tmp_path: Path) -> None:
    ours, theirs = DeltaTable(root).schema(), deltalake.DeltaTable(root).schema()
    assert json.loads(ours.to_json()) == json.loads(theirs.to_json())
    assert ours.to_arrow() == pa.schema(theirs.to_arrow())
    for unknown in ("from_json", "from_arrow"):
        assert hasattr(theirs, unknown)
        assert not hasattr(ours, unknown)


def differs_load_as_version(root: Path, tmp_path: Path) -> None:
    ours, theirs = DeltaTable(root), deltalake.DeltaTable(root)
    for outside, version in (("1999-01-01T00:00:00Z", 0), ("2999-01-01T00:00:00Z", 2)):
        theirs.load_as_version(outside)
        assert theirs.version() == version
        with pytest.raises(VersionNotFoundError):
            ours.load_as_version(outside)
    for number in range(3):
        os.utime(root / "_delta_log" / f"{number:020}.json", (1_770_000_000 + number, 1_770_000_000 + number))
    ours = DeltaTable(root)
    without_zone = dt.datetime.fromtimestamp(1_770_000_002, dt.UTC).replace(tzinfo=None).isoformat()
    with pytest.raises(Exception, match="Failed to parse datetime"):
        theirs.load_as_version(without_zone)
    ours.load_as_version(without_zone)
    assert ours.version() == 2
    for table in (ours, theirs):
        table.load_as_version(1)
        assert table.version() == 1


def differs_file_uris(root: Path, tmp_path: Path) -> None:
    ours, theirs = DeltaTable(root), deltalake.DeltaTable(root)
    assert set(ours.file_uris()) == set(map(unquote, theirs.file_uris()))
    some = theirs.file_uris(file_pruning_predicate=[("p", "=", "x")])
    assert set(ours.file_uris(file_pruning_predicate=[("p", "=", "x")])) == set(map(unquote, some))
    assert set(ours.file_uris([("p", "=", "x")])) == set(map(unquote, some))
    (newest,) = set(ours.file_uris()) - set(DeltaTable(root, version=1).file_uris())
    assert ours.file_uris(limit=1) == [newest]
    assert Path(newest).exists()
    assert ours.file_uris(predicate="id > 100") == []


def differs_add_actions(root: Path, tmp_path: Path) -> None:
    mapped = mapped_table(tmp_path / "mapped", [1, 2])
    (ours,) = DeltaTable(mapped).get_add_actions(flatten=True).to_pylist()
    (theirs,) = pa.table(deltalake.DeltaTable(mapped).get_add_actions(flatten=True)).to_pylist()
    assert (ours["min.x"], theirs["min.col-0"]) == (1, 1)


def differs_scan(root: Path, tmp_path: Path) -> None:
    ours, theirs = (table(root).scan(["id"], "id = 1") for table in (DeltaTable, deltalake.DeltaTable))
    assert isinstance(ours, pa.RecordBatchReader)
    assert not isinstance(theirs, pa.RecordBatchReader)
    assert ours.read_all().to_pylist() == pa.table(theirs).to_pylist() == [{"id": 1}, {"id": 1}]


def differs_dataset(root: Path, tmp_path: Path) -> None:
    ours, theirs = DeltaTable(root).to_pyarrow_dataset(), deltalake.DeltaTable(root).to_pyarrow_dataset()
    assert by_id(ours.to_table(columns=["id", "p"])) == by_id(theirs.to_table(columns=["id", "p"]))
    assert isinstance(theirs, pds.FileSystemDataset)
    assert isinstance(ours, pds.Dataset)
    assert not isinstance(ours, pds.FileSystemDataset)
    scanner = ours.scanner(columns=["id"])
    assert scanner.to_table() == scanner.to_table(), "it can be used again"
    assert "id > 3" in str(ours.explain(pds.field("id") > 3))
    pds.write_dataset(theirs, tmp_path / "theirs", format="parquet")
    pds.write_dataset(ours.scanner().to_reader(), tmp_path / "ours", format="parquet")
    assert by_id(pq.read_table(tmp_path / "ours")) == by_id(pq.read_table(tmp_path / "theirs"))
    assert DeltaTable(root).to_pyarrow_dataset(file_pruning_predicate="id > 100").get_fragments() == []
    mapped = mapped_table(tmp_path / "mapped", [1, 2])
    assert DeltaTable(mapped).to_pyarrow_dataset().count_rows() == 2
    with pytest.raises(DeltaProtocolError):
        deltalake.DeltaTable(mapped).to_pyarrow_dataset()


def differs_fragments(root: Path, tmp_path: Path) -> None:
    datasets = DeltaTable(root).to_pyarrow_dataset(), deltalake.DeltaTable(root).to_pyarrow_dataset()
    for condition, files in ((pds.field("p") == "x", 3), (pds.field("id") > 100, 0)):
        assert [len(list(dataset.get_fragments(condition))) for dataset in datasets] == [files, files]
    ours, theirs = (next(iter(dataset.get_fragments())) for dataset in datasets)
    assert isinstance(theirs, pds.ParquetFileFragment)
    assert not isinstance(ours, pds.ParquetFileFragment)
    assert ours.count_rows() == ours.to_table().num_rows == ours.scanner().to_table().num_rows
    for name in ("path", "to_batches", "head", "take", "partition_expression"):
        assert hasattr(ours, name)
        assert hasattr(theirs, name)


def differs_filters(root: Path, tmp_path: Path) -> None:
    expression = (pds.field("id") > 1) & (pds.field("id") * 2 < 9)
    ours, theirs = DeltaTable(root), deltalake.DeltaTable(root)
    assert sorted(ours.to_pandas(filters=expression)["id"]) == sorted(theirs.to_pandas(filters=expression)["id"])
    assert ours.file_uris(predicate=pds.field("id").isin([100])) == []
    assert len(ours.file_uris(predicate=pds.field("id") * 2 > 900)) == 5, "what is not understood leaves out nothing"


def differs_filesystem(root: Path, tmp_path: Path) -> None:
    ours, theirs = DeltaTable(root), deltalake.DeltaTable(root)
    native = pa_fs.SubTreeFileSystem(str(root), pa_fs.LocalFileSystem())
    assert by_id(ours.to_pyarrow_table(filesystem=native)) == by_id(theirs.to_pyarrow_table(filesystem=native))
    with pytest.raises(InputError, match=r"FSSpecHandler"):
        ours.to_pyarrow_table(filesystem="file")
    with pytest.raises(TypeError):
        theirs.to_pyarrow_table(filesystem="file")


def differs_empty_text(root: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "empty", pa.table({"x": [1, 2, 3], "p": ["", None, "a"]}), partition_by=["p"])
    ours, theirs = DeltaTable(tmp_path / "empty"), deltalake.DeltaTable(tmp_path / "empty")
    for value, found in (("", 2), ("a", 1)):
        asked = [("p", "=", value)]
        assert ours.to_pyarrow_table(partitions=asked).num_rows == len(ours.file_uris(asked)) == found
        assert ours.to_pyarrow_table(filters=asked).num_rows == found
    assert ours.to_pyarrow_table(filters="p = ''").num_rows == 0
    assert ours.to_pyarrow_table(filters="p is null").num_rows == 2
    with pytest.warns(DeprecationWarning, match="partition_filters"):
        assert len(theirs.file_uris([("p", "=", "")])) == 1
    assert sorted(ours.to_pyarrow_table()["p"].to_pylist(), key=str) == [None, None, "a"]


def differs_both_filters(root: Path, tmp_path: Path) -> None:
    assert len(DeltaTable(root).file_uris([("p", "=", "x")], file_pruning_predicate="id >= 0")) == 3
    assert DeltaTable(root).file_uris([("p", "=", "x")], file_pruning_predicate="id > 100") == []
    with pytest.raises(ValueError, match="pass only"):
        deltalake.DeltaTable(root).file_uris([("p", "=", "x")], file_pruning_predicate="id > 100")


def differs_errors(root: Path, tmp_path: Path) -> None:
    for asked in (lambda kind: kind(tmp_path / "nothing"), lambda kind: kind(root, version=99)):
        with pytest.raises(DeltaSidecarError) as ours:
            asked(DeltaTable)
        with pytest.raises(DeltaError) as theirs:
            asked(deltalake.DeltaTable)
        assert str(ours.value) != str(theirs.value)


def differs_load_cdf(root: Path, tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).protocol(
        3, 7, features=["deletionVectors"], writer_features=["deletionVectors", "changeDataFeed"]
    )
    log.metadata({"x": "long"}, configuration={"delta.enableChangeDataFeed": "true"})
    file = write_data_file(tmp_path, "a.parquet", pa.table({"x": range(2000)}))
    marked = replace(file, dv=vector(0, 1, 2))
    gone = RemoveFile("a.parquet", extended=True, size=file.size)
    log.commit(file).commit(gone, marked).commit(replace(gone, dv=marked.dv))
    ours, theirs = (pa.table(kind(tmp_path).load_cdf(2)) for kind in (DeltaTable, deltalake.DeltaTable))
    assert ours["x"].to_pylist() == [*range(3, 2000)]
    assert theirs.num_rows == 3
    assert ours.schema.field("_commit_version").type == pa.int64()
    assert ours.schema.field("_commit_timestamp").type == pa.timestamp("us", "UTC")
    assert DeltaTable(tmp_path, version=1).load_cdf(1, 2).read_all()["x"].to_pylist() == [0, 1, 2]


DIFFERENT: dict[str, Callable[[Path, Path], None]] = {
    "table_uri": differs_table_uri,
    "==": differs_equality,
    "schema": differs_schema,
    "load_as_version": differs_load_as_version,
    "file_uris": differs_file_uris,
    "get_add_actions": differs_add_actions,
    "scan": differs_scan,
    "to_pyarrow_dataset": differs_dataset,
    "get_fragments": differs_fragments,
    "load_cdf": differs_load_cdf,
    "filters=": differs_filters,
    "filesystem=": differs_filesystem,
    "empty": differs_empty_text,
    "partitions=": differs_both_filters,
    "errors": differs_errors,
}


@pytest.mark.parametrize("name", names_in_rows("Different"))
def test_the_differences(telemetry: Path, tmp_path: Path, name: str) -> None:
    """What the guide says of both libraries."""
    DIFFERENT[name](telemetry, tmp_path)


def test_every_difference_is_tried() -> None:
    assert names_in_rows("Different") == list(DIFFERENT)


def names_in_cells(section: str) -> set[str]:
    """All names in the first cells of a section's table."""
    _, rows = sections_of_the_guide()[section].split("|---|---|")
    return {name for cell in re.findall(r"^\| (`.+?) \|", rows, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)}


def test_every_name_stands_in_a_row() -> None:
    """A name that a new deltalake brings needs a row: the same, different or not offered. Ours are among the new."""
    theirs, shared = offered(deltalake.DeltaTable), {*names_in_rows("Same"), *names_in_rows("Different")}
    assert theirs - set(refused()) - shared == set()
    assert shared.isdisjoint(refused())
    assert names_in_cells("Not offered") == set(refused())
    assert names_in_cells("New") == offered(DeltaTable) - theirs


def test_who_takes_no_table_of_ours(telemetry: Path) -> None:
    ours = DeltaTable(telemetry)
    with pytest.raises(AttributeError, match="_table"):
        deltalake.QueryBuilder().register("events", ours)  # type: ignore[arg-type]
    with pytest.raises((TypeError, ValueError)):
        write_deltalake(ours, ours.to_pyarrow_table(), mode="append")  # type: ignore[call-overload]
    assert pl.scan_pyarrow_dataset(ours.to_pyarrow_dataset()).collect().height == 13
    query = deltalake.QueryBuilder().register("events", deltalake.DeltaTable(ours.table_uri))
    assert pa.table(query.execute("select count(*) as n from events").read_all()).to_pylist() == [{"n": 13}]


def test_polars_takes_the_uri(telemetry: Path, tmp_path: Path) -> None:
    pytest.importorskip("polars", "1.40", "older ones do not know deltalake 1.6")
    # polars does not find the files of deltalake's tables where a path has a space.
    ours = DeltaTable(shutil.copytree(telemetry, tmp_path / "plain"))
    with pytest.raises(Exception, match="DeltaTable"):
        pl.read_delta(ours)  # type: ignore[arg-type]
    assert pl.read_delta(ours.table_uri).height == 13


@pytest.mark.parametrize("name", ["deletion vectors", "column mapping"])
def test_datasets_that_deltalake_refuses(tmp_path: Path, name: str) -> None:
    if name == "deletion vectors":
        root, expected = with_vectors(tmp_path, {"numRecords": 5}), [1, 2, 3, 5, 6, 8, 9, 10, 11, 12, 13, 14]
    else:
        expected = [1, 2]
        root = mapped_table(tmp_path, expected)
    with pytest.raises(DeltaProtocolError):
        deltalake.DeltaTable(root).to_pyarrow_dataset()
    dataset = DeltaTable(root).to_pyarrow_dataset()
    assert sorted(dataset.to_table()["x"].to_pylist()) == expected
    assert dataset.count_rows(pds.field("x") > 1) == len(expected) - 1


def test_the_row_count_without_statistics(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "a.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    LogBuilder(tmp_path).metadata({"x": "long"}).commit(add("a.parquet", size=size))
    assert (DeltaTable(tmp_path).count(), deltalake.DeltaTable(tmp_path).count()) == (3, 0)
