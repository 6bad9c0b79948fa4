"""The rules of `docs/spec/` for single values, written from its text alone: nothing of `delta_sidecar` is imported.

It makes the test vectors, and `spec_model` builds on it. It is slow and simple on purpose.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation
from typing import Any

INT64 = range(-(2**63), 2**63)
BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
TIMES = ("timestamp", "timestamp_ntz")
ALIASES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
DAY = 86_400_000_000
HOUR = 3_600_000_000
SECOND = 1_000_000
INFINITE = float("inf")


class Unknown:
    """What is not known; one object of it."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


# File keys.


def canonical_path(table: str, path: str) -> str:
    """The canonical path in its printed form."""
    scheme, authority, rest = _split(path)
    if scheme is None and path.startswith("/"):
        scheme, authority, _ = _split(table)
        scheme, rest = scheme or "file", path
    kept: list[bytes] = []
    for text in rest.split("/"):
        segment = _decoded(text)
        if segment == b".." and kept and kept[-1] != b"..":
            kept.pop()
        elif segment not in (b"", b"."):
            kept.append(segment)
    printed = "/".join("".join(map(_printed, segment)) for segment in kept)
    if scheme is None:
        return printed
    scheme = scheme.lower()
    return f"{ALIASES.get(scheme, scheme)}://{authority}/{printed}"


def _split(text: str) -> tuple[str | None, str, str]:
    match = re.match(r"([A-Za-z][A-Za-z0-9+.\-]*):(?=/)", text)
    if match is None:
        return None, "", text
    rest = text[match.end() :]
    if not rest.startswith("//"):
        return match[1], "", rest
    authority, slash, path = rest[2:].partition("/")
    return match[1], authority, slash + path


def _decoded(segment: str) -> bytes:
    data = segment.encode()
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda match: bytes([int(match[1], 16)]), data)


def _printed(byte: int) -> str:
    character = chr(byte)
    plain = character.isascii() and (character.isalnum() or character in "-._~")
    return character if plain else f"%{byte:02X}"


def vector_id(vector: Mapping[str, Any] | None) -> str:
    if vector is None:
        return ""
    offset = vector.get("offset")
    return vector["storageType"] + vector["pathOrInlineDv"] + ("" if offset is None else f"@{offset}")


# Bounds: integers for numbers, days, microseconds and unscaled decimals; floats; UTF-8 bytes.


class Number(str):
    """A JSON number with a fraction or an exponent, as it is written."""

    __slots__ = ()


def stats_of(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "null", parse_float=Number, parse_constant=_not_json)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _not_json(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def decimal_type(kind: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(match[1]), int(match[2])) if match else None


def bound(value: Any, kind: str, side: str) -> Any:
    """A bound out of the JSON of stats, not widened."""
    scaled = decimal_type(kind)
    if scaled is not None:
        return _decimal(value, *scaled, side) if type(value) in (int, str, Number) else UNKNOWN
    if kind in BITS:
        return value if type(value) is int and value in INT64 else UNKNOWN
    if kind in ("float", "double"):
        if type(value) is str:
            return {"Infinity": INFINITE, "+Infinity": INFINITE, "-Infinity": -INFINITE}.get(value, UNKNOWN)
        number = float(value) if type(value) in (int, Number) else INFINITE
        return UNKNOWN if abs(number) == INFINITE else number
    if type(value) is not str:
        return UNKNOWN
    if kind == "string":
        return value.encode()
    if kind == "date":
        return days(value)
    if kind in TIMES:
        return _time_bound(value, kind)
    return UNKNOWN


def _decimal(value: Any, precision: int, scale: int, side: str) -> Any:
    exact = Context(prec=400, traps=[Inexact, InvalidOperation])
    try:
        number = exact.create_decimal(str(value))
        if not number.is_finite():
            return UNKNOWN
        rounding = ROUND_FLOOR if side == "min" else ROUND_CEILING
        whole = int(exact.scaleb(number, scale).to_integral_value(rounding))
    except (Inexact, InvalidOperation):
        return UNKNOWN
    return whole if abs(whole) < 10**precision else UNKNOWN


@dataclass(frozen=True, slots=True)
class Moment:
    micros: int
    offset: int | None
    exact: bool


_MOMENT = re.compile(
    r"([+-]?[0-9]{4,6})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r"(?: ?(Z|UTC|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9]|:[0-5][0-9]:[0-5][0-9])?))?)?"
)


