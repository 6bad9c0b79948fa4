"""What Kusto's documentation says of the KQL conditions that are written here, as a small evaluator.

Null is None. `==` with one null is false and `!=` true, other comparisons with a null are null; AND, OR and `not` are
three-valued. A null string of a file is the empty string. The documentation leaves two things open, and no condition
may depend on them: what a comparison with NaN gives (`with_nan` here), and the order of characters beyond U+D7FF
(here that of UTF-16).
"""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>\['[^']*'\])
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<literal>(?:int|long|real|decimal|datetime)\([^()]*\))
    | (?P<word>[a-z_]+)
    | (?P<mark>==|!=|<=|>=|<|>|[(),]|0)
    )""",
    re.VERBOSE,
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def kusto_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as Kusto reads it, if all columns that may be strings are named s…; days are their midnight."""
    return {name: "" if value is None and name.startswith("s") else _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime(value.year, value.month, value.day) if isinstance(value, dt.date) else value


def holds(condition: str, row: Mapping[str, Any], with_nan: bool = False) -> bool:
    """Whether `where` keeps the row: null drops it, like false."""
    return _Reading(condition, row, with_nan).result() is True


class _Reading:
    """One evaluation, by recursive descent."""

    def __init__(self, condition: str, row: Mapping[str, Any], with_nan: bool) -> None:
        self._row, self._with_nan = row, with_nan
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(condition):
            match = _TOKEN.match(condition, at)
            assert match, condition[at:]
            assert match.lastgroup
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self._at = 0

    def result(self) -> bool | None:
        value = self._or()
        assert self._at == len(self._tokens)
        return value

    def _next(self) -> tuple[str, str]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _comes(self, text: str) -> bool:
        if self._at < len(self._tokens) and self._tokens[self._at][1] == text:
            self._at += 1
            return True
        return False

    def _or(self) -> Any:
        values = [self._and()]
        while self._comes("or"):
            values.append(self._and())
        return values[0] if len(values) == 1 else True if True in values else None if None in values else False

    def _and(self) -> Any:
        values = [self._condition()]
        while self._comes("and"):
            values.append(self._condition())
        return values[0] if len(values) == 1 else False if False in values else None if None in values else True

    def _condition(self) -> Any:
        left = self._operand()
        kind, word = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if word in _COMPARE:
            self._at += 1
            return self._compare(word, left, self._operand())
        if kind != "word" or word in ("and", "or"):
            return left
        self._at += 1
        if word == "in":
            values = [self._compare("==", left, value) for value in self._arguments()]
            return True if True in values else None if None in values else False
        if word == "matches":
            assert self._comes("regex")
            return re.search(self._operand().replace(r"\z", r"\Z"), left) is not None
        return {
            "startswith_cs": str.startswith, "endswith_cs": str.endswith, "contains_cs": str.__contains__,
        }[word](left, self._operand())  # fmt: skip

    def _compare(self, op: str, left: Any, right: Any) -> bool | None:
        if left is None or right is None:
            apart = (left is None) != (right is None)
            return op == "!=" if apart and op in ("==", "!=") else None
        if any(isinstance(side, float) and math.isnan(side) for side in (left, right)):
            return self._with_nan
        assert isinstance(left, str) == isinstance(right, str)
        assert not isinstance(left, str) or op in ("==", "!=")
        return _COMPARE[op](left, right)

    def _arguments(self) -> list[Any]:
        assert self._comes("(")
        values = [self._or()]
        while self._comes(","):
            values.append(self._or())
        assert self._comes(")")
        return values

    def _operand(self) -> Any:
        kind, text = self._next()
        match kind, text:
            case "mark", "(":
                value = self._or()
                assert self._comes(")")
                return value
            case "mark", "0":
                return 0
            case "name", _:
                return self._row[text[2:-2]]
            case "string", _:
                return json.loads(text)
            case "literal", _:
                return _literal(*text[:-1].split("(", 1))
            case "word", "true" | "false":
                return text == "true"
        return self._call(text, *self._arguments())

    def _call(self, function: str, *given: Any) -> Any:
        value = given[0]
        match function:
            case "not":
                return None if value is None else not value
            case "isnull":
                return value is None
            case "isnotnull":
                return value is not None
            case "isnan":
                return value is not None and math.isnan(value)
            case "isempty":
                return value == ""
            case "isnotempty":
                return value != ""
            case "toreal":
                return None if value is None else float(value)
            case "todecimal":
                return None if value is None else Decimal(value)
            case "strcmp":
                left, right = (side.encode("utf-16-be") for side in given)
                return (left > right) - (left < right)
        raise AssertionError(function)


def _literal(kind: str, text: str) -> Any:
    match kind:
        case "int" | "long":
            return int(text)
        case "real":
            return float(text)
        case "decimal":
            return Decimal(text)
    return dt.datetime.fromisoformat(text.removesuffix("Z"))
