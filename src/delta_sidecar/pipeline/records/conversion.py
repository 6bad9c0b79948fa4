"""One value into one type: exactly, or not at all.

A value of JSON or a text of CSV becomes what `pyarrow.array` takes for the type of its column. Whatever would be
rounded, cut or guessed is a `Misfit`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
from collections.abc import Callable, Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

EXACT_IN_DOUBLE: Final = 1 << 53
"""Integers up to here, either sign, are doubles exactly."""
DEEPEST: Final = 100
"""JSON nested deeper is refused: Arrow carries no schema of 128 levels."""
JSON_SPACE: Final = " \t\r\n"
"""What may stand around values of JSON."""
_LONGEST_INTEGER: Final = 19
"""Digits of the largest integer of 64 bits."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+(\.0*)?")
_ZERO: Final = re.compile(r"[+-]?[0.]+([eE][+-]?[0-9]+)?")
_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "infinity": math.inf, "-inf": -math.inf, "-infinity": -math.inf}
_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2})?))?)?"
)
WIDE: Final = Context(prec=80)
"""Digits enough for any decimal of a table, and what is checked against it."""
_EPOCH: Final = datetime.datetime(1970, 1, 1)


class Misfit(Exception):
    """The value does not fit the type."""


class Number(str):
    """A number as the text it was written in."""

    __slots__ = ()


class Object(list[tuple[str, Any]]):
    """A JSON object as its pairs, in order."""

    __slots__ = ()


class TwiceNamed(ValueError):
    """An object names one field twice."""


def _object(pairs: list[tuple[str, Any]]) -> Object:
    if len({name for name, _ in pairs}) < len(pairs):
        names = [name for name, _ in pairs]
        raise TwiceNamed(f"it names {next(n for n in names if names.count(n) > 1)!r} twice")
    return Object(pairs)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number
)


def decode_json(text: str) -> Any:
    """A JSON value with its numbers as written; ValueError if it is not JSON, or nested too deeply."""
    try:
        value, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip(JSON_SPACE)))
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if text[end:].strip(JSON_SPACE):
        raise ValueError(f"extra text after the record, from character {end + 1} on")
    if text.count("{") + text.count("[") > DEEPEST and _is_deeper(value, DEEPEST):
        raise ValueError(_TOO_DEEP)
    return value


_TOO_DEEP: Final = "it is nested too deeply"


def _is_deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, list):
        return False
    items = [item for _, item in value] if isinstance(value, Object) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in items)


def texts_in_list(text: str) -> Iterator[str]:
    """The values of a JSON list that decodes, each as it is written."""
    at = text.index("[") + 1
    while text[at := _BETWEEN.match(text, at).end()] != "]":  # type: ignore[union-attr]
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = end


_BETWEEN: Final = re.compile(r"[ \t\r\n,]*")


def holds_half_pair(value: Any) -> bool:
    """Whether a decoded value has half of a surrogate pair in a text, which no UTF-8 can hold."""
    try:
        encode_json(value).encode()
    except UnicodeEncodeError:
        return True
    return False


def encode_json(value: Any) -> str:
    """The JSON text of a decoded value, numbers as they were written."""
    if isinstance(value, Object):
        return "{" + ",".join(f"{_quoted(name)}:{encode_json(item)}" for name, item in value) + "}"
    if isinstance(value, dict):
        return encode_json(Object(value.items()))
    if isinstance(value, list):
        return "[" + ",".join(map(encode_json, value)) + "]"
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def all_true(flags: pa.Array) -> bool:
    """Whether no flag is false; nulls do not count."""
    return bool(pc.all(flags, min_count=0).as_py())


def is_text(value: Any) -> bool:
    """Whether a decoded value is a string of JSON: a number is one of Python's, too."""
    return isinstance(value, str) and not isinstance(value, Number)


# Scalars. Each takes text and gives the value, or raises Misfit.


def integer(text: str, bits: int) -> int:
    """An integer of that many bits."""
    stripped = text.strip()
    if not _INTEGER.fullmatch(stripped):
        raise Misfit
    digits = stripped.lstrip("+-0") or "0"
    if len(digits) > _LONGEST_INTEGER:
        raise Misfit
    value = -int(digits) if stripped[0] == "-" else int(digits)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise Misfit
    return value


def double(text: str) -> float:
    """The double a number stands for; integers must be held exactly, and nothing but zero becomes 0."""
    stripped = text.strip()
    if (special := _NOT_FINITE.get(stripped.lower())) is not None:
        return special
    if not _NUMBER.fullmatch(stripped):
        raise Misfit
    value = float(stripped)
    if math.isinf(value) or (value == 0 and not _ZERO.fullmatch(stripped)):
        raise Misfit
    if abs(value) >= EXACT_IN_DOUBLE and _WHOLE.fullmatch(stripped) and Decimal(value) != Decimal(stripped):
        raise Misfit
    return value


