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
class DayOf:
    """`date(column)` compared with a day, in one of its spellings."""

    column: str
    form: str
    op: str
    day: dt.date

    def __str__(self) -> str:
        return f"{self.form.format(self.column)} {self.op} {literal(self.day)}"

    def __call__(self, row: Row) -> bool | None:
        value = row[self.column]
        if value is None:
            return None
        return _COMPARE[self.op](value.date() if isinstance(value, dt.datetime) else value, self.day)


@dataclass(frozen=True)
class Shifted:
    """A time compared with a literal, or the present, and an interval after or before it."""

    column: str
    op: str
    base: dt.datetime | dt.date | None
    """None for the present."""
    unit: str
    count: int

    def __str__(self) -> str:
        base = "now()" if self.base is None else literal(self.base)
        return f"{self.column} {self.op} {base} {'-' if self.count < 0 else '+'} INTERVAL {abs(self.count)} {self.unit}"

    def __call__(self, row: Row) -> bool | None:
        value = row[self.column]
        base = dt.datetime.now(dt.UTC) if self.base is None else self.base
        edge = _micros(base) + self.count * UNITS[self.unit]
        return None if value is None else _COMPARE[self.op](_micros(value), edge)


UNITS = {"MICROSECOND": 1, "SECONDS": 10**6, "HOUR": 3600 * 10**6, "DAYS": 86_400 * 10**6, "WEEK": 7 * 86_400 * 10**6}


def _micros(value: dt.date) -> int:
    """Microseconds since 1970, of a date or of either kind of timestamp: no year is too far for a number."""
    time = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
    return (time.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


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


Predicate: TypeAlias = Compare | Within | DayOf | Shifted | IsNull | Not | Both


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
    leaves = {name: _leaf(name, pool) for name, pool in values.items()}  # once: making them takes longer than drawing
    base = st.sampled_from(sorted(values)).flatmap(leaves.__getitem__)
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
    if isinstance(pool[0], dt.date):
        forms += _time_forms(column, pool)
    return st.one_of(forms)


def _time_forms(column: st.SearchStrategy[str], pool: Sequence[dt.date]) -> list[st.SearchStrategy[Any]]:
    """Days and intervals, around the values of a pool. Half days keep the present away from all of them."""
    ops, units = st.sampled_from(sorted(_COMPARE)), st.sampled_from(sorted(UNITS))
    days = [value.date() if isinstance(value, dt.datetime) else value for value in pool]
    spellings = st.sampled_from(["date({})", "DATE ( {} )", "CAST({} AS DATE)", "{}::date"])
    today = dt.datetime.now(dt.UTC).date()
    hours = st.builds(
        lambda day, more: 24 * ((day - today).days + more) + 12, st.sampled_from(days), st.integers(-1, 1)
    )
    return [
        st.builds(DayOf, column, spellings, ops, st.sampled_from(days)),
        st.builds(Shifted, column, ops, st.sampled_from(list(pool)), units, st.integers(-3, 3)),
        st.builds(Shifted, column, ops, st.none(), st.just("HOUR"), hours),
    ]
