"""A predicate as a value: a tree of conditions bound to the table's columns.

Made by `predicates.binding`, read by `pruning.may_match` (may a file hold a matching row?) and `predicates.evaluation`
(which rows match?). SQL's three-valued logic throughout: a row matches only where the tree is true.

Literals are exact and already of the column's type, in Arrow's own physical form:

| column type                | value                                  |
|----------------------------|----------------------------------------|
| byte, short, integer, long | int, within the type's range           |
| float, double              | float                                  |
| decimal                    | Decimal, representable in the type     |
| date                       | int, days since 1970-01-01             |
| timestamp, timestamp_ntz   | int, microseconds since 1970-01-01     |
| string, binary, boolean    | str, bytes, bool                       |

A literal that the type cannot hold (`x = 1.5` on a long) is rewritten when it is bound, so it does not
occur here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal, TypeAlias

from delta_sidecar.values.calendar import MICROS_PER_DAY, MICROS_PER_SECOND, date_of
from delta_sidecar.values.types import DataType, PrimitiveType, StructField

Value: TypeAlias = int | float | Decimal | str | bytes | bool
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]

INVERSE: Final[dict[Operator, Operator]] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf column, with the fields that lead to it from the top of the schema."""

    fields: tuple[StructField, ...]
    is_partition: bool = False
    type: DataType = field(init=False, repr=False, compare=False)
    path: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Logical names, top down."""
    physical_path: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Physical names, top down: how stats and partition values are keyed."""

    def __post_init__(self) -> None:
        # Made once: every bound of every batch asks for them.
        object.__setattr__(self, "type", self.fields[-1].type)
        object.__setattr__(self, "path", tuple(f.name for f in self.fields))
        object.__setattr__(self, "physical_path", tuple(f.physical_name for f in self.fields))

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false, or (None) unknown for every row."""

    value: bool | None

    def __str__(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[self.value]


@dataclass(frozen=True, slots=True)
class Compare:
    column: Column
    op: Operator
    value: Value

    def __str__(self) -> str:
        return f"{self.column} {self.op} {_literal(self.value, self.column.type)}"


@dataclass(frozen=True, slots=True)
class CompareColumns:
    """A comparison of two columns: rows are filtered by it, files are not."""

    left: Column
    op: Operator
    right: Column

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`; never empty, never with a null (the binder turns that into an OR NULL)."""

    column: Column
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(_literal(value, self.column.type) for value in self.values)})"


@dataclass(frozen=True, slots=True)
class IsNull:
    column: Column

    def __str__(self) -> str:
        return f"{self.column} IS NULL"


@dataclass(frozen=True, slots=True)
class Like:
    """`column LIKE pattern` with `%` and `_`; `escape` is one character or empty."""

    column: Column
    pattern: str
    escape: str = ""

    def __str__(self) -> str:
        return f"{self.column} LIKE {self.pattern!r}"


@dataclass(frozen=True, slots=True)
class Not:
    term: Expression

    def __str__(self) -> str:
        return f"NOT ({self.term})"


@dataclass(frozen=True, slots=True)
class And:
    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({t})" for t in self.terms)


@dataclass(frozen=True, slots=True)
class Or:
    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        return " OR ".join(f"({t})" for t in self.terms)


Expression: TypeAlias = Constant | Compare | CompareColumns | In | IsNull | Like | Not | And | Or


def conjuncts(expression: Expression) -> list[Expression]:
    """The terms that must all be true."""
    if isinstance(expression, And):
        return [term for child in expression.terms for term in conjuncts(child)]
    return [expression]


def all_of(terms: Iterable[Expression | None]) -> Expression | None:
    """What is true where all terms are. None excludes nothing and is skipped."""
    conditions = tuple(term for term in terms if term is not None)
    return And(conditions) if len(conditions) > 1 else next(iter(conditions), None)


def negation(expression: Expression) -> Expression:
    """What is true where the expression is false, for columns without NaN: NOT is carried down to the conditions."""
    match expression:
        case And(terms):
            return Or(tuple(map(negation, terms)))
        case Or(terms):
            return And(tuple(map(negation, terms)))
        case Not(term):
            return term
        case Compare(column, op, value):
            return Compare(column, INVERSE[op], value)
    return Not(expression)


def columns_of(expression: Expression) -> Iterator[Column]:
    """Every column the expression mentions, with repeats, left to right."""
    match expression:
        case And(terms) | Or(terms):
            for term in terms:
                yield from columns_of(term)
        case Not(term):
            yield from columns_of(term)
        case CompareColumns(left, _, right):
            yield left
            yield right
        case Constant():
            return
        case Compare(column) | In(column) | IsNull(column) | Like(column):
            yield column


def _literal(value: Value, data_type: DataType) -> str:
    """A literal as people write it: times as dates and clocks, all else as Python does."""
    match data_type:
        case PrimitiveType("date") if isinstance(value, int):
            return f"'{_date(value)}'"
        case PrimitiveType("timestamp" | "timestamp_ntz" as name) if isinstance(value, int):
            return f"'{_clock(value)}{'Z' if name == 'timestamp' else ''}'"
    return repr(value)


def _date(days: int) -> str:
    year, month, day = date_of(days)
    return f"{year:04}-{month:02}-{day:02}"


def _clock(micros: int) -> str:
    days, rest = divmod(micros, MICROS_PER_DAY)
    seconds, fraction = divmod(rest, MICROS_PER_SECOND)
    text = f"{_date(days)}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text
