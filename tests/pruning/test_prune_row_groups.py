"""Row groups of data files, pruned by their Parquet statistics."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar.predicates.expression import Column, Compare, Expression, IsNull, Not
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.pruning.row_group_bounds import RowGroupBounds, find_leaf
from delta_sidecar.values.types import StructField, StructType
from tests.pruning.bounds_tables import column, decimal, field, nested


def parquet(table: pa.Table, rows: int = 2, **options: Any) -> pq.ParquetFile:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows, **options)
    return pq.ParquetFile(io.BytesIO(sink.getvalue()))


def source(file: pq.ParquetFile, by_id: bool = False) -> RowGroupBounds:
    return RowGroupBounds(file.metadata, file.schema_arrow, by_id)


def of(values: pa.Array, kind: Any, **options: Any) -> tuple[list[Any], list[Any], list[Any]]:
    found = source(parquet(pa.table({"x": values}), **options)).bounds(column(kind))
    assert found is not None
    return found.minimum.to_pylist(), found.maximum.to_pylist(), found.null_count.to_pylist()


def matches(expression: Expression, file: pq.ParquetFile) -> list[bool]:
    bounds = source(file)
    return list(may_match(expression, bounds, len(bounds)).to_pylist())


CASES: list[tuple[pa.Array, Any, Any, Any]] = [
    (pa.array([3, 1], pa.int8()), "byte", 1, 3),
    (pa.array([3, 1], pa.int32()), "short", 1, 3),
    (pa.array([3, 1], pa.int32()), "long", 1, 3),
    (pa.array([3, 1], pa.int32()), "double", 1.0, 3.0),
    (pa.array([3, 1], pa.int32()), decimal(12, 1), Decimal("1.0"), Decimal("3.0")),
    (pa.array([0.1, 0.5], pa.float32()), "float", 0.10000000149011612, 0.5),
    (pa.array([0.1, 0.5], pa.float32()), "double", 0.10000000149011612, 0.5),
    (pa.array([float("nan"), 0.5]), "double", 0.5, 0.5),
    (pa.array([float("nan")] * 2), "double", None, None),
    (pa.array(["é", "a"]), "string", b"a", "é".encode()),
    (pa.array(["é", "a"], pa.large_string()), "string", b"a", "é".encode()),
    (pa.array([b"a", b"b"], pa.binary()), "binary", None, None),
    (pa.array([True, False]), "boolean", None, None),
    (pa.array([Decimal("-1.25"), Decimal(7)], pa.decimal128(38, 2)), decimal(38, 2), Decimal("-1.25"), Decimal(7)),
    (pa.array([Decimal("-1.25"), Decimal(7)], pa.decimal128(9, 2)), decimal(12, 3), Decimal("-1.250"), Decimal(7)),
    (pa.array([Decimal("-1.25"), Decimal(7)], pa.decimal128(9, 2)), decimal(9, 1), None, None),
    (pa.array([5, 1], pa.int32()).cast(pa.date32()), "date", 1, 5),
    (pa.array([5, 1], pa.int32()).cast(pa.date32()), "timestamp_ntz", 86_400_000_000, 5 * 86_400_000_000),
    (pa.array([-5, 1], pa.timestamp("us", "UTC")), "timestamp", -5, 1),
    (pa.array([-5, 1], pa.timestamp("ms", "UTC")), "timestamp", -5000, 1000),
    (pa.array([-5, 1001], pa.timestamp("ns", "UTC")), "timestamp", -1, 2),
    (pa.array([-5, 1001], pa.timestamp("ns")), "timestamp_ntz", -1, 2),
    (pa.array([-5, 1], pa.timestamp("us", "UTC")), "timestamp_ntz", None, None),
    (pa.array([1, 2], pa.uint32()), "long", None, None),
    (pa.array([1, 2], pa.int64()), "string", None, None),
    (pa.array(["1", "2"]).dictionary_encode(), "string", b"1", b"2"),
]


@pytest.mark.parametrize(("values", "kind", "low", "high"), CASES)
def test_bounds_of_each_type(values: pa.Array, kind: Any, low: Any, high: Any) -> None:
    assert of(values, kind) == ([low], [high], [0])


def test_decimals_stored_as_integers() -> None:
    values = pa.array([Decimal("-1.25"), Decimal(7)], pa.decimal128(9, 2))
    assert of(values, decimal(9, 2), store_decimal_as_integer=True)[:2] == ([Decimal("-1.25")], [Decimal(7)])


def test_int96_has_no_bounds() -> None:
    values = pa.array([1, 2], pa.timestamp("us"))
    assert of(values, "timestamp", use_deprecated_int96_timestamps=True)[:2] == ([None], [None])


def test_no_statistics_are_unknown() -> None:
    assert of(pa.array([1, 2]), "long", write_statistics=False) == ([None], [None], [None])


def test_row_groups_are_pruned() -> None:
    file = parquet(pa.table({"x": pa.array([1, 2, 3, None, None, None], pa.int64())}))
    assert matches(Compare(column("long"), ">", 2), file) == [False, True, False]
    assert matches(IsNull(column("long")), file) == [False, True, True]
    assert matches(Not(IsNull(column("long"))), file) == [True, True, False]


def test_statistics_leave_nan_out() -> None:
    file = parquet(pa.table({"x": [float("nan"), 1.0]}))
    assert matches(Compare(column("double"), "!=", 1.0), file) == [True]
    assert matches(Not(Compare(column("double"), "<", 5.0)), file) == [True]
    assert matches(Compare(column("double"), ">", 5.0), file) == [False]


def test_leaves_are_found_by_position_not_by_dotted_name() -> None:
    rows = pa.table({"m": [[(1, {"q": 2})]], "a.b": [7], "l": [[1]], "a": [{"b": 9, "l": [1], "c": 5}]},
                    schema=pa.schema([("m", pa.map_(pa.int64(), pa.struct([("q", pa.int64())]))),
                    ("a.b", pa.int64()), ("l", pa.list_(pa.int64())),
                                      ("a", pa.struct([("b", pa.int64()), ("l", pa.list_(pa.int64())),
                                      ("c", pa.int64())]))]))  # fmt: skip
    bounds = source(parquet(rows))
    for path, expected in [(("a.b",), 7), (("a", "b"), 9), (("a", "c"), 5)]:
        found = bounds.bounds(nested("long", *path))
        assert found is not None
        assert found.minimum.to_pylist() == [expected]


def test_what_is_not_a_plain_leaf_is_unknown() -> None:
    file = parquet(pa.table({"l": [[1]], "s": [{"y": 1}], "x": [1]}))
    bounds = source(file)
    assert bounds.bounds(column("long", "l")) is None
    assert bounds.bounds(column("long", "s")) is None
    assert bounds.bounds(column("long", "absent")) is None
    assert bounds.bounds(nested("long", "x", "y")) is None
    assert bounds.bounds(column(StructType((field("y", "long"),)), "s")) is None
    assert bounds.bounds(column("long", partition=True)) is None


def test_columns_by_field_id() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"PARQUET:field_id": "2"}),
                        pa.field("b", pa.int64(), metadata={"PARQUET:field_id": "1"})])  # fmt: skip
    file = parquet(pa.table([[5], [6]], schema=schema))
    mapped = Column((StructField("x", column("long").type, physical_name="a", field_id=1),))
    found = source(file, by_id=True).bounds(mapped)
    assert found is not None
    assert found.minimum.to_pylist() == [6]
    assert find_leaf(pa.schema([("a", pa.int64())]), mapped, by_id=True) is None


def test_a_schema_that_is_not_the_files_gives_nothing() -> None:
    file = parquet(pa.table({"x": [1], "y": [2]}))
    assert RowGroupBounds(file.metadata, pa.schema([("x", pa.int64())])).bounds(column("long")) is None
