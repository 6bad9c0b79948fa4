"""Rows of the golden tables against what their authors expect."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.listing import listing_of, sorted_rows

TABLES = [
    "124-decimal-decode-bug",
    "125-iterator-bug",
    "basic-decimal-table",
    "basic-decimal-table-legacy",
    "basic-with-inserts-deletes-checkpoint",
    "basic-with-inserts-merge",
    "basic-with-inserts-overwrite-restore",
    "basic-with-inserts-updates",
    "data-reader-array-complex-objects",
    "data-reader-array-primitives",
    "data-reader-date-types-America",
    "data-reader-date-types-Pst",
    "data-reader-date-types-utc",
    "data-reader-escaped-chars",
    "data-reader-map",
    "data-reader-nested-struct",
    "data-reader-nullable-field-invalid-schema-key",
    "data-reader-primitives",
    "data-reader-timestamp_ntz",
    "data-reader-timestamp_ntz-id-mode",
    "data-reader-timestamp_ntz-name-mode",
    "data-skipping-basic-stats-all-types-columnmapping-id",
    "data-skipping-basic-stats-all-types-columnmapping-name",
    "decimal-various-scale-precision",
    "dv-partitioned-with-checkpoint",
    "dv-with-columnmapping",
    "kernel-timestamp-int96",
    "kernel-timestamp-pst",
    "kernel-timestamp-timestamp_micros",
    "kernel-timestamp-timestamp_millis",
    "log-replay-dv-key-cases",
    "multi-part-checkpoint",
    "parquet-all-types",
    "parquet-all-types-legacy-format",
    "parquet-decimal-dictionaries",
    "parquet-decimal-dictionaries-v2",
    "parquet-decimal-type",
    "table-with-columnmapping-mode-id",
    "table-with-columnmapping-mode-name",
]


def _expected(directory: Path) -> pa.Table:
    return pa.concat_tables(
        [pq.read_table(p, coerce_int96_timestamp_unit="us") for p in sorted(directory.glob("*.parquet"))]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_rows_are_the_expected_ones(golden: Path, name: str) -> None:
    rows = listing_of(golden / name / "delta").table()
    expected = _expected(golden / name / "expected")
    assert rows.column_names == expected.column_names
    expected = pa.table([_in_zone(expected.column(f.name), f.type) for f in rows.schema], rows.column_names)
    if rows.num_rows > 10_000:
        order = [(name, "ascending") for name in rows.column_names]
        assert rows.sort_by(order).equals(expected.cast(rows.schema).sort_by(order))
    else:
        assert sorted_rows(rows) == sorted_rows(expected)
    rows.validate(full=True)


def test_partition_timestamps_without_a_zone_are_in_the_zone_asked_for(golden: Path) -> None:
    """The table was written in Los Angeles, and says so nowhere."""
    rows = listing_of(golden / "data-reader-partition-values" / "delta").table(partition_timezone="America/Los_Angeles")
    expected = _expected(golden / "data-reader-partition-values" / "expected")
    assert sorted_rows(rows) == sorted_rows(expected, rows.column_names)


def _in_zone(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The expected files write instants without a zone, too."""
    return column.cast(wanted) if pa.types.is_timestamp(column.type) else column
