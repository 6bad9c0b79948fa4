"""Literals of a predicate before they are bound to a column, and the parsing of their texts.

A literal keeps everything that was written: numbers are exact decimals, an instant knows whether something
below a microsecond was cut off. `predicates.fitting` then places it in the order of a column's type.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from delta_sidecar.errors import PredicateError
from delta_sidecar.values.calendar import MICROS_PER_DAY, MICROS_PER_SECOND, days_of, month_length


@dataclass(frozen=True, slots=True)
class Null:
    """SQL's NULL."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string; on a column of another type it is read as a value of that type."""

    value: str


@dataclass(frozen=True, slots=True)
class Blank:
    """`""` in a tuple filter: null on a partition column, as in the log; elsewhere the empty string."""


@dataclass(frozen=True, slots=True)
class Number:
    """An exact number. `text` is how it was written: string columns are compared with that."""

    value: Decimal
    text: str


@dataclass(frozen=True, slots=True)
class Float:
    """A binary floating-point number: a cast, or Python's `float`."""

    value: float
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Boolean:
    value: bool
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Bytes:
    value: bytes


@dataclass(frozen=True, slots=True)
class Day:
    """A date: days since 1970-01-01."""

    value: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Instant:
    """Microseconds since 1970-01-01, cut down to a whole one where not `exact`.

    Without a zone (`zoned` false) they count from midnight of the clock it was read from.
    """

    value: int
    exact: bool = True
    zoned: bool = False
    text: str | None = None


Literal: TypeAlias = Null | Text | Blank | Number | Float | Boolean | Bytes | Day | Instant

_DATE = r"(?P<year>[+-]?\d{4,6})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2}))?)?"
_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?"
_ZONE = r"(?P<zone>Z|UTC|GMT|(?P<sign>[+-])(?P<zh>\d{1,2})(?::?(?P<zm>\d{2})(?::?(?P<zs>\d{2}))?)?)"
_INSTANT = re.compile(rf"{_DATE}(?:[T ]{_TIME}\s*{_ZONE}?)?", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_FLOATS = {"nan": math.nan, "inf": math.inf, "infinity": math.inf}
_BOOLEANS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
_BOOLEANS |= {"false": False, "f": False, "no": False, "n": False, "0": False}

_FARTHEST = 400
"""No type holds a number of that many digits, or any that small: larger exponents only cost time."""


def parse_number(text: str) -> Decimal | float:
    """The exact number, or an infinity or NaN as a float. `PredicateError` if it is neither."""
    stripped = text.strip()
    if _NUMBER.fullmatch(stripped):
        return _tame(stripped)
    sign, name = (-1.0, stripped[1:]) if stripped[:1] == "-" else (1.0, stripped.removeprefix("+"))
    if name.lower() in _FLOATS:
        return sign * _FLOATS[name.lower()]
    raise PredicateError(f"{text!r} is not a number; write it like 12, -1.5 or 1e3")


def _tame(text: str) -> Decimal:
    """The number, brought nearer where its exponent is beyond every type, so that its order stays."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("Infinity") if "e-" not in text.lower() else Decimal(f"1e-{_FARTHEST}")
    if not value or abs(_exponent(value)) <= _FARTHEST:
        return value
    far = Decimal(f"1e{math.copysign(_FARTHEST, _exponent(value)):.0f}")
    return far.copy_sign(Decimal(-1 if text.startswith("-") else 1))


def _exponent(value: Decimal) -> int:
    return _FARTHEST + 1 if value.is_infinite() else value.adjusted()


def parse_boolean(text: str) -> bool:
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise PredicateError(f"{text!r} is not a boolean; write true or false")
    return value


def parse_instant(text: str) -> Day | Instant:
    """A date alone (`2026`, `2026-02`, `2026-02-10`) or a date and time, to any fraction of a second."""
    match = _INSTANT.fullmatch(text.strip())
    if match is None:
        raise PredicateError(
            f"{text!r} is not a date or timestamp; write it like '2026-02-10' or '2026-02-10T22:00:00.5+01:00'"
        )
    day = _day(match)
    if match["hour"] is None:
        return Day(day)
    seconds = _clock(match["hour"], match["minute"], match["second"], 24, text) - _offset(match, text)
    micros, exact = _fraction(match["fraction"] or "")
    return Instant(day * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + micros, exact, match["zone"] is not None)


def _day(match: re.Match[str]) -> int:
    year, month, day = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    if not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        raise PredicateError(f"{match[0]!r} is not a date; there is no such day")
    return days_of(year, month, day)


def _clock(hour: str, minute: str | None, second: str | None, hours: int, text: str) -> int:
    """Seconds of a time of day, or of a zone's offset."""
    h, m, s = int(hour), int(minute or 0), int(second or 0)
    if h >= hours or m >= 60 or s >= 60:
        raise PredicateError(f"{text!r} is not a timestamp; there is no such time of day or offset")
    return h * 3600 + m * 60 + s


def _offset(match: re.Match[str], text: str) -> int:
    if match["sign"] is None:
        return 0
    seconds = _clock(match["zh"], match["zm"], match["zs"], 19, text)
    return -seconds if match["sign"] == "-" else seconds


def _fraction(digits: str) -> tuple[int, bool]:
    """Microseconds of a fraction of a second, and whether that is all of it."""
    return int(digits[:6].ljust(6, "0")), not digits[6:].strip("0")
