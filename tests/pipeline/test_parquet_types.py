"""Parquet files that cannot be ingested, by what their footers say: the error names the file and the column."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.errors import InputError
from delta_sidecar.pipeline.parquet_rows import read_rows
from delta_sidecar.pipeline.sources import File, Source

NO_SPARK: Any = None
"""The files are refused before Spark is asked."""


def refused(file: Path, message: str) -> None:
    source = Source(str(file.parent), "parquet")
    with pytest.raises(InputError, match=message):
        read_rows(NO_SPARK, source, [File(f"file:{file}", file.stat().st_size)])


ONE = datetime.time(1)
NOT_READ: dict[str, tuple[pa.Array, str]] = {
    "half": (pa.array([1.0], pa.float16()), "column c is FLOAT16, which Spark cannot read; write it as a float"),
    "uuid": (pa.array([uuid.uuid4().bytes], pa.uuid()), "column c is UUID, which Spark cannot read; write it as text"),
    "millis": (pa.array([ONE], pa.time32("ms")), "column c is TIME"),
    "micros": (pa.array([ONE], pa.time64("us")), "column c is TIME"),
    "nanos": (pa.array([ONE], pa.time64("ns")), "column c is TIME"),
    "wide": (pa.array([Decimal("1.5")], pa.decimal256(50, 2)), r"column c is DECIMAL\(50,2\).*at most 38 digits"),
    "inside": (pa.array([[{"x": ONE}]]), r"column c\.list\.element\.x is TIME"),
}


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("name", NOT_READ)
def test_a_type_that_spark_cannot_read_is_refused_by_name(tmp_path: Path, name: str, stored: bool) -> None:
    column, message = NOT_READ[name]
    file = tmp_path / f"{name}.parquet"
    pq.write_table(pa.table({"id": [1], "c": column}), file, store_schema=stored)
    refused(file, f"{name}.parquet: {message}")


def test_an_interval_is_refused_by_name(tmp_path: Path) -> None:
    import duckdb

    file = tmp_path / "a.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id, INTERVAL 1 DAY AS c) TO '{file}'")
    refused(file, r"a\.parquet: column c is INTERVAL, which Spark cannot read; write it as text or a number")


@pytest.mark.parametrize("kind", ["Int128", "UInt128"])
def test_integers_of_128_bits_are_refused_by_name(tmp_path: Path, kind: str) -> None:
    import polars as pl

    file = tmp_path / "a.parquet"
    pl.DataFrame(
        {"id": [1], "s": [{"c": 1}]}, schema_overrides={"s": pl.Struct({"c": getattr(pl, kind)})}
    ).write_parquet(file)
    refused(
        file, r"a\.parquet has a type that cannot be read, in s\.c: Integers with more than 64 bits .* as a decimal"
    )


@pytest.mark.parametrize("name", ["_metadata", "_Metadata"])
def test_a_column_that_hides_what_spark_knows_of_the_file_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1], name: [{"file_path": "another"}]}), file)
    refused(file, rf"a\.parquet has a column {name}, a name that ingest reserves; rename it")
