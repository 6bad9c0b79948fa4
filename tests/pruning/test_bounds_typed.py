"""Bounds out of a checkpoint's typed stats, alone and beside the text."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delta_sidecar.predicates.expression import Column
from delta_sidecar.pruning.file_bounds import Bounds, FileBounds, num_records
from delta_sidecar.values.comparison import decimals
from tests.pruning.bounds_tables import column, decimal, nested


def typed_batch(values: pa.Array, texts: list[str | None] | None = None, **leaves: pa.Array) -> pa.RecordBatch:
    """`values` as minimum and maximum of `x`."""
    x = pa.StructArray.from_arrays([values], ["x"])
    parts = {"minValues": x, "maxValues": x, **leaves}
    parsed = pa.StructArray.from_arrays(list(parts.values()), list(parts))
    columns: dict[str, pa.Array] = {"stats_parsed": parsed}
    if texts is not None:
        columns["stats"] = pa.array(texts, pa.string())
    return pa.RecordBatch.from_pydict(columns)


def found(of: Column, batch: pa.RecordBatch) -> Bounds:
    bounds = FileBounds(batch, [of]).bounds(of)
    assert bounds is not None
    return bounds


def test_per_row_and_leaf_the_typed_one_then_the_text_then_unknown() -> None:
    texts = [
        '{"minValues":{"x":7},"maxValues":{"x":9},"nullCount":{"x":2},"numRecords":5}',
        '{"minValues":{"x":8}}',
        None,
    ]
    bounds = found(column("long"), typed_batch(pa.array([1, None, None], pa.int64()), texts))
    assert bounds.minimum.to_pylist() == [1, 8, None]
    assert bounds.maximum.to_pylist() == [1, None, None]
    assert bounds.null_count.to_pylist() == [2, None, None]
    assert bounds.num_records.to_pylist() == [5, None, None]


def test_the_text_is_read_only_where_a_typed_leaf_is_missing() -> None:
    counts = pa.StructArray.from_arrays([pa.array([0, 0], pa.int64())], ["x"])
    records = pa.array([3, 3], pa.int64())
    values = pa.array([1, None], pa.int64())
    texts = ['{"minValues":{"x":100}}', '{"minValues":{"x":8},"numRecords":99}']
    bounds = found(column("long"), typed_batch(values, texts, nullCount=counts, numRecords=records))
    assert bounds.minimum.to_pylist() == [1, 8]
    assert bounds.maximum.to_pylist() == [1, None]
    assert bounds.num_records.to_pylist() == [3, 3]


def test_complete_typed_stats_never_touch_the_text() -> None:
    counts = pa.StructArray.from_arrays([pa.array([0], pa.int64())], ["x"])
    batch = typed_batch(pa.array([1], pa.int64()), ["not read"], nullCount=counts, numRecords=pa.array([3], pa.int64()))
    bounds = FileBounds(batch, [column("long")])
    assert bounds._json is None
    assert bounds.bounds(column("long")).null_count.to_pylist() == [0]  # type: ignore[union-attr]


def test_a_null_struct_is_unknown_leaf_by_leaf() -> None:
    inner = pa.StructArray.from_arrays([pa.array([1, 2])], ["b"], mask=pa.array([False, True]))
    outer = pa.StructArray.from_arrays([inner], ["a"])
    parsed = pa.StructArray.from_arrays([outer], ["minValues"])
    bounds = found(nested("long", "a", "b"), pa.RecordBatch.from_pydict({"stats_parsed": parsed}))
    assert bounds.minimum.to_pylist() == [1, None]
    assert bounds.maximum.to_pylist() == [None, None]


def test_sliced_batches() -> None:
    batch = typed_batch(pa.array([1, 2, None, 4], pa.int64()))
    assert found(column("long"), batch.slice(1, 2)).minimum.to_pylist() == [2, None]


US = pa.timestamp("us")
LEGAL: list[tuple[pa.Array, Any, Any, Any]] = [
    (pa.array([7], pa.int8()), "short", 7, 7),
    (pa.array([7], pa.int16()), "integer", 7, 7),
    (pa.array([7], pa.int32()), "long", 7, 7),
    (pa.array([7], pa.int32()), "double", 7.0, 7.0),
    (pa.array([0.1], pa.float32()), "double", float(np.float32(0.1)), float(np.float32(0.1))),
    (pa.array([0.1], pa.float32()), "float", float(np.float32(0.1)), float(np.float32(0.1))),
    (pa.array([7], pa.int32()), decimal(12, 2), Decimal("7.00"), Decimal("7.00")),
    (pa.array([Decimal("1.5")], pa.decimal128(3, 1)), decimal(5, 2), Decimal("1.50"), Decimal("1.50")),
    (pa.array(["é"], pa.string()), "string", "é".encode(), "é".encode()),
    (pa.array([3], pa.int32()).cast(pa.date32()), "date", 3, 3),
    (pa.array([1], pa.int32()).cast(pa.date32()), "timestamp_ntz", 86_400_000_000, 86_400_001_000),
    (pa.array([5000], US), "timestamp_ntz", 5000, 6000),
    (pa.array([-5000], US), "timestamp_ntz", -6000, -4000),
    (pa.array([5000], pa.timestamp("us", "UTC")), "timestamp", 5000, 6000),
    (pa.array([5000], US), "timestamp", 5000, 6000),
    (pa.array([5], pa.timestamp("ms", "UTC")), "timestamp", 5000, 6000),
    (pa.array([5_000_001], pa.timestamp("ns", "UTC")), "timestamp", 5000, 6001),
    (pa.array([2**63 - 1], US), "timestamp_ntz", 2**63 - 1, 2**63 - 1),
]
ILLEGAL: list[tuple[pa.Array, Any]] = [
    (pa.array(["7"], pa.string()), "long"),
    (pa.array([7.0], pa.float64()), "long"),
    (pa.array([7.0], pa.float64()), "float"),
    (pa.array([7], pa.int64()), "double"),
    (pa.array([7], pa.int64()), "string"),
    (pa.array([float("nan")]), "double"),
    (pa.array([Decimal("1.55")], pa.decimal128(3, 2)), decimal(5, 1)),
    (pa.array([Decimal(1234)], pa.decimal128(4, 0)), decimal(5, 2)),
    (decimals([-(10**5)], pa.decimal128(5, 2)), decimal(5, 2)),
    (decimals([10**38], pa.decimal128(38, 10)), decimal(38, 10)),
    (pa.array([5], pa.timestamp("us", "UTC")), "timestamp_ntz"),
    (pa.array([5], pa.timestamp("ns")), "timestamp"),
    (pa.array([2**62], pa.timestamp("s", "UTC")), "timestamp"),
    (pa.array([2**31 - 1], pa.int32()).cast(pa.date32()), "timestamp_ntz"),
    (pa.array([5], US), "date"),
    (pa.array([True]), "boolean"),
]


@pytest.mark.parametrize(("values", "kind", "low", "high"), LEGAL)
def test_legal_widenings(values: pa.Array, kind: Any, low: Any, high: Any) -> None:
    bounds = found(column(kind), typed_batch(values))
    assert (bounds.minimum[0].as_py(), bounds.maximum[0].as_py()) == (low, high)


@pytest.mark.parametrize(("values", "kind"), ILLEGAL)
def test_other_types_are_unknown(values: pa.Array, kind: Any) -> None:
    bounds = found(column(kind), typed_batch(values))
    assert (bounds.minimum[0].as_py(), bounds.maximum[0].as_py()) == (None, None)


@pytest.mark.parametrize("stored", [pa.float32(), pa.float64()])
def test_a_typed_double_that_was_a_float_is_widened_as_its_text(stored: pa.DataType) -> None:
    changed = column("double", metadata={"delta.typeChanges": [{"fromType": "float", "toType": "double"}]})
    bounds = found(changed, typed_batch(pa.array([0.1], stored)))
    nearest = np.float32(0.1)
    around = [float(np.nextafter(nearest, np.float32(to))) for to in (0, 1)]
    assert [bounds.minimum[0].as_py(), bounds.maximum[0].as_py()] == around


def test_long_typed_decimals_are_widened() -> None:
    value = Decimal("90071992547409.92")
    bounds = found(column(decimal(16, 2)), typed_batch(pa.array([value], pa.decimal128(16, 2))))
    assert bounds.minimum[0].as_py() < value < bounds.maximum[0].as_py()


def test_an_unusable_typed_leaf_leaves_the_text() -> None:
    bounds = found(column("long"), typed_batch(pa.array(["7"]), ['{"minValues":{"x":7}}']))
    assert bounds.minimum[0].as_py() == 7


def test_num_records_typed_then_text() -> None:
    parsed = pa.StructArray.from_arrays([pa.array([1, None, None], pa.int64())], ["numRecords"])
    texts = pa.array(['{"numRecords":9}', '{"numRecords":2}', None])
    assert num_records(texts, parsed).to_pylist() == [1, 2, None]
    assert num_records(texts).to_pylist() == [9, 2, None]


def test_pandas_is_never_imported() -> None:
    code = """
