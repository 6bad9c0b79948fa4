"""Typed partition values, for pruning and for rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from delta_sidecar.errors import CorruptDataError, OptionError, UnsupportedTypeError
from delta_sidecar.pruning.file_bounds import FileBounds
from delta_sidecar.values.partition_values import partition_array, partition_column, partition_texts
from delta_sidecar.values.types import UnknownType, arrow_type
from tests.pruning.bounds_tables import column, decimal, partition_batch

Maps = list[Mapping[str, str | None] | None]


def maps(*rows: Mapping[str, str | None] | None) -> pa.MapArray:
    return partition_batch(rows).column(0)


def value(kind: Any, text: str, zone: str = "UTC") -> Any:
    array = partition_array(maps({"x": text}), column(kind, partition=True).fields[0], zone)
    assert array.type == arrow_type(column(kind).type)
    return array[0].as_py()


def test_missing_null_and_empty_are_null() -> None:
    rows = maps({}, {"x": None}, {"x": ""}, None, {"y": "1"}, {"y": "2", "x": "3"})
    found = partition_column(rows, column("long", partition=True).fields[0])
    assert found.values.to_pylist() == [None, None, None, None, None, 3]
    assert found.known.to_pylist() == [True] * 6


def test_the_directory_name_of_null_is_a_value_like_any_other() -> None:
    assert value("string", "__HIVE_DEFAULT_PARTITION__") == "__HIVE_DEFAULT_PARTITION__"


def test_sliced_maps() -> None:
    rows = maps({"x": "1"}, {"y": "0", "x": "2"}, None, {"x": "4"}, {"x": "5"})
    assert partition_texts(rows[1:4], "x").to_pylist() == ["2", None, "4"]
    assert partition_texts(rows[:0], "x").to_pylist() == []


def test_values_are_keyed_by_physical_name() -> None:
    mapped = column("long", partition=True, physical="col-1")
    assert partition_array(maps({"x": "1", "col-1": "2"}), mapped.fields[0]).to_pylist() == [2]


UTC = UTC
READABLE: list[tuple[Any, str, Any]] = [
    ("byte", "-128", -128), ("short", "32767", 32767), ("integer", "-1", -1), ("long", str(2**63 - 1), 2**63 - 1),
    ("float", "0.5", 0.5), ("float", "1e-3", 0.0010000000474974513), ("double", "-1.5E10", -1.5e10),
    ("double", "5", 5.0),
    ("double", "Infinity", math.inf), ("double", "-Infinity", -math.inf), ("float", "1e39", math.inf),
    ("double", "inf", math.inf), ("float", "-inf", -math.inf),
    (decimal(10, 2), "1.5", Decimal("1.50")), (decimal(10, 2), "7", Decimal("7.00")),
    (decimal(10, 2), "1.500", Decimal("1.50")),
    (decimal(10, 2), "-15e-1", Decimal("-1.50")), (decimal(38, 0), "9" * 38, Decimal("9" * 38)),
    ("string", " a ", " a "), ("boolean", "true", True), ("boolean", "FALSE", False), ("binary", "\x01A", b"\x01A"),
    ("date", "2026-02-10", date(2026, 2, 10)),
    ("timestamp", "2026-02-10 22:00:00", datetime(2026, 2, 10, 22, tzinfo=UTC)),
    ("timestamp", "2026-02-10 22:00:00.123456", datetime(2026, 2, 10, 22, 0, 0, 123456, tzinfo=UTC)),
    ("timestamp", "2026-02-10T22:00:00.000000Z", datetime(2026, 2, 10, 22, tzinfo=UTC)),
    ("timestamp", "2026-02-10T22:00:00+02:00", datetime(2026, 2, 10, 20, tzinfo=UTC)),
    ("timestamp_ntz", "2026-02-10 22:00:00.1", datetime(2026, 2, 10, 22, 0, 0, 100000)),
    ("timestamp_ntz", "2026-02-10", datetime(2026, 2, 10)),
]  # fmt: skip
UNREADABLE: list[tuple[Any, str]] = [
    ("byte", "128"), ("long", str(2**63)), ("long", "1.5"), ("long", "1_0"), ("long", " 1"), ("double", "1_0"),
    ("double", "x"), ("double", "+inf"), ("double", "INF"), ("double", "infinity"),
    (decimal(4, 2), "1.555"), (decimal(4, 2), "100"), (decimal(4, 2), "x"), ("boolean", "1"), ("date", "2026-02-30"),
    ("date", "2026-02-10 00:00:00"), ("timestamp", "noon"), ("timestamp", "2026-02-10 22:00:00.1234567"),
    ("timestamp_ntz", "2026-02-10T22:00:00+01:00"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "expected"), READABLE)
def test_readable(kind: Any, text: str, expected: Any) -> None:
    assert value(kind, text) == expected


def test_nan() -> None:
    assert math.isnan(value("double", "NaN"))


@pytest.mark.parametrize(("kind", "text"), UNREADABLE)
def test_unreadable(kind: Any, text: str) -> None:
    of = column(kind, partition=True)
    rows = maps({"x": text}, {"x": None})
    found = partition_column(rows, of.fields[0])
    assert (found.values.to_pylist(), found.known.to_pylist()) == ([None, None], [False, True])
    assert partition_array(rows, of.fields[0], strict=False).to_pylist() == [None, None]
    with pytest.raises(CorruptDataError, match="partition column 'x'") as error:
        partition_array(rows, of.fields[0])
    assert repr(text) in str(error.value)


def test_zoneless_timestamps_are_read_in_the_option() -> None:
    text = "2026-07-01 12:00:00"
    assert value("timestamp", text, "Europe/Berlin") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert value("timestamp", text + "Z", "Europe/Berlin") == datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert value("timestamp_ntz", text, "Europe/Berlin") == datetime(2026, 7, 1, 12)


def test_an_unknown_zone_is_named() -> None:
    with pytest.raises(OptionError, match="Mars/Base"):
        value("timestamp", "2026-07-01 12:00:00", "Mars/Base")


def test_years_outside_python() -> None:
    of = column("timestamp", partition=True)
    rows = maps({"x": "+12026-01-01 00:00:00"})
    assert partition_column(rows, of.fields[0]).values.view(pa.int64()).to_pylist() == [
        int(np.datetime64("12026-01-01", "us").astype(np.int64))
    ]
    assert partition_column(rows, of.fields[0], "Europe/Berlin").known.to_pylist() == [False]


def test_an_unknown_type_cannot_be_read_as_rows() -> None:
    with pytest.raises(UnsupportedTypeError):
        partition_array(maps({"x": "1"}), column(UnknownType("geometry"), partition=True).fields[0])


def test_bounds_are_the_value_itself_never_widened() -> None:
    of = column("timestamp", partition=True)
    batch = partition_batch([{"x": "1970-01-01 00:00:01"}, {"x": None}, {"x": "noon"}])
    found = FileBounds(batch, [of]).bounds(of)
    assert found is not None
    assert found.minimum.to_pylist() == found.maximum.to_pylist() == [1_000_000, None, None]
    assert found.null_count.to_pylist() == [0, 1, None]
    assert found.num_records.to_pylist() == [1, 1, 1]


def test_typed_partition_values_of_a_checkpoint_never_override_the_map() -> None:
    of = column("long", partition=True)
    parsed = pa.StructArray.from_arrays([pa.array([99])], ["x"])
    batch = partition_batch([{"x": "1"}]).append_column("partitionValues_parsed", parsed)
    found = FileBounds(batch, [of]).bounds(of)
    assert found is not None
    assert found.minimum.to_pylist() == [1]
