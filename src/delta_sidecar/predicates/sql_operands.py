"""The operands of a comparison in a predicate's text: names, literals, casts of literals, `now()` and intervals.

operand  := summand ((+ | -) interval)* | interval + summand
summand  := (+ | -)* primary (:: type)*
primary  := name (. name)* | string | number | X'…' | 0x… | NULL | TRUE | FALSE
          | NOW() | CURRENT_TIMESTAMP() | CURRENT_DATE() | DATE(operand)
          | CAST(operand AS type) | type string | ( operand )
interval := INTERVAL ((number | string) unit)+ | INTERVAL string

The present is that of the parser, the same throughout a predicate; sums of literals are literals. Of a column only the
day is taken, by `DATE(column)` or a cast to DATE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates.casts import cast
from delta_sidecar.predicates.condition import DayOf, Name, Operand
from delta_sidecar.predicates.intervals import Interval, interval_of, is_unit, shifted, spelled_interval
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
    parse_number,
)
from delta_sidecar.predicates.sql_tokens import RESERVED, Cursor, Token, misplaced
from delta_sidecar.values.calendar import MICROS_PER_DAY

_SPELLINGS = {
    "BOOLEAN": "BOOL",
    "TINYINT": "BYTE INT1",
    "SMALLINT": "SHORT INT2 INT16",
    "INT": "INTEGER INT4 INT32",
    "BIGINT": "LONG INT64",
    "DECIMAL": "DEC NUMERIC NUMBER FIXED",
    "FLOAT": "REAL FLOAT4",
    "DOUBLE": "FLOAT8",
    "TEXT": "STRING STR CLOB LONGVARCHAR",
    "VARCHAR": "VARCHAR2",
    "CHAR": "CHARACTER",
    "BINARY": "",
    "VARBINARY": "BLOB BYTEA",
    "DATE": "",
    "TIMESTAMP": "",
    "TIMESTAMPTZ": "",
    "TIMESTAMPLTZ": "TIMESTAMP_LTZ",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "DATETIME": "",
}

TYPES = {
    "DOUBLE PRECISION": "DOUBLE",
    "CHAR VARYING": "VARCHAR",
    "CHARACTER VARYING": "VARCHAR",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "TIMESTAMP WITH LOCAL TIME ZONE": "TIMESTAMPLTZ",
    "TIMESTAMP WITHOUT TIME ZONE": "TIMESTAMP",
} | {spelling: name for name, spellings in _SPELLINGS.items() for spelling in (name, *spellings.split())}
"""Every spelling, in capitals and single spaces. INT8 is missing: one byte to some, eight to others."""

MOST_WORDS = max(len(name.split()) for name in TYPES)

_CONSTANTS: dict[str, Literal] = {"NULL": Null(), "TRUE": Boolean(True), "FALSE": Boolean(False)}


_HEXADECIMAL = re.compile(r"[0-9a-fA-F]*")


_SIZE = re.compile(r"[0-9]{1,9}")


_LARGEST_PRECISION = 38


_PRESENT = ("NOW", "CURRENT_TIMESTAMP", "CURRENT_DATE")


class OperandParser(Cursor):
    """Parses columns and literals. `now` is the present, in microseconds since 1970-01-01 UTC."""

    __slots__ = ("_now",)

    def __init__(self, text: str, now: int) -> None:
        super().__init__(text)
        self._now = now

    def _operand(self) -> Operand:
        operand: Operand = self._after_interval(self._interval()) if self._at_interval() else self._summand()
        while self._next.is_sign("+", "-") and self._at_interval(1):
            sign = self._take()
            interval = self._interval()
            operand = self._shifted(operand, interval if sign.value == "+" else -interval, sign)
        return operand

    def _at_interval(self, ahead: int = 0) -> bool:
        """Whether an interval is next. `interval` before anything but a number or a string is a column's name."""
        word, number, *more = (*self._tokens[self._index + ahead : self._index + ahead + 3], self._next, self._next)
        if not word.is_word("INTERVAL"):
            return False
        return number.kind in ("number", "string") or (number.is_sign("-", "+") and more[0].kind == "number")

    def _interval(self) -> Interval:
        self._take()
        if self._next.kind == "string" and not (self._after.kind == "word" and is_unit(self._after.value)):
            return spelled_interval(self._take().value)
        total = self._amount()
        while self._next.kind in ("number", "string") and self._after.kind == "word" and is_unit(self._after.value):
            total += self._amount()
        return total

    def _amount(self) -> Interval:
        sign = self._take().value if self._next.is_sign("-", "+") else ""
        number = self._take().value
        if self._next.kind != "word":
            raise self._missing("a unit, such as HOUR or DAY,")
        return interval_of(sign + number, self._take().value)

    def _after_interval(self, interval: Interval) -> Literal:
        """The sum that an interval begins."""
        sign = self._next
        if not self._if_sign("+"):
            raise self._missing("`+` and a date or timestamp")
        if self._at_interval():
            return self._after_interval(interval + self._interval())
        return self._shifted(self._summand(), interval, sign)

    def _shifted(self, operand: Operand, interval: Interval, sign: Token) -> Literal:
        if isinstance(operand, Name | DayOf):
            what = "an INTERVAL cannot be added to a column; add it to the other side of the comparison"
            raise misplaced(self._text, sign.start, what)
        return shifted(operand, interval)

    def _summand(self) -> Operand:
        signs: list[Token] = []
        while self._next.is_sign("-", "+"):
            signs.append(self._take())
        operand = self._casts(self._primary())
        for sign in reversed(signs):
            operand = self._negative(operand, sign) if sign.value == "-" else operand
        return operand

    def _negative(self, operand: Operand, sign: Token) -> Literal:
        match operand:
            case Number(value, text):
                return Number(value.copy_negate(), text[1:] if text.startswith("-") else f"-{text}")
            case Float(value):
                return Float(-value)
            case Null():
                return operand
        raise misplaced(self._text, sign.start, "'-' is not supported before anything but a number")

    def _primary(self) -> Operand:
        match self._next.kind:
            case "word":
                return self._worded()
            case "name":
                return self._name()
            case "string":
                return Text(self._take().value)
            case "number":
                return _number(self._take().value)
            case "bytes":
                return self._bytes()
        if self._next.is_sign("("):
            return self._parenthesised(self._operand)
        raise self._no_operand()

    def _worded(self) -> Operand:
        word = self._next.value
        if word in _CONSTANTS:
            self._take()
            return _CONSTANTS[word]
        if word in RESERVED:
            raise self._no_operand()
        if word == "CAST" and self._after.is_sign("("):
            self._take()
            return self._parenthesised(self._cast)
        if word == "DATE" and self._after.is_sign("("):
            self._take()
            return self._parenthesised(self._day)
        if word in _PRESENT and self._after.is_sign("("):
            return self._present()
        return self._typed() or self._name()

    def _present(self) -> Literal:
        word = self._take().value
        self._expect("(")
        self._expect(")")
        return Day(self._now // MICROS_PER_DAY) if word == "CURRENT_DATE" else Instant(self._now, zoned=True)

    def _day(self) -> Operand:
        operand = self._operand()
        return _day_of(operand) if isinstance(operand, Name | DayOf) else cast(operand, "DATE")

    def _name(self) -> Name:
        first = self._next
        parts = [self._part()]
        while self._if_sign("."):
            parts.append(self._part())
        if self._next.is_sign("("):
            raise self._function(first)
        return Name(tuple(parts))

    def _part(self) -> str:
        if self._next.kind not in ("word", "name"):
            raise self._missing("a name")
        token = self._take()
        return token.value if token.kind == "name" else self._text[token.start : token.end]

    def _bytes(self) -> Bytes:
        digits = self._next.value
        if not _HEXADECIMAL.fullmatch(digits):
            raise self._wrong(f"{self._shown(self._next)} is not hexadecimal")
        self._take()
        return Bytes(bytes.fromhex(digits.zfill(len(digits) + len(digits) % 2)))

    def _cast(self) -> Operand:
        operand = self._operand()
        if not self._if_word("AS"):
            raise self._missing("AS and a type")
        return self._converted(operand)

    def _casts(self, operand: Operand) -> Operand:
        while self._if_sign("::"):
            operand = self._converted(operand)
        return operand

    def _converted(self, operand: Operand) -> Operand:
        start = self._next
        target = self._type()
        if isinstance(operand, Name | DayOf):
            if target is not None and target[0] == "DATE":
                return _day_of(operand)
            raise misplaced(self._text, start.start, "the cast of a column to anything but DATE is not supported")
        if target is None:
            raise self._missing("a type of literals")
        return cast(operand, *target)

    def _typed(self) -> Literal | None:
        """`DATE '…'` and other typed literals; None, and nothing taken, where there is no type before a string."""
        start = self._index
        target = self._type()
        if target is not None and self._next.kind == "string":
            return cast(Text(self._take().value), *target)
        self._index = start
        return None

    def _type(self) -> tuple[str, Sequence[int]] | None:
        """The type that is next, and its sizes; None, and nothing taken, if there is none."""
        words: list[str] = []
        for token in self._tokens[self._index : self._index + MOST_WORDS]:
            if token.kind != "word":
                break
            words.append(token.value)
        for count in range(len(words), 0, -1):
            if target := TYPES.get(" ".join(words[:count])):
                self._index += count
                return target, self._sizes(target)
        return None

    def _sizes(self, target: str) -> list[int]:
        """The numbers in parentheses after a type; none, and nothing taken, if there is something else."""
        start = self._index
        sizes: list[int] = []
        separator = "("
        while self._if_sign(separator) and _SIZE.fullmatch(self._next.value):
            sizes.append(int(self._take().value))
            separator = ","
        if not sizes or not self._if_sign(")"):
            self._index = start
            return []
        if target == "DECIMAL" and not _is_decimal(*sizes):
            raise self._wrong(
                f"DECIMAL({', '.join(map(str, sizes))}) is not a type: precision is 1 to 38, scale 0 to precision"
            )
        return sizes


def _day_of(operand: Name | DayOf) -> DayOf:
    return operand if isinstance(operand, DayOf) else DayOf(operand)


def _is_decimal(precision: int, scale: int = 0, *more: int) -> bool:
    return not more and scale <= precision <= _LARGEST_PRECISION and precision > 0


def _number(text: str) -> Number:
    value = parse_number(text)
    if isinstance(value, float):
        raise PredicateError(f"{text!r} is not a number; write infinities and NaN as CAST('NaN' AS DOUBLE)")
    return Number(value, f"0{text}" if text.startswith(".") else text)
