"""A filter of Spark is translated weakly: no row that Spark keeps is left out, whatever the filter."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from delta_sidecar.engines.spark.pushed_filters import implied_by
from delta_sidecar.predicates.binding import Binder
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.values.types import StructType, parse_schema

COLUMNS = {
    "i": "integer",
    "x": "double",
    "f": "float",
    "s": "string",
    "p": "string",
    "d": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
    "n": "decimal(10,2)",
    "raw": "binary",
    "flag": "boolean",
}


def schema_of(columns: dict[str, str], metadata: dict[str, Any] | None = None) -> StructType:
    import json

    fields = [{"name": n, "type": t, "nullable": True, "metadata": metadata or {}} for n, t in columns.items()]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}))


BINDER = Binder(schema_of(COLUMNS), frozenset({"p"}))
VALUES: dict[str, list[Any]] = {
    "i": [-(2**31), -1, 0, 7, 2**31 - 1],
    "x": [-math.inf, -1.5, -0.0, 0.0, 0.1, 2.0, math.inf, math.nan],
    "f": [-1.5, 0.0, 0.5, math.inf, math.nan],
    "s": ["", "a", "ab%c", "a_b", "ab\\", "b", "ÿ🦆"],
    "p": ["a", "ab%c", "z"],
    "d": [date(1, 1, 1), date(1969, 12, 31), date(2026, 2, 10)],
    "ts": [datetime(1, 1, 2, tzinfo=UTC), datetime(2026, 2, 10, 22, 0, 0, 1, tzinfo=UTC)],
    "ntz": [datetime(1, 1, 2), datetime(2026, 2, 10, 22)],
    "n": [Decimal("-1.50"), Decimal("0.00"), Decimal("99999999.99")],
    "raw": [b"", b"\x00", b"\xff\x00"],
    "flag": [False, True],
}


def batch() -> pa.RecordBatch:
    """A row for every value of every column; the other columns are null in it."""
    types = BINDER.schema.to_arrow()
    rows = [{name: value} for name, values in VALUES.items() for value in values] + [{}]
    return pa.RecordBatch.from_pylist([dict.fromkeys(COLUMNS) | row for row in rows], schema=types)


ROWS = batch()


def spark_keeps(spark_filter: Any, value: Any) -> bool:
    """Whether the filter is true of a value, as Spark has it: NaN equals itself and is above all numbers."""
    if isinstance(spark_filter, Not):
        return _truth(spark_filter.child, value) is False
    return _truth(spark_filter, value) is True


def _truth(spark_filter: Any, value: Any) -> bool | None:
    match spark_filter:
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe(value=other) if value is None or other is None:
            return value is other
        case In(value=others):
            if value is None:
                return None
            hit = any(o is not None and _order(o) == _order(value) for o in others)
            return True if hit else None if None in others else False
        case StringStartsWith(value=text):
            return None if value is None else value.startswith(text)
        case StringEndsWith(value=text):
            return None if value is None else value.endswith(text)
        case StringContains(value=text):
            return None if value is None else text in value
    if value is None or spark_filter.value is None:
        return None
    left, right = _order(value), _order(spark_filter.value)
    compared: dict[type, Callable[[], bool]] = {
        EqualTo: lambda: left == right,
        EqualNullSafe: lambda: left == right,
        GreaterThan: lambda: left > right,
        GreaterThanOrEqual: lambda: left >= right,
        LessThan: lambda: left < right,
        LessThanOrEqual: lambda: left <= right,
    }
    return compared[type(spark_filter)]()


def _order(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


@st.composite
def filters(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    values = [*VALUES[name], *(["", "nope"] if name == "p" else [])]
    value = st.sampled_from([*values, None])
    kinds = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In, IsNull, IsNotNull]
    kinds += [StringStartsWith, StringEndsWith, StringContains] if COLUMNS[name] == "string" else []
    kind = draw(st.sampled_from(kinds))
    if kind in (IsNull, IsNotNull):
        made: Filter = kind((name,))
    elif kind is In:
        made = In((name,), tuple(draw(st.lists(value, min_size=1, max_size=4))))
    elif kind in (StringStartsWith, StringEndsWith, StringContains):
        made = kind((name,), draw(st.sampled_from([v for v in values if v is not None])))
    else:
        made = kind((name,), draw(value))
    return Not(made) if draw(st.booleans()) else made


@given(st.lists(filters(), min_size=1, max_size=3))
def test_no_row_that_spark_keeps_is_left_out(pushed: list[Filter]) -> None:
    implied = implied_by(pushed, BINDER)
    if implied is None:
        return
    kept = matching(implied, ROWS).to_pylist()
    for row, keep in zip(ROWS.to_pylist(), kept, strict=True):
        wanted = all(spark_keeps(f, row[_inner(f).attribute[0]]) for f in pushed)
        assert keep or not wanted, (pushed, row)


def _inner(spark_filter: Any) -> Any:
    return spark_filter.child if isinstance(spark_filter, Not) else spark_filter


MOMENT = datetime(2026, 2, 10, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pushed", "expected"),
    [
        (EqualTo(("i",), 7), "i = 7"),
        (Not(EqualTo(("i",), 7)), "i != 7"),
        (Not(GreaterThan(("i",), 7)), "i <= 7"),
        (In(("s",), ("a", None)), "s = 'a'"),
        (StringStartsWith(("s",), "a%"), r"s LIKE 'a\\%%'"),
        (IsNotNull(("d",)), "NOT (d IS NULL)"),
        (GreaterThanOrEqual(("ts",), MOMENT), "ts >= '2026-02-10T22:00:00Z'"),
        (EqualTo(("p",), ""), "p = ''"),
        (LessThan(("x",), 1.5), "x < 1.5"),
        # Spark holds NaN larger than every number, and equal to itself.
        (GreaterThan(("x",), 1.5), None),
        (Not(LessThan(("x",), 1.5)), None),
        (EqualTo(("x",), math.nan), None),
        (Not(EqualNullSafe(("i",), 7)), None),
        # Not of the column's type: Spark compares by rules of its own.
        (EqualTo(("ts",), MOMENT.replace(tzinfo=None)), None),
        (EqualTo(("d",), MOMENT), None),
        (EqualTo(("i",), True), None),
        (EqualTo(("i",), [1, 2]), None),
        (EqualTo(("nope",), 1), None),
    ],
    ids=str,
)
def test_a_filter_becomes_a_condition_or_nothing(pushed: Filter, expected: str | None) -> None:
    implied = implied_by([pushed], BINDER)
    assert (None if implied is None else str(implied)) == expected


def test_what_is_understood_of_several_filters_counts() -> None:
    implied = implied_by([EqualTo(("i",), 7), GreaterThan(("x",), 1.0), IsNotNull(("s",))], BINDER)
    assert str(implied) == "(i = 7) AND (NOT (s IS NULL))"


@pytest.mark.parametrize(
    "metadata", [{"__COLLATIONS": {"c": "icu.UNICODE_CI"}}, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}]
)
def test_texts_that_spark_compares_by_other_rules_are_left_to_it(metadata: dict[str, Any]) -> None:
    binder = Binder(schema_of({"c": "string"}, metadata), frozenset())
    assert implied_by([EqualTo(("c",), "a")], binder) is None
