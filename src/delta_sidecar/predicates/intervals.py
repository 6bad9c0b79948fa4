"""Lengths of time that a predicate adds to a date or a timestamp: `INTERVAL 1 HOUR`.

Everything is in UTC, so a day has 24 hours. A month is the same day of another month, or that month's last day, as in
Spark: `DATE '2026-03-31' - INTERVAL 1 MONTH` is 2026-02-28.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates.literals import Day, Instant, Literal, Null, Text, parse_instant
from delta_sidecar.values.calendar import (
    MICROS_PER_DAY,
    MICROS_PER_HOUR,
    MICROS_PER_SECOND,
    date_of,
    days_of,
    month_length,
)

_MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": MICROS_PER_SECOND,
    "MINUTE": 60 * MICROS_PER_SECOND,
    "HOUR": MICROS_PER_HOUR,
    "DAY": MICROS_PER_DAY,
    "WEEK": 7 * MICROS_PER_DAY,
}
_MONTHS = {"MONTH": 1, "YEAR": 12}
UNITS = (*_MICROS, *_MONTHS)

_NUMBER = r"[+-]?\s*(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_AMOUNT = re.compile(rf"\s*({_NUMBER})\s*", re.ASCII)
_SPELLED = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*", re.ASCII)
_LONGEST = 40
"""Digits of a number in an interval, at most: no type reaches as far, and longer ones only cost time."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole months, and microseconds beside them."""

    months: int = 0
    micros: int = 0

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.months + other.months, self.micros + other.micros)

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.micros)


def is_unit(word: str) -> bool:
    """Whether a word in capitals is a unit, singular or plural."""
    return word.removesuffix("S") in UNITS


def interval_of(number: str, unit: str) -> Interval:
    """A number of units; `PredicateError` for what is not a number, or not a whole number of months or microseconds."""
    amount = _AMOUNT.fullmatch(number)
    if amount is None or len(number) > _LONGEST:
        raise PredicateError(f"INTERVAL {number!r} is not a number; write it like INTERVAL 1 HOUR or INTERVAL '1' DAY")
    name = unit.upper().removesuffix("S")
    if name not in UNITS:
        raise PredicateError(f"INTERVAL has no unit {unit!r}; it has {', '.join(UNITS)}")
    size = Decimal(re.sub(r"\s", "", amount[1])) * (_MICROS.get(name) or _MONTHS[name])
    if size != int(size):
        raise PredicateError(f"INTERVAL {number} {unit} is not a whole number of {_finest(name)}")
    return Interval(micros=int(size)) if name in _MICROS else Interval(months=int(size))


def spelled_interval(text: str) -> Interval:
    """The interval that one text names: `1 hour`, `2 days 30 minutes`."""
    total, position = Interval(), 0
    while match := _SPELLED.match(text, position):
        total += interval_of(match[1], match[2])
        position = match.end()
    if not position or position != len(text):
        raise PredicateError(
            f"INTERVAL {text!r} is not an interval; write it like INTERVAL '1 hour' or INTERVAL '1' DAY"
        )
    return total


def shifted(literal: Literal, interval: Interval) -> Day | Instant | Null:
    """The date or timestamp moved by an interval; `PredicateError` for a literal of another kind.

    A date moved by whole days and months stays a date.
    """
    match literal:
        case Null():
            return literal
        case Text(text):
            return shifted(parse_instant(text), interval)
        case Day(days):
            if interval.micros % MICROS_PER_DAY:
                return shifted(Instant(days * MICROS_PER_DAY), interval)
            return Day(_months_later(days, interval.months) + interval.micros // MICROS_PER_DAY)
        case Instant(micros, exact, zoned):
            days, clock = divmod(micros, MICROS_PER_DAY)
            moved = _months_later(days, interval.months) * MICROS_PER_DAY + clock + interval.micros
            return Instant(moved, exact, zoned)
    raise PredicateError("an INTERVAL can be added only to a date or a timestamp")


def _months_later(days: int, months: int) -> int:
    if not months:
        return days
    year, month, day = date_of(days)
    years, index = divmod(month - 1 + months, 12)
    return days_of(year + years, index + 1, min(day, month_length(year + years, index + 1)))


def _finest(name: str) -> str:
    return "microseconds" if name in _MICROS else "months"
