"""Bounds out of the stats text."""

from __future__ import annotations

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from delta_sidecar.pruning.file_bounds import FileBounds, num_records
from tests.pruning.bounds_tables import bounds_of, column, decimal, min_max, nested, stats_batch

INT64 = 2**63


def micros(text: str) -> int:
    return int(np.datetime64(text, "us").astype(np.int64))


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "null",
        "7",
        '"x"',
        "{}",
        '{"minValues":null}',
        '{"minValues":[1]}',
        '{"minValues":{"x":null}}',
        '{"minValues":{"x":1}',
        '{"minValues":{"x":{"y":1}}}',
        '{"minValues":{"x":1}} trailing',
        '{"minValues":{"y":1}}',
    ],
)
def test_what_cannot_be_read_is_unknown(text: str | None) -> None:
    found = bounds_of(
        column("long"), text, '{"numRecords":3,"minValues":{"x":1},"maxValues":{"x":2},"nullCount":{"x":0}}'
    )
    assert found.minimum.to_pylist() == [None, 1]
    assert found.maximum.to_pylist() == [None, 2]
    assert found.null_count.to_pylist() == [None, 0]
    assert found.num_records.to_pylist() == [None, 3]


def test_one_bad_leaf_leaves_the_others_known() -> None:
    text = '{"numRecords":7,"minValues":{"x":"a"},"maxValues":{"x":9},"nullCount":{"x":1.5}}'
    found = bounds_of(column("long"), text)
    assert [found.minimum[0].as_py(), found.maximum[0].as_py()] == [None, 9]
    assert [found.null_count[0].as_py(), found.num_records[0].as_py()] == [None, 7]


def test_negative_counts_are_unknown() -> None:
    found = bounds_of(column("long"), '{"numRecords":-1,"nullCount":{"x":-1}}')
    assert [found.null_count[0].as_py(), found.num_records[0].as_py()] == [None, None]


@pytest.mark.parametrize("text", ["1.5", "1.0", '"1"', "true", str(INT64), str(-INT64 - 1), "1e3"])
def test_longs_that_are_not_longs_are_unknown(text: str) -> None:
    assert min_max(column("long"), text) == (None, None)


def test_longs_at_the_ends_of_their_range() -> None:
    assert min_max(column("long"), str(-INT64), str(INT64 - 1)) == (-INT64, INT64 - 1)


@pytest.mark.parametrize("value", [0.5, -2.25, 0.0])
def test_a_float_that_is_exact_is_not_widened(value: float) -> None:
    assert min_max(column("float"), repr(value)) == (value, value)


@pytest.mark.parametrize(
    "value", [np.float32(0.1), np.float32(-0.1), np.float32(16777216), np.float32(1.4e-45), np.float32(3.4e38)]
)
def test_the_text_of_a_float_stands_for_it(value: np.float32) -> None:
    assert min_max(column("float"), str(value)) == (float(value), float(value))


def test_a_number_beyond_the_floats_is_no_bound_of_one() -> None:
    assert min_max(column("float"), "-1e39", "1e39") == (None, None)


def test_special_floats() -> None:
    assert min_max(column("double"), '"NaN"') == (None, None)
    assert min_max(column("double"), '"-Infinity"', '"Infinity"') == (-np.inf, np.inf)
    assert min_max(column("float"), '"-Infinity"', '"Infinity"') == (-np.inf, np.inf)
    assert min_max(column("double"), "1e400", '"1"') == (None, None)
    assert min_max(column("double"), "5") == (5.0, 5.0)
    assert min_max(column("double"), "0.1") == (0.1, 0.1)


@pytest.mark.parametrize("changes", [[{"fromType": "float", "toType": "double"}], "unreadable"])
def test_a_double_that_was_a_float_reaches_to_the_floats_around(changes: object) -> None:
    nearest = np.float32(0.1)
    around = tuple(float(np.nextafter(nearest, np.float32(to))) for to in (0, 1))
    for text in ("0.1", repr(float(nearest))):
        assert min_max(column("double", metadata={"delta.typeChanges": changes}), text) == around
    low, high = min_max(column("double", metadata={"delta.typeChanges": changes}), "1e300")
    assert low <= 1e300 == high


def test_a_double_that_was_an_integer_is_not_widened() -> None:
    changes = {"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]}
    assert min_max(column("double", metadata=changes), "0.1") == (0.1, 0.1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.25", "1.25"),
        ("125e-2", "1.25"),
        ("-1.5E+2", "-150"),
        ('"1.25"', "1.25"),
        ("0", "0"),
        ("0e-999999", "0"),
        ("7", "7"),
    ],
)
def test_decimals_are_exact(text: str, value: str) -> None:
    assert min_max(column(decimal(5, 2)), text) == (Decimal(value), Decimal(value))


