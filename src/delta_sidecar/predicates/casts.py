"""CAST of a literal, and typed literals (`DATE '…'`): a literal of another kind."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates.literals import (
    Boolean,
    Bytes,
    Day,
    Float,
    Instant,
    Literal,
    Null,
    Number,
    Text,
    parse_boolean,
    parse_instant,
    parse_number,
)
from delta_sidecar.values.calendar import MICROS_PER_DAY

_INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TIMESTAMPS = {"TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"}
_TEXTS = {"TEXT", "VARCHAR", "CHAR"}
_WIDE = Context(prec=1000)


def cast(literal: Literal, target: str, sizes: Sequence[int] = ()) -> Literal:
    """The literal as a value of the SQL type `target`; `PredicateError` if it cannot be one."""
    if isinstance(literal, Null):
        return literal
    if target in _INTEGER_BITS:
        return _integer(literal, target)
    if target in _TIMESTAMPS:
        return _timestamp(literal)
    if target in _TEXTS:
        return Text(_written(literal, target))
    if target == "DECIMAL":
        return _decimal(literal, *(list(sizes) or [10, 0]))
    if target not in _OTHERS:
        raise PredicateError(f"a literal cannot be cast to {target}")
    return _OTHERS[target](literal)


def _impossible(literal: Literal, target: str) -> PredicateError:
    return PredicateError(f"{_shown(literal)} cannot be cast to {target}")


def _shown(literal: Literal) -> str:
    return repr(getattr(literal, "text", None) or getattr(literal, "value", None))


def _written(literal: Literal, target: str) -> str:
    match literal:
        case Text(value):
            return value
        case Number(text=text):
            return text
        case Boolean(value):
            return str(value).lower()
    raise _impossible(literal, target)


def _finite(literal: Literal, target: str) -> Decimal:
    match literal:
        case Number(value):
            return value
        case Float(value):
            number: Decimal | float = parse_number(repr(value))
        case Text(text):
            number = parse_number(text)
        case _:
            raise _impossible(literal, target)
    if isinstance(number, float):
        raise _impossible(literal, target)
    return number


def _integer(literal: Literal, target: str) -> Number:
    number = _finite(literal, target)
    whole = number.quantize(Decimal(1), ROUND_DOWN, context=_WIDE)
    limit = 2 ** (_INTEGER_BITS[target] - 1)
    if not -limit <= whole < limit or (isinstance(literal, Text) and whole != number):
        raise _impossible(literal, target)
    return Number(whole, str(whole))


def _decimal(literal: Literal, precision: int, scale: int = 0) -> Number:
    number = _finite(literal, "DECIMAL")
    rounded = number.quantize(Decimal((0, (1,), -scale)), ROUND_HALF_UP, context=_WIDE)
    if abs(rounded) >= Decimal(10) ** (precision - scale):
        raise _impossible(literal, f"DECIMAL({precision},{scale})")
    return Number(rounded, f"{rounded:f}")


def _double(literal: Literal) -> Float:
    match literal:
        case Float(value):
            return Float(value)
        case Number(number):
            return Float(float(number))
        case Text(text):
            return Float(float(parse_number(text)))
    raise _impossible(literal, "DOUBLE")


def _float(literal: Literal) -> Float:
    try:
        return Float(struct.unpack("<f", struct.pack("<f", _double(literal).value))[0])
    except OverflowError:
        raise _impossible(literal, "FLOAT") from None


def _date(literal: Literal) -> Day:
    match literal:
        case Text(text):
            return _date(parse_instant(text))
        case Day():
            return literal
        case Instant(value):
            return Day(value // MICROS_PER_DAY)
    raise _impossible(literal, "DATE")


def _timestamp(literal: Literal) -> Instant:
    match literal:
        case Text(text):
            return _timestamp(parse_instant(text))
        case Day(days):
            return Instant(days * MICROS_PER_DAY)
        case Instant():
            return literal
    raise _impossible(literal, "TIMESTAMP")


def _boolean(literal: Literal) -> Boolean:
    match literal:
        case Text(text):
            return Boolean(parse_boolean(text))
        case Boolean():
            return literal
    raise _impossible(literal, "BOOLEAN")


def _binary(literal: Literal) -> Bytes:
    match literal:
        case Text(text):
            return Bytes(text.encode())
        case Bytes():
            return literal
    raise _impossible(literal, "BINARY")


_OTHERS: dict[str, Callable[[Literal], Literal]] = {
    "DOUBLE": _double,
    "FLOAT": _float,
    "DATE": _date,
    "BOOLEAN": _boolean,
    "BINARY": _binary,
    "VARBINARY": _binary,
}
