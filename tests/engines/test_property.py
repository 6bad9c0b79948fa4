"""Random predicates over random rows: engines keep what our reader keeps, by files and through the dataset."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.testing.table_builder import LogBuilder
from tests.engines.reading import arrow, rows
from tests.engines.tables import add
from tests.properties.predicates import Predicate, predicates

DAY = dt.datetime(2026, 2, 10, 23, 30)
VALUES = {
    "k": [0, 1, -1, 7, 2**40],
    "f": [0.0, 1.5, -1.5, 0.1],
    "g": [0.0, 1.5, 0.1, 16777217.0],
    "s": ["", "a", "ab", "b", "é", "zz"],
    "d": [Decimal("0.00"), Decimal("1.25"), Decimal("-1.25")],
    "flag": [True, False],
    "day": [dt.date(2026, 2, 10), dt.date(2026, 2, 11), dt.date(1969, 12, 31)],
    "ts": [DAY.replace(tzinfo=dt.UTC), dt.datetime(2026, 2, 11, tzinfo=dt.UTC)],
    "wall": [DAY, dt.datetime(2026, 2, 11)],
    "p": ["a", "b"],
    "n": [1, 2],
}
"""Values of the columns, and literals of the predicates."""
MORE = {"f": [math.nan, -0.0, math.inf, -math.inf], "g": [math.nan]}
"""Values that have no literal."""
KINDS = {
    "k": "long",
    "f": "double",
    "g": "float",
    "s": "string",
    "d": "decimal(8,2)",
    "flag": "boolean",
    "day": "date",
    "ts": "timestamp",
    "wall": "timestamp_ntz",
    "p": "string",
    "n": "integer",
}
STORED = pa.schema(
    [
        ("k", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("d", pa.decimal128(8, 2)),
        ("flag", pa.bool_()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
    ]
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    """Files of many rows and of few, all values beside each other, two partition columns."""
    import random

    root = tmp_path_factory.mktemp("table")
    drawn = random.Random(7)
    pools = {name: [None, *VALUES[name], *MORE.get(name, [])] for name in STORED.names}
    log = LogBuilder(root).protocol(reader=3, features=["timestampNtz"]).metadata(KINDS, partition_by=["p", "n"])
    values: list[tuple[str | None, str | None]] = [("a", "1"), ("b", "2"), (None, "2"), ("a", None)]
    for number, (p, n) in enumerate(values):
        made = [{name: drawn.choice(pool) for name, pool in pools.items()} for _ in range(3 + 40 * number)]
        rows_made = pa.Table.from_pylist(made, STORED)
        log.commit(add(root, f"f{number}.parquet", rows_made, {"p": p, "n": n}, row_group_size=20))
    log.commit(
        add(root, "same.parquet", pa.Table.from_pylist([_same(1)] * 4 + [_same(2)], STORED), {"p": "b", "n": "1"})
    )
    return DeltaTable(root)


def _same(number: int) -> dict[str, object]:
    """One value in all rows but one, which has NaN: statistics say that all are equal."""
    return {"k": 7, "f": 1.5 if number == 1 else math.nan, "g": 1.5 if number == 1 else math.nan, "s": "b"}


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    opened = duckdb.connect()
    opened.execute("SET TimeZone = 'Asia/Kathmandu'")
    return opened


@pytest.mark.slow
@given(
    predicate=predicates(VALUES), columns=st.none() | st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True)
)
def test_engines_keep_the_rows_of_our_reader(
    predicate: Predicate, columns: list[str] | None, table: DeltaTable, connection: duckdb.DuckDBPyConnection
) -> None:
    expected = rows(table.to_pyarrow_table(filters=str(predicate), columns=columns))
    for way in ("files", "dataset"):
        assert rows(arrow(table.to_duckdb(connection, str(predicate), columns, way))) == expected, way
        assert rows(table.to_polars(str(predicate), columns, way).collect().to_arrow()) == expected, way


def test_the_table_is_read_by_its_files(table: DeltaTable, tmp_path: Path) -> None:
    assert [table.engine_plan(engine).way for engine in ("duckdb", "polars")] == ["files", "files"]
