"""Where a literal is in the order of a column's values.

A type cannot hold every literal: no long is 1.5, no timestamp ends in half a microsecond. So a literal
is placed: at a value, or just above the largest value below it. Comparisons are then rewritten exactly
(`x > 1.5` is `x > 1` on a long), and rows and pruning both see values of the column's own type.

- **Integers, decimals**: numbers are exact, never through a binary float. A float meets a decimal as it prints.
- **double**: a number is rounded to the nearest double, as every engine does.
- **float**: a number is rounded to a double and the column compared as doubles, like Spark and DataFusion
  (deltalake) and unlike DuckDB: `f = 0.1` finds nothing, because no float is the double 0.1. A *string* is
  read as a value of the column's type, so `f = '0.1'` (and a partition filter) finds the float nearest to 0.1.
- **NaN** is equal to nothing and in no order (IEEE): only `!=` and negations match.
- **timestamp**: a literal without zone is UTC; on a partition column it is in `partition_timezone`, like the
  partition values themselves. A date is its midnight.
- **timestamp_ntz**: a literal with a zone or offset is taken to its UTC wall clock, like a TIMESTAMP literal in
  a Spark session that runs in UTC.
- **date**: a timestamp is compared as a timestamp: a day is its midnight.
- **string**: compared as UTF-8 bytes; `=` and `!=` take a number as it is written. `s > 9` is refused: some engines
  compare numbers there, others texts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from typing import NoReturn, TypeVar
from zoneinfo import ZoneInfo

from delta_sidecar.errors import OptionError, PredicateError
from delta_sidecar.predicates.expression import Column, Value
from delta_sidecar.predicates.literals import (
    Boolean,
    Bytes,
    Day,
    Float,
    Instant,
    Literal,
    Number,
    Text,
    parse_boolean,
    parse_instant,
    parse_number,
)
from delta_sidecar.values.calendar import MICROS_PER_DAY
from delta_sidecar.values.types import DecimalType, PrimitiveType

_T = TypeVar("_T")

INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_WIDE = Context(prec=1000)
LONG_MAX = 2**63 - 1
_DOUBLE_MAX = float.fromhex("0x1.fffffffffffffp+1023")
_FLOAT_MAX = float.fromhex("0x1.fffffep+127")
_FIRST_CLOCK = datetime(1, 1, 3) - datetime(1970, 1, 1)
_LAST_CLOCK = datetime(9999, 12, 29) - datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Place:
    """At `floor` if `exact`; else above it and below the next value. No floor: below all values."""

    floor: Value | None
    exact: bool = True


NOWHERE = Place(math.nan, False)
"""NaN: neither above nor below anything."""


def place(literal: Literal, column: Column, partition_timezone: str = "UTC") -> Place:
    """Where the literal stands among the values of the column; `PredicateError` if it cannot be compared."""
    match column.type:
        case PrimitiveType("float" | "double" as name):
            return _place_float(literal, column, name == "float")
        case PrimitiveType(name) if name in INTEGER_BITS:
            most = 2 ** (INTEGER_BITS[name] - 1) - 1
            return _place_number(_number(literal, column), Decimal(1), Decimal(most), Decimal(-most - 1), int)
        case DecimalType(precision, scale):
            step = Decimal((0, (1,), -scale))
            most_decimal = _WIDE.multiply(Decimal(10**precision - 1), step)
            return _place_number(_number(literal, column), step, most_decimal, -most_decimal, Decimal)
        case PrimitiveType("date"):
            return place_date(literal, column)
        case PrimitiveType("timestamp" | "timestamp_ntz"):
            return _place_timestamp(literal, column, partition_timezone)
        case PrimitiveType("string" | "binary" | "boolean" as name):
            return Place(_plain(literal, column, name))
        case _:
            raise uncomparable(column)


def uncomparable(column: Column) -> PredicateError:
    return PredicateError(f"column {column} is {column.type}: it supports only IS [NOT] NULL")


def _misfit(literal: Literal, column: Column) -> NoReturn:
    kind = type(literal).__name__.lower()
    raise PredicateError(f"column {column} is {column.type}: it cannot be compared with a {kind} literal")


def _number(literal: Literal, column: Column) -> Decimal | float:
    """An exact number, or a float that is not finite."""
    match literal:
        case Number(value):
            return value
        case Float(value):
            return Decimal(repr(value)) if math.isfinite(value) else value
        case Text(text):
            return _read(parse_number, text, column)
        case _:
            _misfit(literal, column)


def _read(parse: Callable[[str], _T], text: str, column: Column) -> _T:
    try:
        return parse(text)
    except PredicateError as error:
        raise PredicateError(f"column {column} is {column.type}: {error}") from None


def _place_number(
    number: Decimal | float, step: Decimal, most: Decimal, least: Decimal, to_value: Callable[[Decimal], Value]
) -> Place:
    """Among the multiples of `step` from `least` to `most`."""
    if isinstance(number, float):
        return NOWHERE if math.isnan(number) else Place(to_value(most) if number > 0 else None, exact=False)
    if number < least:
        return Place(None, exact=False)
    if number > most:
        return Place(to_value(most), exact=False)
    floor = number.quantize(step, ROUND_FLOOR, context=_WIDE)
    return Place(to_value(floor), floor == number)


def _place_float(literal: Literal, column: Column, single: bool) -> Place:
    number = literal.value if isinstance(literal, Float) else _number(literal, column)
    value = float(number)
    if isinstance(number, Decimal) and math.isinf(value):
        return Place(_DOUBLE_MAX if value > 0 else -math.inf, exact=False) if not single else _among_floats(value, True)
    if math.isnan(value):
        return NOWHERE
    if not single:
        return Place(value)
    return Place(_nearest_float(value)) if isinstance(literal, Text) else _among_floats(value, False)


def _among_floats(value: float, beyond: bool) -> Place:
    """A double's place among the floats. `beyond`: a finite number too large for a double."""
    if not beyond and (math.isinf(value) or _nearest_float(value) == value):
        return Place(value)
    return Place(_float_below(value), exact=False)