def moment(text: str) -> Moment | None:
    """A date and a time, or a date alone."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    start = day_number(int(year), int(month), int(day))
    clock = [int(part or 0) for part in (hour, minute, second)]
    if start is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    digits = (fraction or "").ljust(9, "0")
    seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
    return Moment(start * DAY + seconds * SECOND + int(digits[:6]), _offset(zone), digits[6:] == "000")


def _offset(zone: str | None) -> int | None:
    if zone is None or zone in ("Z", "UTC"):
        return None if zone is None else 0
    digits = re.sub("[^0-9]", "", zone).ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    return (-seconds if zone.startswith("-") else seconds) * SECOND


def _time_bound(text: str, kind: str) -> Any:
    found = moment(text)
    if found is None or (kind == "timestamp" and found.offset is None) or (kind == "timestamp_ntz" and found.offset):
        return UNKNOWN
    micros = found.micros - (found.offset or 0)
    return micros if micros in INT64 else UNKNOWN


def days(text: str) -> Any:
    match = re.fullmatch(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", text)
    found = day_number(*map(int, match.groups())) if match else None
    return UNKNOWN if found is None else found


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_days(year: int, month: int) -> int:
    return 29 if month == 2 and is_leap(year) else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def day_number(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01, in the proleptic Gregorian calendar."""
    if not 1 <= month <= 12 or not 1 <= day <= month_days(year, month):
        return None
    before = year - 1
    whole_years = before * 365 + before // 4 - before // 100 + before // 400
    return whole_years + sum(month_days(year, m) for m in range(1, month)) + day - 1 - 719_162


def date_of(number: int) -> tuple[int, int, int]:
    """The date of a day, found by trying."""
    year = 1970 + number // 366
    while (day_number(year + 1, 1, 1) or 0) <= number:
        year += 1
    while (day_number(year, 1, 1) or 0) > number:
        year -= 1
    month = max(m for m in range(1, 13) if (day_number(year, m, 1) or 0) <= number)
    return year, month, number - (day_number(year, month, 1) or 0) + 1


# Widening.


def was_float(metadata: Mapping[str, Any]) -> bool:
    changes = metadata.get("delta.typeChanges")
    if changes is None:
        return False
    if not isinstance(changes, list) or any(not isinstance(change, dict) for change in changes):
        return True
    return any(change.get("fromType") == "float" for change in changes)


def widened(value: Any, kind: str, side: str, metadata: Mapping[str, Any] = {}) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    scaled = decimal_type(kind)
    if kind in TIMES:
        if side == "max":
            return min(value + 1000, INT64[-1])
        return value if value > 0 else max(value - 1000, INT64[0])
    if kind == "float":
        near = nearest_float(value)
        return UNKNOWN if abs(near) == INFINITE and near != value else near
    if kind == "double" and was_float(metadata):
        return float_beside(value, side)
    if scaled is not None and scaled[0] > 15:
        step, most = abs(value) // 2**50 + 1, 10 ** scaled[0] - 1
        if value == INT64[0 if side == "min" else -1] * 10 ** scaled[1]:
            return -most if side == "min" else most
        return max(value - step, -most) if side == "min" else min(value + step, most)
    return value