import sys, pyarrow as pa
from delta_sidecar import arrays
from delta_sidecar.log.file_schema import STRING_MAP
from delta_sidecar.values.types import DecimalType, PrimitiveType, StructField
from delta_sidecar.pruning.file_bounds import FileBounds
from delta_sidecar.predicates.expression import And, Column, Compare, In, IsNull, Like, Not
from delta_sidecar.pruning.may_match import may_match
from decimal import Decimal
def col(name, kind, partition=False):
    return Column((StructField(name, kind, physical_name=name),), partition)
kinds = {"l": "long", "d": "double", "s": "string", "t": "timestamp", "a": "date", "b": "boolean"}
cols = {n: col(n, PrimitiveType(k)) for n, k in kinds.items()} | {"m": col("m", DecimalType(20, 2))}
p = col("p", PrimitiveType("timestamp"), True)
text = ('{"numRecords":1,"minValues":{"l":1,"d":1.5,"s":"a","t":"2026-01-01T00:00:00Z","a":"2026-01-01","m":1.25},'
        '"maxValues":{"l":1,"d":1.5,"s":"a","t":"odd","a":"odd","m":1.25},"nullCount":{"l":0}}')
maps = pa.MapArray.from_arrays(arrays.list_offsets(__import__("numpy").array([1, 1], "i4")),
    arrays.strings(["p", "p"]), arrays.strings(["2026-01-01 00:00:00", ""])).cast(STRING_MAP)
batch = pa.RecordBatch.from_arrays([arrays.strings([text, None]), maps], ["stats", "partition_values"])
v = {"l": 1, "d": 1.5, "s": "a", "t": 1767225600000000, "a": 20454, "b": True, "m": Decimal("1.25")}
terms = [t for n, c in cols.items() for t in (Compare(c, ">=", v[n]), In(c, (v[n],)), Not(IsNull(c)), Not(In(c,
(v[n],))))]
terms += [Compare(p, "=", 1767225600000000), Like(cols["s"], "a%")]
source = FileBounds(batch, [*cols.values(), p])
for term in terms:
    assert len(may_match(term, source, 2)) == 2
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
