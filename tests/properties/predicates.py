"""Random predicates as values: their SQL text, and what they say of a row, in SQL's three-valued logic."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import strategies as st

Row: TypeAlias = Mapping[str, Any]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Compare:
    column: str
    op: str
    value: Any

    def __str__(self) -> str:
        return f"{self.column} {self.op} {literal(self.value)}"

    def __call__(self, row: Row) -> bool | None:
        value = row[self.column]
        return None if value is None else _COMPARE[self.op](value, self.value)


@dataclass(frozen=True)
class Within:
    """`IN`, `BETWEEN`, `LIKE 'x%'`: what is a combination of comparisons."""

    column: str
    form: str
    values: Sequence[Any]

    def __str__(self) -> str:
        texts = [literal(v) for v in self.values]
        if self.form == "BETWEEN":
            return f"{self.column} BETWEEN {texts[0]} AND {texts[1]}"
        if self.form == "LIKE":
            return f"{self.column} LIKE {literal(self.values[0] + '%')}"
        return f"{self.column} {self.form} ({', '.join(texts)})"

    def __call__(self, row: Row) -> bool | None:
        value = row[self.column]
        if value is None:
            return None
        if self.form == "BETWEEN":
            return bool(self.values[0] <= value <= self.values[1])
        if self.form == "LIKE":
            return bool(value.startswith(self.values[0]))
        return (value in self.values) == (self.form == "IN")


@dataclass(frozen=True)
class IsNull:
    column: str
    negated: bool

    def __str__(self) -> str:
        return f"{self.column} IS {'NOT ' if self.negated else ''}NULL"

    def __call__(self, row: Row) -> bool | None:
        return (row[self.column] is None) != self.negated


@dataclass(frozen=True)
class Not:
    inner: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.inner})"

    def __call__(self, row: Row) -> bool | None:
        value = self.inner(row)
        return None if value is None else not value


@dataclass(frozen=True)
class Both:
    """`AND` or `OR`; `decisive` is the value of one side that settles the whole."""

    word: str
    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"({self.left}) {self.word} ({self.right})"

    def __call__(self, row: Row) -> bool | None:
        decisive = self.word == "OR"
        sides = (self.left(row), self.right(row))
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive


Predicate: TypeAlias = Compare | Within | IsNull | Not | Both


def literal(value: Any) -> str:
    """A Python value as SQL."""
    match value:
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat().replace('+00:00', 'Z')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case Decimal():
            return format(value, "f")
    return repr(value)


def matches(predicate: Predicate, rows: Sequence[Row]) -> bool:
    """Whether any row matches: only `TRUE` does."""
    return any(predicate(row) is True for row in rows)


def predicates(values: Mapping[str, Sequence[Any]], depth: int = 2) -> st.SearchStrategy[Predicate]:
    """Random predicates on columns, each with literals out of its own list."""
    base = st.sampled_from(sorted(values)).flatmap(lambda name: _leaf(name, values[name]))
    tree: st.SearchStrategy[Predicate] = base
    for _ in range(depth):
        tree = st.one_of(base, st.builds(Not, tree), st.builds(Both, st.sampled_from(["AND", "OR"]), tree, tree))
    return tree


def _leaf(name: str, pool: Sequence[Any]) -> st.SearchStrategy[Predicate]:
    one, column = st.sampled_from(list(pool)), st.just(name)
    forms: list[st.SearchStrategy[Any]] = [
        st.builds(Compare, column, st.sampled_from(sorted(_COMPARE)), one),
        st.builds(Within, column, st.sampled_from(["IN", "NOT IN"]), st.lists(one, min_size=1, max_size=3)),
        st.builds(Within, column, st.just("BETWEEN"), st.tuples(one, one)),
        st.builds(IsNull, column, st.booleans()),
    ]
    if isinstance(pool[0], str):
        plain = st.sampled_from([v for v in pool if not set(v) & {"%", "_", "\\"}])
        forms.append(st.builds(Within, column, st.just("LIKE"), st.tuples(plain)))
    return st.one_of(forms)
