"""Rows out of every engine, in one form, and what plain Python makes of a condition."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import duckdb
import polars as pl
import pyarrow as pa

from delta_sidecar import DeltaTable
from delta_sidecar.engines.engine_plan import RowCondition

Rows: TypeAlias = "Counter[tuple[tuple[str, Any], ...]]"
Read: TypeAlias = Callable[[DeltaTable, str | None], Rows]


def rows(found: pa.Table | Iterable[Mapping[str, Any]]) -> Rows:
    """Rows without an order, NaN equal to itself, times in UTC."""
    listed = found.to_pylist() if isinstance(found, pa.Table) else found
    return Counter(tuple((name, _plain(value)) for name, value in row.items()) for row in listed)


def _plain(value: Any) -> Any:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).replace(tzinfo=None), "UTC"
        case bytearray() | memoryview():
            return bytes(value)
        case dict():
            return tuple((name, _plain(inner)) for name, inner in value.items())
        case list():
            return tuple(map(_plain, value))
    return value


def arrow(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """The rows of a relation; newer versions of DuckDB stream them."""
    found = relation.arrow()
    return found.read_all() if isinstance(found, pa.RecordBatchReader) else found


@cache
def _database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def connect() -> duckdb.DuckDBPyConnection:
    """A connection of its own to a database that all tests share: to open one takes longer than most questions."""
    return _database().cursor()


def by_duckdb(way: str) -> Read:
    def read(table: DeltaTable, predicate: str | None) -> Rows:
        with connect() as connection:
            connection.execute("SET TimeZone = 'America/Los_Angeles'")
            return rows(arrow(table.to_duckdb(connection, predicate, way=way)))

    return read


def by_polars(way: str) -> Read:
    def read(table: DeltaTable, predicate: str | None) -> Rows:
        frame = table.to_polars(predicate, way=way)
        assert isinstance(frame, pl.LazyFrame)
        return rows(frame.collect().to_arrow())

    return read


def by_datafusion(table: DeltaTable, predicate: str | None) -> Rows:
    from datafusion import SessionContext

    context = SessionContext()
    table.to_datafusion(context, "t", predicate)
    return rows(context.sql("SELECT * FROM t").to_arrow_table())


def by_pyarrow(table: DeltaTable, predicate: str | None) -> Rows:
    return rows(RowCondition.of(table, predicate).dataset(table, None).to_table())


READERS: Final[dict[str, Read]] = {
    "duckdb": by_duckdb("auto"),
    "duckdb dataset": by_duckdb("dataset"),
    "polars": by_polars("auto"),
    "polars dataset": by_polars("dataset"),
    "datafusion": by_datafusion,
    "pyarrow": by_pyarrow,
}
