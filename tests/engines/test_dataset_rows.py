"""A pyarrow dataset gives the rows that `to_batches` gives, whatever the files hold."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pds
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.errors import DeltaSidecarError
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.data.made import writes_early_int96

INNER = {
    "type": "struct",
    "fields": [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("one", "two")],
}
LIST = {"type": "array", "elementType": INNER, "containsNull": True}
EARLY, LATE = dt.datetime(1, 1, 1, 3), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)


def made(
    root: Path, columns: dict[str, Any], *files: pa.Table, partition_by: Sequence[str] = (), **writing: Any
) -> DeltaTable:
    log = LogBuilder(root).protocol(3, features=["timestampNtz", "typeWidening"]).metadata(columns, list(partition_by))
    adds = []
    for number, file in enumerate(files):
        path = root / f"{number}.parquet"
        pq.write_table(file, path, **writing)
        adds.append(add(path.name, size=path.stat().st_size, partition=dict.fromkeys(partition_by, str(number))))
    log.commit(*adds)
    return DeltaTable(str(root))


def in_order(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def assert_same(table: DeltaTable) -> None:
    expected = table.to_pyarrow_table()
    dataset = table.to_pyarrow_dataset()
    assert dataset.schema == expected.schema
    assert in_order(dataset.to_table()) == in_order(expected)
    assert in_order(pa.Table.from_batches(dataset.to_batches(), dataset.schema)) == in_order(expected)
    assert in_order(dataset.scanner().to_table()) == in_order(expected)
    assert dataset.count_rows() == expected.num_rows
    assert dataset.head(1).num_rows == min(1, expected.num_rows)
    for name in expected.column_names:
        assert in_order(dataset.to_table(columns=[name])) == in_order(expected.select([name]))
        known = pds.field(name).is_valid()
        assert dataset.to_table(filter=known).num_rows == len(expected) - expected[name].null_count
        assert dataset.filter(known).to_table().num_rows == len(expected) - expected[name].null_count


@pytest.mark.parametrize(
    ("columns", "file"),
    [
        ({"Id": "long", "s": "string"}, pa.table({"ID": [1, None], "s": ["a", "b"]})),
        ({"id": "long", "s": "string"}, pa.table({"S": ["a", "b"], "iD": [1, 2]})),
        ({"id": "long"}, pa.table({"ID": [1], "Id": [2]})),
        ({"id": "long"}, pa.table({"ID": [1], "id": [2]})),
        ({"st": INNER}, pa.table({"st": [{"One": 1, "two": 2}, None]})),
        ({"l": LIST}, pa.table({"L": [[{"TWO": 1}], None, []]})),
        ({"t": "timestamp"}, pa.table({"t": pa.array([1_700_000_000_000_000_001, None], pa.timestamp("ns"))})),
        ({"t": "timestamp_ntz"}, pa.table({"t": pa.array([5, None], pa.timestamp("ms"))})),
        ({"d": "decimal(20,2)"}, pa.table({"d": pa.array([5, None], pa.int64())})),
        ({"d": "decimal(20,2)"}, pa.table({"d": pa.array([Decimal("1.5"), None], pa.decimal128(5, 1))})),
        ({"x": "double"}, pa.table({"x": pa.array([1.5, None], pa.float32())})),
        ({"x": "long"}, pa.table({"x": pa.array([1, None], pa.int8())})),
        ({"t": "timestamp_ntz"}, pa.table({"t": pa.array([dt.date(2026, 1, 2), None])})),
        ({"s": "string"}, pa.table({"s": pa.array(["a", None, "a"]).dictionary_encode()})),
    ],
)  # fmt: skip
def test_the_same_rows(tmp_path: Path, columns: dict[str, Any], file: pa.Table) -> None:
    assert_same(made(tmp_path, columns, file))


def test_files_of_several_shapes(tmp_path: Path) -> None:
    files = [pa.table({"Id": [1, 2], "x": [1, 1]}), pa.table({"id": [3], "x": [1]}), pa.table({"x": [4]})]
    table = made(tmp_path, {"id": "long", "x": "long", "p": "long"}, *files, partition_by=("p",))
    assert_same(table)
    dataset = table.to_pyarrow_dataset()
    assert sorted(dataset.to_table(filter=pds.field("id") > 1)["id"].to_pylist()) == [2, 3]
    assert dataset.to_table(filter=pds.field("p") == 0, columns=["p", "id"]).to_pylist() == [
        {"p": 0, "id": 1},
        {"p": 0, "id": 2},
    ]
    found = dataset.to_table(columns={"twice": pds.field("id") * 2}, filter=pds.field("p") < 2)
    assert sorted(found["twice"].to_pylist()) == [2, 4, 6]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize(
    "options",
    [
        None,
        pds.ParquetReadOptions(),
        *(pds.ParquetReadOptions(coerce_int96_timestamp_unit=unit) for unit in ("ns", "us")),
    ],
)
@writes_early_int96
def test_times_beyond_nanoseconds(tmp_path: Path, kind: str, options: pds.ParquetReadOptions | None) -> None:
    """INT96 holds any day; 64 bits of nanoseconds hold 1677 to 2262."""
    times = pa.array([EARLY, LATE, dt.datetime(2026, 2, 3), None], pa.timestamp("us"))
    table = made(tmp_path, {"t": kind}, pa.table({"t": times}), use_deprecated_int96_timestamps=True)
    assert_same(table)
    found = table.to_pyarrow_dataset(parquet_read_options=options).to_table()
    assert found["t"].cast(pa.int64()).to_pylist() == times.cast(pa.int64()).to_pylist()


def test_what_is_refused_as_rows_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path, {"x": "long"}, pa.table({"x": ["1", "2"]}))
    for read in (table.to_pyarrow_table, lambda: table.to_pyarrow_dataset().to_table()):
        with pytest.raises((DeltaSidecarError, pa.ArrowException), match="stored as string"):
            read()


def by_duckdb(dataset: pds.Dataset) -> list[tuple[int, str]]:
    import duckdb

    with duckdb.connect() as connection:
        connection.register("events", dataset)
        return connection.execute("select id, p from events where id > 1 order by id").fetchall()


def by_polars(dataset: pds.Dataset) -> list[tuple[int, str]]:
    import polars as pl

    return pl.scan_pyarrow_dataset(dataset).filter(pl.col("id") > 1).sort("id").select("id", "p").collect().rows()


def by_datafusion(dataset: pds.Dataset) -> list[tuple[int, str]]:
    from datafusion import SessionContext

    context = SessionContext()
    context.register_dataset("events", dataset)
    found = context.sql("select id, p from events where id > 1 order by id").to_pydict()
    return list(zip(found["id"], found["p"], strict=True))


@pytest.mark.parametrize(
    ("query", "name"),
    [(query, name) for query in (by_duckdb, by_polars, by_datafusion) for name in ("id", "ID")],
)
def test_engines_read_it(tmp_path: Path, query: Callable[[pds.Dataset], list[tuple[int, str]]], name: str) -> None:
    files = [pa.table({name: [1, 2]}), pa.table({name: [3]})]
    table = made(tmp_path, {"id": "long", "p": "string"}, *files, partition_by=("p",))
    assert query(table.to_pyarrow_dataset()) == [(2, "0"), (3, "1")]
