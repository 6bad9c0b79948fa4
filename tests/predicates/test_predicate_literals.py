"""A comparison with a literal the type cannot hold selects what exact arithmetic selects."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.errors import OptionError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.expression import Compare
from delta_sidecar.predicates.literals import Day, Instant, parse_instant
from delta_sidecar.values.calendar import date_of, days_of
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType
from tests.predicates.predicate_tables import field, struct

OPERATORS = ["=", "!=", "<", "<=", ">", ">="]


def selected(literal: str, op: str, data_type: DataType, values: list[Any]) -> list[bool | None]:
    schema = struct(field("x", data_type))
    expression = bind_predicate(f"x {op} {literal}", schema, [])
    assert expression is not None
    batch = pa.RecordBatch.from_pydict({"x": values}, schema=schema.to_arrow())
    return list(matching(expression, batch).to_pylist())


def expected(exact: Any, op: str, values: list[Any]) -> list[bool | None]:
    compare = {
        "=": lambda a: a == exact,
        "!=": lambda a: a != exact,
        "<": lambda a: a < exact,
        "<=": lambda a: a <= exact,
        ">": lambda a: a > exact,
        ">=": lambda a: a >= exact,
    }[op]
    return [None if value is None else compare(value) for value in values]


NUMBERS = st.one_of(
    st.integers(-300, 300).map(str),
    st.decimals(-300, 300, places=3).map(str),
    st.sampled_from(
        ["1e400", "-1e400", "1e-400", "-1e-400", "127.5", "-128.5", "128", "-129", "99.995", "1e30", "-1e30"]
    ),
)


@given(NUMBERS, st.sampled_from(OPERATORS))
def test_integers(literal: str, op: str) -> None:
    values = [None, -128, -127, -1, 0, 1, 126, 127, max(-128, min(127, math.floor(Decimal(literal))))]
    assert selected(literal, op, PrimitiveType("byte"), values) == expected(Decimal(literal), op, values)


@given(NUMBERS, st.sampled_from(OPERATORS))
def test_decimals(literal: str, op: str) -> None:
    exact = Decimal(literal)
    near = [Decimal(round(max(-9999, min(9999, exact * 100))) + i).scaleb(-2) for i in (-1, 0, 1)]
    values = [None, Decimal("-99.99"), Decimal("0.00"), Decimal("99.99"), *(v for v in near if abs(v) < 100)]
    assert selected(literal, op, DecimalType(4, 2), values) == expected(exact, op, values)


@given(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
        st.sampled_from(["0.1", "16777217", "3.5e38", "-3.5e38", "1e-50", "-1e-50", "1e400", "-1e400", "3.4028235e38"]),
    ),
    st.sampled_from(OPERATORS),
)
def test_a_float_column_is_compared_as_doubles(literal: str, op: str) -> None:
    with np.errstate(all="ignore"):
        nearest, infinity = np.float32(float(literal)), np.float32(np.inf)
        near = [np.nextafter(nearest, -infinity), nearest, np.nextafter(nearest, infinity)]
    values = [None, math.inf, -math.inf, 0.0, -0.0, *(float(v) for v in near)]
    exact = Fraction(Decimal(literal)) if math.isinf(float(literal)) else float(literal)
    assert selected(literal, op, PrimitiveType("float"), values) == expected(exact, op, values)


@pytest.mark.parametrize("op", OPERATORS)
def test_a_number_beyond_every_double_is_not_infinity(op: str) -> None:
    values = [None, 1.0, math.inf, -math.inf, 1.7976931348623157e308]
    for literal in ("1e400", "-1e400"):
        exact = Fraction(Decimal(literal))
        assert selected(literal, op, PrimitiveType("double"), values) == expected(exact, op, values)


@pytest.mark.parametrize("name", ["float", "double"])
def test_nan_and_infinity(name: str) -> None:
    values = [None, 1.0, math.inf, -math.inf, math.nan]
    for literal in ("'NaN'", "CAST('nan' AS DOUBLE)", "-CAST('NaN' AS FLOAT)"):
        assert selected(literal, "=", PrimitiveType(name), values) == [None] + [False] * 4
        assert selected(literal, "<", PrimitiveType(name), values) == [None] + [False] * 4
        assert selected(literal, "!=", PrimitiveType(name), values) == [None] + [True] * 4
    assert selected("'Infinity'", "=", PrimitiveType(name), values) == [None, False, True, False, False]
    assert selected("'-inf'", "<", PrimitiveType(name), values) == [None, False, False, False, False]
    assert selected("CAST('-Infinity' AS DOUBLE)", "<=", PrimitiveType(name), values) == [
        None,
        False,
        False,
        True,
        False,
    ]


def test_infinity_on_types_without_one() -> None:
    values = [None, -(2**63), 2**63 - 1]
    assert selected("'Infinity'", "<", PrimitiveType("long"), values) == [None, True, True]
    assert selected("'Infinity'", ">=", PrimitiveType("long"), values) == [None, False, False]
    assert selected("'-Infinity'", ">", PrimitiveType("long"), values) == [None, True, True]
    assert selected("'NaN'", "!=", PrimitiveType("long"), values) == [None, True, True]


def test_a_string_is_read_as_a_float_of_the_column() -> None:
    values = [np.float32(0.1), np.float32(0.2)]
    assert selected("'0.1'", "=", PrimitiveType("float"), values) == [True, False]
    assert selected("0.1", "=", PrimitiveType("float"), values) == [False, False]
    assert selected("CAST(0.1 AS FLOAT)", "=", PrimitiveType("float"), values) == [True, False]


EPOCH = datetime(1970, 1, 1)
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))


@given(MOMENTS, st.text("0123456789", max_size=9), st.sampled_from("T "), st.integers(-64800, 64800), st.booleans())
def test_timestamps(moment: datetime, digits: str, separator: str, offset: int, zoned: bool) -> None:
    """Every form of a zone, any number of digits: the instant is exact, or just above its floor."""
    text = moment.strftime(f"%Y-%m-%d{separator}%H:%M:%S").rjust(19, "0") + (f".{digits}" if digits else "")
    if zoned:
        hours, rest = divmod(abs(offset), 3600)
        text += f"{'-' if offset < 0 else '+'}{hours:02}:{rest // 60:02}:{rest % 60:02}"
    whole = (moment.replace(microsecond=0) - EPOCH) // timedelta(microseconds=1) - (offset * 10**6 if zoned else 0)
    exact = Fraction(whole) + Fraction(int(digits or 0) * 10**6, 10 ** len(digits))
    parsed = parse_instant(text)
    assert parsed == Instant(math.floor(exact), exact == math.floor(exact), zoned)


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("1970", Day(0)),
        ("1970-02", Day(31)),
        ("1970-1-2", Day(1)),
        ("0000-01-01", Day(-719528)),
        ("+12345-01-01", Day(days_of(12345, 1, 1))),
        ("-0004-02-29", Day(days_of(-4, 2, 29))),
        (" 1970-01-01 ", Day(0)),
        ("1970-01-01 1:2", Instant(3720 * 10**6)),
        ("1970-01-01T00:00:00z", Instant(0, zoned=True)),
        ("1970-01-01T01:00:00+01", Instant(0, zoned=True)),
        ("1970-01-01T01:00:00 +0100", Instant(0, zoned=True)),
        ("1970-01-01T00:00:00 UTC", Instant(0, zoned=True)),
        ("1970-01-01 00:00:00.0000010", Instant(1)),
        ("1970-01-01 00:00:00.00000101", Instant(1, exact=False)),
    ],
)
def test_forms_of_dates_and_timestamps(text: str, parsed: Day | Instant) -> None:
    assert parse_instant(text) == parsed


@given(st.integers(-(10**7), 10**7))
def test_calendar_is_its_own_inverse(days: int) -> None:
    assert days_of(*date_of(days)) == days


@given(st.dates())
def test_calendar_agrees_with_datetime(day: date) -> None:
    assert days_of(day.year, day.month, day.day) == (day - EPOCH.date()).days


@given(st.datetimes(datetime(1969, 12, 30), datetime(1970, 1, 3)), st.sampled_from(OPERATORS))
def test_a_timestamp_meets_a_date_at_midnight(moment: datetime, op: str) -> None:
    days = [date(1969, 12, 30) + timedelta(days=i) for i in range(5)]
    midnights = [datetime(d.year, d.month, d.day) for d in days]
    literal = f"'{moment.isoformat(sep=' ')}'"
    assert selected(literal, op, PrimitiveType("date"), days) == expected(moment, op, midnights)


@given(st.integers(-3000, 3000), st.sampled_from(OPERATORS))
def test_nanoseconds_meet_microseconds(nanos: int, op: str) -> None:
    seconds, rest = divmod(nanos, 10**9)
    literal = f"TIMESTAMP '{EPOCH + timedelta(seconds=seconds)}.{rest:09}'"
    values = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=i) for i in range(-4, 5)]
    exact = [Fraction(i * 1000) for i in range(-4, 5)]
    assert selected(literal, op, PrimitiveType("timestamp"), values) == expected(Fraction(nanos), op, exact)


@pytest.mark.parametrize(("year", "above"), [("+294248", False), ("-290400", True)])
def test_timestamps_out_of_range(year: str, above: bool) -> None:
    literal = f"'{year}-01-01 00:00:00'"
    values = [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)]
    assert selected(literal, ">=", PrimitiveType("timestamp"), values) == [above, above]
    assert selected(literal, "<", PrimitiveType("timestamp"), values) == [not above, not above]


def test_a_partition_timezone_is_for_partition_columns_without_a_zone() -> None:
    schema = struct(field("p", "timestamp"), field("x", "timestamp"), field("n", "timestamp_ntz"))

    def micros(predicate: Any, zone: str = "America/New_York") -> int:
        bound = bind_predicate(predicate, schema, ["p", "n"], zone)
        assert isinstance(bound, Compare)
        assert isinstance(bound.value, int)
        return bound.value

    hour = 3600 * 10**6
    assert micros("p = '1970-01-01 00:00:00'") == 5 * hour
    assert micros("p = '1970-07-01 00:00:00'") == (181 * 24 + 4) * hour
    assert micros("p = '1970-01-01 00:00:00Z'") == 0
    assert micros("x = '1970-01-01 00:00:00'") == 0
    assert micros("n = '1970-01-01 00:00:00'") == 0
    with pytest.raises(OptionError, match="Nowhere"):
        micros("p = '1970-01-01 00:00:00'", "Nowhere/Land")