def nearest_float(value: float) -> float:
    """The float nearest to a number; infinite beyond the range of floats."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return INFINITE if value > 0 else -INFINITE


def float_beside(value: float, side: str) -> float:
    """The float next to the nearest one, below it or above it; the number itself if no float is near."""
    near = nearest_float(value)
    if abs(near) == INFINITE:
        return value
    (bits,) = struct.unpack("<i", struct.pack("<f", near))
    # The patterns of floats as one ascending line of integers, with 0 in its middle.
    place = (bits if bits >= 0 else -(bits & 0x7FFFFFFF)) + (-1 if side == "min" else 1)
    pattern = place if place >= 0 else -place | 0x80000000
    return float(struct.unpack("<f", struct.pack("<I", pattern))[0])


# Partition values.


def partition_value(text: str | None, kind: str) -> Any:
    """None for null, `UNKNOWN` for a text that cannot be read."""
    if text is None or text == "":
        return None
    scaled = decimal_type(kind)
    number = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
    if scaled is not None:
        if not re.fullmatch(number, text):
            return UNKNOWN
        low, high = (_decimal(text, *scaled, side) for side in ("min", "max"))
        return low if low == high else UNKNOWN
    if kind == "string" or kind == "binary":
        return text.encode()
    if kind in BITS:
        half = 2 ** (BITS[kind] - 1)
        whole = int(text) if re.fullmatch("[+-]?[0-9]+", text) else half
        return whole if -half <= whole < half else UNKNOWN
    if kind in ("float", "double"):
        if not re.fullmatch(number + "|[+-]?Infinity|NaN|-?inf|nan", text):
            return UNKNOWN
        parsed = float(text)
        return nearest_float(parsed) if kind == "float" else parsed
    if kind == "boolean":
        return {"true": 1, "false": 0}.get(text.lower(), UNKNOWN)
    if kind == "date":
        return days(text)
    return _partition_time(text, kind)


def _partition_time(text: str, kind: str) -> Any:
    found = moment(text)
    if found is None or not found.exact or (kind == "timestamp_ntz" and found.offset):
        return UNKNOWN
    return found.micros - (found.offset or 0)


# Time buckets.

GRANULARITIES = ("month", "day", "hour", "minute", "second")


def interval(
    form: str, time_type: str, values: Sequence[Any], exact: bool = True, skipped: Sequence[int] = (),
    granularity: str | None = None,
) -> tuple[int, int] | None:  # fmt: skip
    """The time that the rows of a bucket can have; None for no interval."""
    if form == "text":
        return _text_interval(values[0], exact, skipped, granularity)
    slack = (18 if time_type == "timestamp" else 36) * HOUR
    if form == "date":
        found: tuple[int, int] | None = (values[0] * DAY, (values[0] + 1) * DAY)
    else:
        found = _calendar(*values)
    return None if found is None else (found[0] - slack, found[1] + slack)


def _text_interval(text: bytes, exact: bool, skipped: Sequence[int], granularity: str | None) -> tuple[int, int] | None:
    if text[:1] in (b"+", b"-"):
        return INT64[0], INT64[-1]
    digits = 6 + 2 * GRANULARITIES.index(str(granularity))
    if not re.fullmatch(rb"[0-9]{%d}" % digits, text):
        return None
    found = _calendar(int(text[:4]), *(int(text[at : at + 2]) for at in range(4, digits, 2)))
    if found is None or exact:
        return found
    start, day = found[0], found[0] // DAY
    early = 2 if day - 2 in skipped else 1 if day - 1 in skipped else 0
    return start - early * DAY - (SECOND if start <= 0 else 0), found[1]


def _calendar(year: int, *rest: int) -> tuple[int, int] | None:
    if not rest:
        return (day_number(year, 1, 1) or 0) * DAY, (day_number(year + 1, 1, 1) or 0) * DAY
    month, *rest_ = rest
    if not 1 <= month <= 12:
        return None
    if not rest_:
        first = day_number(year, month, 1) or 0
        return first * DAY, (first + month_days(year, month)) * DAY
    number = day_number(year, month, rest_[0])
    if number is None:
        return None
    start, length = number * DAY, DAY
    for unit, most, size in zip(rest_[1:], (24, 60, 60), (HOUR, 60 * SECOND, SECOND), strict=False):
        if not 0 <= unit < most:
            return None
        start, length = start + unit * size, size
    return start, start + length


def contradicts(found: tuple[int, int] | None, has_null: bool, low: Any, high: Any, nulls: Any) -> bool:
    """Whether a file's own time bounds, not widened, contradict its bucket."""
    known = [value for value in (low, high) if value is not UNKNOWN]
    if has_null:
        return bool(known)
    if found is None or (nulls is not UNKNOWN and nulls > 0):
        return True
    start, end = found
    return any(value < start or value > end or (value == end and end > 0) for value in known)


# The forms of the vectors.


def shown(value: Any, kind: str) -> Any:
    """A value in the form of a manifest's key values; null where it is unknown."""
    if value is UNKNOWN or value is None:
        return None
    scaled = decimal_type(kind)
    if scaled is not None:
        return f"{value}e-{scaled[1]}"
    if isinstance(value, bytes):
        return value.hex() if kind == "binary" else value.decode()
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def exact_decimal(text: str, scale: int) -> int:
    """The unscaled integer of a decimal literal."""
    return int(Decimal(text).scaleb(scale))