def test_decimals_with_more_digits_round_outwards() -> None:
    assert min_max(column(decimal(5, 2)), "1.2567") == (Decimal("1.25"), Decimal("1.26"))
    assert min_max(column(decimal(5, 2)), "-1.2567") == (Decimal("-1.26"), Decimal("-1.25"))


@pytest.mark.parametrize("text", ["1000", "1e999999", "1e30", '"NaN"', '"Infinity"', "true", '"x"'])
def test_decimals_that_do_not_fit_are_unknown(text: str) -> None:
    assert min_max(column(decimal(5, 2)), text) == (None, None)


def test_long_decimals_are_widened_by_what_a_double_loses() -> None:
    low, high = min_max(column(decimal(16, 2)), "90071992547409.92")
    assert low < Decimal("90071992547409.92")
    assert high >= Decimal("90071992547409.93")
    assert high - low < Decimal("0.4")
    assert min_max(column(decimal(15, 2)), "9007199254740.92")[1] == Decimal("9007199254740.92")


def test_a_decimal_that_a_writer_rounded_several_times_is_within_its_bounds() -> None:
    """The largest error seen: 1.95 times 2⁻⁵² of the value."""
    written, value = Decimal("-417058756172880.6"), Decimal("-417058756172880.71274")
    assert min_max(column(decimal(20, 5)), str(written))[0] < value
    low, high = min_max(column(decimal(38, 0)), str(10**37))
    assert high - low >= 4 * 10**37 // 2**51


@pytest.mark.parametrize("scale", [0, 4])
def test_a_bound_at_the_end_of_64_bits_may_stand_for_any_beyond_it(scale: int) -> None:
    kind, (least, most) = decimal(38, scale), (-(2**63), 2**63 - 1)
    top = Decimal("9" * (38 - scale) + "." + "9" * scale)
    assert min_max(column(kind), str(least), str(most)) == (top.copy_negate(), top)
    low, high = min_max(column(kind), str(most), str(least))
    assert top.copy_negate() < high < least + 10**5
    assert most - 10**5 < low < top


def test_a_widened_decimal_stays_in_its_type() -> None:
    top = "9" * 38
    assert min_max(column(decimal(38, 0)), f"-{top}", top) == (Decimal("-" + top), Decimal(top))


def test_strings_are_bytes() -> None:
    assert min_max(column("string"), '"a\\u00e9"', '"\\ud83d\\ude00"') == ("aé".encode(), "😀".encode())
    assert min_max(column("string"), "1", "null") == (None, None)


@pytest.mark.parametrize("kind", ["boolean", "binary"])
def test_boolean_and_binary_have_no_bounds_but_null_counts(kind: str) -> None:
    text = '{"numRecords":2,"minValues":{"x":"a"},"maxValues":{"x":"a"},"nullCount":{"x":0}}'
    found = bounds_of(column(kind), text)
    assert (found.minimum[0].as_py(), found.maximum[0].as_py(), found.null_count[0].as_py()) == (None, None, 0)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-02", 1),
        ("0001-01-01", -719162),
        ("9999-12-31", 2932896),
        ("2024-02-29", 19782),
        ("2023-02-29", None),
        ("2024-2-1", None),
        ("2024-02-01T00:00:00", None),
        ("+10000-01-01", None),
        ("1900-02-29", None),
        ("2024-13-01", None),
    ],
)
@pytest.mark.parametrize("other", ["1970-01-01", "no date"])
def test_dates(text: str, days: int | None, other: str) -> None:
    rows = [json.dumps({"minValues": {"x": t}}) for t in (text, other)]
    assert bounds_of(column("date"), *rows).minimum[0].as_py() == days


ZONED = [
    ("2026-02-10T22:00:00.123Z", micros("2026-02-10T22:00:00.123")),
    ("2026-02-10T22:00:00.123-08:00", micros("2026-02-11T06:00:00.123")),
    ("2026-02-10T22:00:00+05:30", micros("2026-02-10T16:30")),
    ("2026-02-10T22:00:00.123456+00:00", micros("2026-02-10T22:00:00.123456")),
    ("2026-02-10 22:00:00Z", micros("2026-02-10T22:00:00")),
    ("1883-11-18T00:00:00.000-07:52:58", micros("1883-11-18T07:52:58")),
    ("2026-02-10T22:00:00.123456789Z", micros("2026-02-10T22:00:00.123456")),
    ("+12026-02-10T22:00:00.000Z", micros("12026-02-10T22:00:00")),
    ("0001-01-01T00:00:00.000Z", micros("0001-01-01")),
    ("-0001-01-01T00:00:00.000Z", micros("-0001-01-01")),
    ("2026-02-10T22:00:00.123", None),
    ("2026-02-10", None),
    ("2026-02-30T22:00:00Z", None),
    ("2026-02-10T24:00:00Z", None),
    ("+299999-01-01T00:00:00Z", None),
    ("yesterday", None),
]
WALL = [
    ("2026-02-10T22:00:00.123", micros("2026-02-10T22:00:00.123")),
    ("2026-02-10 22:00:00.123", micros("2026-02-10T22:00:00.123")),
    ("2026-02-10", micros("2026-02-10")),
    ("2026-02-10T22:00:00Z", micros("2026-02-10T22:00:00")),
    ("2026-02-10T22:00:00+01:00", None),
]


