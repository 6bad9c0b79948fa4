"""Parse dates and timestamps, in every form that writers put into stats and partition values.

Arrow's own casts do the usual ISO forms at full speed; whatever they reject goes value by value through
the forms below, with years outside Python's `datetime` too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import pc
from delta_sidecar.values.calendar import MICROS_PER_DAY, MICROS_PER_SECOND, days_of, month_length

_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"([+-]?\d{4,6})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?"
    r"(?: ?(Z|UTC|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d|:[0-5]\d:[0-5]\d)?))?)?",
    re.ASCII,
)
_INT64_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a timestamp's text says."""

    micros: int
    """Microseconds since 1970-01-01 on the clock of the text, with more digits cut off."""
    offset: int | None
    """The zone's offset from UTC in microseconds; None without a zone."""
    exact: bool
    """No digits were cut off."""


def parse_days(text: str) -> int | None:
    """Days since 1970-01-01 of `yyyy-MM-dd`; None for anything else."""
    match = _DATE.fullmatch(text)
    return _days(int(match[1]), int(match[2]), int(match[3])) if match else None


def parse_moment(text: str) -> Moment | None:
    """A timestamp, or a date alone as its midnight; None for anything else."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    days = _days(int(year), int(month), int(day))
    seconds = _seconds(int(hour or 0), int(minute or 0), int(second or 0))
    if days is None or seconds is None:
        return None
    digits = (fraction or "").ljust(9, "0")
    micros = days * MICROS_PER_DAY + seconds * MICROS_PER_SECOND + int(digits[:6])
    return _in_range(Moment(micros, _offset(zone), digits[6:] == "000"))


def _in_range(moment: Moment) -> Moment | None:
    return moment if abs(moment.micros - (moment.offset or 0)) <= _INT64_MAX else None


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01; None if there is no such day."""
    is_day = 1 <= month <= 12 and 1 <= day <= month_length(year, month)
    return days_of(year, month, day) if is_day else None


def _seconds(hour: int, minute: int, second: int) -> int | None:
    within = hour <= 23 and minute <= 59 and second <= 59
    return hour * 3600 + minute * 60 + second if within else None


def _offset(zone: str | None) -> int | None:
    if zone is None or zone in ("Z", "UTC"):
        return None if zone is None else 0
    digits = zone[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return (-seconds if zone[0] == "-" else seconds) * MICROS_PER_SECOND


def utc_micros(text: str) -> int | None:
    """The instant of a timestamp that names its zone."""
    moment = parse_moment(text)
    return None if moment is None or moment.offset is None else moment.micros - moment.offset


def local_micros(text: str) -> int | None:
    """The wall clock of a timestamp without zone (`Z` is what some writers append to one)."""
    moment = parse_moment(text)
    return None if moment is None or moment.offset else moment.micros


def micros_in_zone(text: str, zone: tzinfo) -> int | None:
    """The instant of a timestamp, read in `zone` where it names none; None unless exact."""
    moment = parse_moment(text)
    if moment is None or not moment.exact:
        return None
    if moment.offset is not None:
        return moment.micros - moment.offset
    return _localized(moment.micros, zone)


def _localized(micros: int, zone: tzinfo) -> int | None:
    if zone is UTC:
        return micros
    try:
        local = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=zone)
        return (local - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:
        return None


def dates(texts: Sequence[str | None]) -> pa.Int64Array:
    """Days since 1970-01-01; what is not a date is null."""
    cast = _cast(arrays.strings(texts), pa.date32())
    return cast.view(pa.int32()).cast(pa.int64()) if cast is not None else _each(texts, parse_days)


def timestamps(texts: Sequence[str | None], zoned: bool) -> pa.Int64Array:
    """Microseconds since 1970-01-01, of instants (`zoned`) or of wall clocks; what is neither is null."""
    target = pa.timestamp("us", tz="UTC") if zoned else pa.timestamp("us")
    cast = _cast(arrays.strings(texts), target)
    return cast.view(pa.int64()) if cast is not None else _each(texts, utc_micros if zoned else local_micros)


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    try:
        return pc.cast(array, target)
    except pa.ArrowInvalid:
        return None


def _each(texts: Sequence[str | None], parse: Callable[[str], int | None]) -> pa.Int64Array:
    return arrays.int64s([None if text is None else parse(text) for text in texts])