def _nearest_float(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _float_below(value: float) -> float:
    """The largest float below a double that is not one."""
    if value > _FLOAT_MAX:
        return _FLOAT_MAX
    if value < -_FLOAT_MAX:
        return -math.inf
    nearest = _nearest_float(value)
    return nearest if nearest < value else _previous_float(nearest)


def _previous_float(value: float) -> float:
    """One step down. The bit patterns of floats of one sign are in the order of their size."""
    if value == 0.0:
        return -float.fromhex("0x1p-149")
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    return float(struct.unpack("<f", struct.pack("<i", bits - 1 if value > 0 else bits + 1))[0])


def _temporal(literal: Literal, column: Column) -> Day | Instant:
    match literal:
        case Day() | Instant():
            return literal
        case Text(text):
            return _read(parse_instant, text, column)
        case _:
            _misfit(literal, column)


def place_date(literal: Literal, column: Column) -> Place:
    """Where the literal stands among days."""
    when = _temporal(literal, column)
    if isinstance(when, Day):
        return Place(when.value)
    days, rest = divmod(when.value, MICROS_PER_DAY)
    return Place(days, when.exact and not rest)


def _place_timestamp(literal: Literal, column: Column, partition_timezone: str) -> Place:
    when = _temporal(literal, column)
    if isinstance(when, Day):
        when = Instant(when.value * MICROS_PER_DAY)
    micros = when.value
    if column.is_partition and not when.zoned and column.type == PrimitiveType("timestamp"):
        micros -= _utc_offset(micros, partition_timezone)
    if micros > LONG_MAX:
        return Place(LONG_MAX, exact=False)
    return Place(micros, when.exact) if micros >= -LONG_MAX - 1 else Place(None, exact=False)


def _utc_offset(micros: int, timezone: str) -> int:
    """Microseconds by which a zone's wall clock, showing `micros`, is ahead of UTC."""
    if timezone == "UTC":
        return 0
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise OptionError(f"partition_timezone {timezone!r} is not a time zone; write it like 'Europe/Paris'") from None
    clamped = max(_FIRST_CLOCK, min(_LAST_CLOCK, timedelta(microseconds=micros)))
    offset = (datetime(1970, 1, 1) + clamped).replace(tzinfo=zone).utcoffset() or timedelta()
    return offset // timedelta(microseconds=1)


def _plain(literal: Literal, column: Column, name: str) -> Value:
    """A string, binary or boolean."""
    match name, literal:
        case "string", Text(value):
            return value
        case "string", Number(text=text) | Float(text=text) | Boolean(text=text) | Day(text=text) | Instant(text=text):
            return text if text is not None else _misfit(literal, column)
        case "binary", Text(value):
            return value.encode("utf-8", "surrogatepass")
        case "binary", Bytes(data):
            return data
        case "boolean", Boolean(flag):
            return flag
        case "boolean", Text(value):
            return _read(parse_boolean, value, column)
        case _:
            _misfit(literal, column)