@pytest.mark.parametrize(
    ("kind", "text", "value"), [("timestamp", *c) for c in ZONED] + [("timestamp_ntz", *c) for c in WALL]
)
@pytest.mark.parametrize("other", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "no timestamp"])
def test_timestamps_are_read_and_widened(kind: str, text: str, value: int | None, other: str) -> None:
    found = bounds_of(
        column(kind), *[json.dumps({"minValues": {"x": t}, "maxValues": {"x": t}}) for t in (text, other)]
    )
    low = None if value is None else value - (1000 if value <= 0 else 0)
    assert found.minimum[0].as_py() == low
    assert found.maximum[0].as_py() == (None if value is None else value + 1000)


def test_a_minimum_cut_towards_1970_is_widened() -> None:
    assert min_max(column("timestamp"), '"1970-01-01T00:00:00.000Z"') == (-1000, 1000)
    assert min_max(column("timestamp"), '"1970-01-01T00:00:00.001Z"') == (1000, 2000)


def test_widening_saturates() -> None:
    assert min_max(column("timestamp"), '"+294247-01-10T04:00:54.775Z"') == (INT64 - 807 - 1, INT64 - 1)


def test_nested_leaves_and_odd_names() -> None:
    inner = nested("long", "a", "b.c", "type")
    text = {
        "numRecords": 2,
        "minValues": {"a": {"b.c": {"type": 3}}},
        "maxValues": {"a": {"b.c": {"type": 4}}},
        "nullCount": {"a": {"b.c": {"type": 1}}},
    }
    found = bounds_of(inner, json.dumps(text), '{"minValues":{"a.b.c.type":1,"a":{"b.c":7}}}')
    assert found.minimum.to_pylist() == [3, None]
    assert found.maximum.to_pylist() == [4, None]
    assert found.null_count.to_pylist() == [1, None]


def test_stats_are_keyed_by_physical_name() -> None:
    mapped = column("long", physical="col-1f")
    assert bounds_of(mapped, '{"minValues":{"x":1,"col-1f":2}}').minimum[0].as_py() == 2


def test_the_last_of_two_equal_keys_counts() -> None:
    assert bounds_of(column("long"), '{"minValues":{"x":5,"x":1}}').minimum[0].as_py() == 1


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_sliced_arrays_of_every_string_type(kind: pa.DataType) -> None:
    texts = pa.array(["{", None, '{"numRecords":4}', '{"numRecords":5}'], pa.string()).cast(kind)
    assert num_records(texts[1:3]).to_pylist() == [None, 4]
    assert num_records(texts[:0]).to_pylist() == []


def test_more_rows_than_one_chunk() -> None:
    texts = pa.array([f'{{"numRecords":{i}}}' if i % 7 else None for i in range(20_000)])
    assert num_records(texts).to_pylist() == [i if i % 7 else None for i in range(20_000)]


def test_no_stats_column_is_unknown() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(["p"])], ["path"])
    found = FileBounds(batch, [column("long")]).bounds(column("long"))
    assert found is not None
    assert [found.minimum.to_pylist(), found.null_count.to_pylist()] == [[None], [None]]


@pytest.mark.parametrize("kind", ["long", "double", "string", "date", "timestamp", decimal(20, 2), "boolean"])
def test_an_empty_batch(kind: object) -> None:
    of = column(kind)  # type: ignore[arg-type]
    found = FileBounds(stats_batch([]), [of]).bounds(of)
    assert found is not None
    assert len(found.minimum) == 0


def test_a_column_that_was_not_announced_is_unknown() -> None:
    assert FileBounds(stats_batch(["{}"]), [column("long")]).bounds(column("long", "other")) is None


@pytest.mark.parametrize("metadata", [{}, {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}])
def test_the_greatest_float_is_widened_without_a_warning(metadata: dict[str, object]) -> None:
    """The next float is infinite."""
    of = column("double" if metadata else "float", metadata=metadata)
    greatest = float(np.finfo(np.float32).max)
    for text in ("3.4028235E38", "3.4028234E38", "3.40282346638528859e38", "1e-46"):
        low, high = min_max(of, f"-{text}", text)
        assert high >= float(np.float32(text))
        assert low <= -float(np.float32(text))
    for text in ("1e39", "1.7976931348623157e308"):
        assert min_max(of, f"-{text}", text) == ((-float(text), float(text)) if metadata else (None, None))
    assert min_max(of, "3.4028235E38")[0] <= greatest