def single(text: str) -> float:
    """The float a number stands for; one with more digits than a float has is a misfit."""
    value = double(text)
    with np.errstate(over="ignore"):
        narrow = np.float32(value)
    if math.isnan(value) or float(narrow) == value:
        return value
    if math.isinf(float(narrow)) or float(str(narrow)) != value:
        raise Misfit
    return float(narrow)


def decimal(text: str, precision: int, scale: int) -> Decimal:
    """A decimal with all its digits."""
    try:
        value = Decimal(text.strip()) if _NUMBER.fullmatch(text.strip()) else Decimal("NaN")
        if not value.is_finite() or value.adjusted() > 40:
            raise Misfit
        exact = value.quantize(Decimal(1).scaleb(-scale), context=WIDE)
    except (InvalidOperation, ValueError):
        raise Misfit from None
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise Misfit
    return exact


def boolean(text: str) -> bool:
    """True or false, in any case."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise Misfit
    return lowered == "true"


def date(text: str) -> int:
    """Days since 1970 of an ISO date."""
    match = _TIME.fullmatch(text.strip())
    if match is None or match[4] is not None:
        raise Misfit
    return _day(match).days


def timestamp(text: str, zoned: bool) -> int:
    """Microseconds since 1970 of an ISO time. One without a zone is UTC; `zoned=False` takes none that has one."""
    match = _TIME.fullmatch(text.strip())
    if match is None or (match[8] and not zoned):
        raise Misfit
    fraction = (match[7] or "").ljust(6, "0")
    hour, minute, second = (int(match[at] or 0) for at in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59 or fraction[6:].strip("0"):
        raise Misfit
    within = ((hour * 60 + minute) * 60 + second) * 1_000_000 + int(fraction[:6])
    return _day(match).days * 86_400_000_000 + within - _offset(match[8])


def _day(match: re.Match[str]) -> datetime.timedelta:
    try:
        return datetime.datetime(int(match[1]), int(match[2]), int(match[3])) - _EPOCH
    except ValueError:
        raise Misfit from None


def _offset(zone: str | None) -> int:
    if not zone or zone == "Z":
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    if int(digits[2:]) > 59 or minutes > 18 * 60:
        raise Misfit
    return (minutes if zone[0] == "+" else -minutes) * 60_000_000


def from_base64(text: str) -> bytes:
    """Bytes of base64 text."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Misfit from None


def scalar_of_text(kind: pa.DataType) -> Callable[[str], Any] | None:
    """How text becomes a value of a type that has no parts; None for types that have."""
    if pa.types.is_string(kind):
        return str
    if pa.types.is_boolean(kind):
        return boolean
    if pa.types.is_integer(kind):
        return lambda text: integer(text, kind.bit_width)
    if pa.types.is_float64(kind):
        return double
    if pa.types.is_float32(kind):
        return single
    if pa.types.is_decimal(kind):
        return lambda text: decimal(text, kind.precision, kind.scale)
    if pa.types.is_date(kind):
        return date
    if pa.types.is_timestamp(kind):
        return lambda text: timestamp(text, kind.tz is not None)
    if pa.types.is_binary(kind):
        return lambda text: text.encode()
    return None


def parts_of(kind: pa.DataType) -> Iterator[pa.Field]:
    """The fields of a struct, the elements of a list, the keys and values of a map."""
    if pa.types.is_struct(kind):
        yield from kind
    elif pa.types.is_list(kind):
        yield kind.value_field
    elif pa.types.is_map(kind):
        yield kind.key_field
        yield kind.item_field


def scalar_of_json(value: Any, kind: pa.DataType) -> Any:
    """A JSON value, not null, as one of a type without parts."""
    if pa.types.is_string(kind):
        return value if is_text(value) else encode_json(value)
    if isinstance(value, bool):
        if not pa.types.is_boolean(kind):
            raise Misfit
        return value
    if isinstance(value, list):
        raise Misfit
    return _of_number(value, kind) if isinstance(value, Number) else _of_string(value, kind)


def _of_number(value: Number, kind: pa.DataType) -> Any:
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise Misfit
    convert = scalar_of_text(kind)
    assert convert is not None
    return convert(value)


def _of_string(value: str, kind: pa.DataType) -> Any:
    """JSON has no dates, times or bytes, and no NaN or infinity: they are written as text."""
    if pa.types.is_binary(kind):
        return from_base64(value)
    if pa.types.is_floating(kind):
        if (special := _NOT_FINITE.get(value.lower())) is None:
            raise Misfit
        return special
    convert = scalar_of_text(kind)
    if convert is None or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        raise Misfit
    return convert(value)
