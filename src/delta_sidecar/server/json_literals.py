"""Values of a predicate written as JSON.

Strings, numbers, booleans and null stand for themselves. What JSON has no form for is an object:

{"type": "double", "value": "Infinity"}      a binary number; also -Infinity, NaN, 0.1
{"type": "decimal", "value": "12.50"}        an exact number of any size
{"type": "binary", "value": "BQ=="}          bytes, in base64
{"type": "date", "value": "2026-02-08"}      {"type": "timestamp", "value": "2026-02-08 10:00:00+00:00"}
{"type": "boolean", "value": true}           {"type": "blank"}, the `''` of tuple filters: null on a partition column

`text` is how the value is written where a string column is compared with it.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates.literals import (
    Blank,
    Boolean,
    Bytes,
    Day,
    Float,
    Instant,
    Literal,
    Null,
    Number,
    Text,
    parse_instant,
    parse_number,
)
from delta_sidecar.predicates.predicate_tuples import literal

_DIGITS: Final = 18
"""Whole numbers of that many digits are numbers of JSON: every decoder keeps them."""


def literal_of(value: Any) -> Literal:
    """The literal that a value of JSON stands for; numbers are exact, as in SQL."""
    match value:
        case None:
            return Null()
        case bool():
            return Boolean(value)
        case str():
            return Text(value)
        case int():
            return Number(Decimal(value), str(Decimal(value)))
        case float():
            return _exact(repr(value))
        case Mapping():
            return _typed(value)
    raise PredicateError(
        f"{shown(value)} is not a value: write a string, a number, true, false, null, or "
        '{"type": …, "value": …} for what JSON has no form for'
    )


def _typed(given: Mapping[str, Any]) -> Literal:
    kind, value, text = given.get("type"), given.get("value"), given.get("text")
    unknown = sorted(str(name) for name in given.keys() - {"type", "value", "text"})
    if unknown:
        raise PredicateError(f"a value has no field {unknown[0]!r}; it has type, value and text")
    if not isinstance(text, str | None):
        raise PredicateError("the text of a value is a string")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise PredicateError(f"the type of a value is one of {', '.join(_KINDS)}, not {shown(kind)}")
    return _KINDS[kind](value, text)


def _double(value: Any, text: str | None) -> Literal:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _unfit("double", value, 'a number, or "Infinity", "-Infinity" or "NaN"')
    try:
        number = float(parse_number(value)) if isinstance(value, str) else float(value)
    except OverflowError:
        raise _unfit("double", value, "a number that a double holds") from None
    return Float(number, text)


def _decimal(value: Any, text: str | None) -> Literal:
    if not isinstance(value, str):
        raise _unfit("decimal", value, 'a string, such as "12.50"')
    number = _exact(value)
    return Number(number.value, number.text if text is None else text)


def _binary(value: Any, text: str | None) -> Literal:
    try:
        return Bytes(base64.b64decode(value, validate=True))
    except (TypeError, ValueError, binascii.Error):
        raise _unfit("binary", value, "bytes in base64") from None


def _boolean(value: Any, text: str | None) -> Literal:
    if not isinstance(value, bool):
        raise _unfit("boolean", value, "true or false")
    return Boolean(value, text)


def _date(value: Any, text: str | None) -> Literal:
    day = parse_instant(value) if isinstance(value, str) else None
    if not isinstance(day, Day):
        raise _unfit("date", value, 'a string, such as "2026-02-08"')
    return Day(day.value, text)


def _timestamp(value: Any, text: str | None) -> Literal:
    moment = parse_instant(value) if isinstance(value, str) else None
    if not isinstance(moment, Instant):
        raise _unfit("timestamp", value, 'a string, such as "2026-02-08 10:00:00+00:00"')
    return Instant(moment.value, moment.exact, moment.zoned, text)


def _blank(value: Any, text: str | None) -> Literal:
    return Blank()


_KINDS: Final[Mapping[str, Callable[[Any, str | None], Literal]]] = {
    "double": _double,
    "decimal": _decimal,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "boolean": _boolean,
    "blank": _blank,
}


def _exact(text: str) -> Number:
    value = parse_number(text)
    if isinstance(value, float):
        raise PredicateError(f'{text!r} is not a decimal; write {{"type": "double", "value": "{text}"}}')
    return Number(value, text)


def _unfit(kind: str, value: Any, form: str) -> PredicateError:
    return PredicateError(f"the value of type {kind} is {form}, not {shown(value)}")


def json_of(value: Literal) -> Any:
    """A literal as JSON: `literal_of` gives the same one back."""
    match value:
        case Null():
            return None
        case Text(text):
            return text
        case Blank():
            return {"type": "blank"}
        case Number(number, text):
            if (
                number.is_finite()
                and number.adjusted() < _DIGITS
                and str(int(number)) == text
                and number == int(number)
            ):
                return int(number)
            return _object("decimal", str(number), text if str(number) != text else None)
        case Float(number, text):
            return _object("double", _number(number), text)
        case Boolean(flag, text):
            return flag if text is None else _object("boolean", flag, text)
        case Bytes(data):
            return _object("binary", base64.b64encode(data).decode(), None)
        case Day(text=text) | Instant(text=text):
            return _object("date" if isinstance(value, Day) else "timestamp", text, text)


def json_of_value(value: Any) -> Any:
    """A Python value in a predicate's object as JSON: what JSON has a form for stands for itself."""
    if isinstance(value, str):
        return str(value)
    if value is None or type(value) is bool or (type(value) is float and math.isfinite(value)):
        return value
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        if isinstance(value, Mapping):
            return value
        if not hasattr(value, "ndim") or value.ndim:
            return [json_of_value(each) for each in value]
    return json_of(literal(value))


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _object(kind: str, value: Any, text: str | None) -> dict[str, Any]:
    return {"type": kind, "value": value} | ({} if text is None else {"text": text})


def shown(value: Any) -> str:
    """A value in a message: its beginning says enough, and its end may be megabytes away."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else f"{value[:40]}…")
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return f"{value!r:.40}" if isinstance(value, float) else str(Decimal(value))[:40]
    if isinstance(value, Mapping):
        return "an object" if value else "an empty object"
    return f"a list of {len(value)}" if isinstance(value, list | tuple) else type(value).__name__
