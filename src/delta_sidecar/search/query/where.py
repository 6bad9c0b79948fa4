"""A predicate as lookups in a split, exactly: the rows for which it is true in SQL's three-valued logic.

Nothing is filtered afterwards, so what the fields cannot answer exactly is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from delta_sidecar.errors import QueryError
from delta_sidecar.predicates.expression import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Value,
    columns_of,
)
from delta_sidecar.predicates.like import ANY, like_tokens
from delta_sidecar.search.query.plan import (
    AllOf,
    Always,
    AnyOf,
    Except,
    Interval,
    Lookup,
    Matching,
    Never,
    OfSplit,
    Plan,
    Present,
)
from delta_sidecar.search.splits.analyzers import MOST_RAW_BYTES
from delta_sidecar.search.splits.fields import BOOLEAN, FLOAT, KEYWORD, STORED, TEXT, SplitField, SplitFields
from delta_sidecar.values.types import DataType

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1
_ORDER: Final = {"=": (0,), "<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "!=": (-1, 1)}
_ALIKE: Final = (frozenset({"byte", "short", "integer", "long"}), frozenset({"float", "double"}))
"""Types whose values are the same in the index."""
_SPECIAL: Final = frozenset("\\.+*?()|[]{}^$#&-~")


def rows_where(expression: Expression, fields: SplitFields) -> Plan:
    """The rows for which a predicate is true.

    Args:
        expression: The predicate, bound to the columns of the table.
        fields: What the splits of the table index.

    Raises:
        QueryError: The fields cannot answer it: a column is not indexed, or not in a way that can.
    """
    return _Where(fields).true(expression)


class _Where:
    def __init__(self, fields: SplitFields) -> None:
        self._fields = fields

    def true(self, expression: Expression) -> Plan:
        if not isinstance(expression, And | Or | Not | Constant) and _is_of_split(expression):
            return OfSplit(expression)
        match expression:
            case And(terms):
                return AllOf(tuple(map(self.true, terms)))
            case Or(terms):
                return AnyOf(tuple(map(self.true, terms)))
            case Not(term):
                return self.false(term)
            case Constant(value):
                return Always() if value else Never()
            case IsNull(column):
                return Except(self._present(column))
            case Compare(column, "!=", value):
                return AllOf((self._present(column), Except(self.true(Compare(column, "=", value)))))
            case Compare(column, op, value):
                return self._compared(column, op, value)
            case In(column, values):
                return self._one_of(column, values)
            case Like(column, pattern, escape):
                keyword = self._keyword(column, "LIKE")
                return Matching(keyword.engine_name, like_regex(_short(column, pattern), escape))
            case CompareColumns():
                raise QueryError(f"{expression} compares two columns; splits look up values only")

    def false(self, expression: Expression) -> Plan:
        if not isinstance(expression, And | Or | Not | Constant) and _is_of_split(expression):
            return OfSplit(Not(expression))
        match expression:
            case And(terms):
                return AnyOf(tuple(map(self.false, terms)))
            case Or(terms):
                return AllOf(tuple(map(self.false, terms)))
            case Not(term):
                return self.true(term)
            case Constant(value):
                return Always() if value is False else Never()
            case IsNull(column):
                return self._present(column)
            case CompareColumns():
                return self.true(expression)
            case Compare(column) | In(column) | Like(column):
                return AllOf((self._present(column), Except(self.true(expression))))

    def _compared(self, column: Column, op: str, value: Value) -> Plan:
        field = self._field(column)
        if field.kind in (TEXT, KEYWORD):
            if op != "=":
                raise QueryError(f"{column} {op} …: texts are looked up as a whole, without an order; use = or LIKE")
            return Lookup(self._keyword(column, op).engine_name, (_short(column, str(value)),))
        if field.kind == BOOLEAN:
            assert isinstance(value, bool)
            kept = tuple(flag for flag in (False, True) if (flag > value) - (flag < value) in _ORDER[op])
            return Lookup(field.engine_name, kept) if kept else Never()
        if field.kind == FLOAT:
            assert isinstance(value, float | int)
            return _floats(field, op, float(value))
        assert isinstance(value, int)
        if op == "=" and field.indexed:
            return Lookup(field.engine_name, (value,)) if LEAST <= value <= MOST else Never()
        low = {"=": value, ">=": value, ">": value + 1}.get(op, LEAST)
        high = {"=": value, "<=": value, "<": value - 1}.get(op, MOST)
        return Interval(field.engine_name, low, high) if LEAST <= low <= high <= MOST else Never()

    def _one_of(self, column: Column, values: Sequence[Value]) -> Plan:
        field = self._field(column)
        if field.kind in (TEXT, KEYWORD):
            texts = tuple(_short(column, str(value)) for value in values)
            return Lookup(self._keyword(column, "IN").engine_name, texts)
        if field.kind in (BOOLEAN, FLOAT):
            return AnyOf(tuple(self._compared(column, "=", value) for value in values))
        numbers = sorted({value for value in values if isinstance(value, int) and LEAST <= value <= MOST})
        if field.indexed:
            return Lookup(field.engine_name, tuple(numbers)) if numbers else Never()
        return AnyOf(tuple(Interval(field.engine_name, low, high) for low, high in _runs(numbers)))

    def _present(self, column: Column) -> Plan:
        field = self._field(column)
        if field.fast:
            return Present(field.engine_name, True)
        if field.kind == TEXT:
            raise QueryError(f"{column} is divided into words, which do not tell whether it is null; {_HOW}")
        if field.kind == KEYWORD:
            return Present(field.engine_name, False)
        bound: tuple[int | float, int | float] = (-math.inf, math.inf) if field.kind == FLOAT else (LEAST, MOST)
        return Interval(field.engine_name, *bound)

    def _field(self, column: Column) -> SplitField:
        field = self._fields.find(column.path[0]) if len(column.path) == 1 else None
        if field is None or field.kind == STORED or not (field.indexed or field.fast):
            known = ", ".join(one.name for one in self._fields if one.kind not in (STORED, TEXT)) or "no column"
            raise QueryError(
                f"{column} is not indexed in these splits, so rows cannot be left out by it; indexed: {known}"
            )
        check_type(field, column.type)
        return field

    def _keyword(self, column: Column, op: str) -> SplitField:
        field = self._field(column)
        if field.kind != KEYWORD or field.analyzer != "raw":
            raise QueryError(f"{column} {op} …: {column} is divided into words, so {op} cannot be answered; {_HOW}")
        return field


def check_type(field: SplitField, now: DataType) -> None:
    """Refuse a column whose type has changed since it was indexed: its values mean something else now.

    Args:
        field: The column as the splits index it.
        now: Its type in the table.

    Raises:
        QueryError: It was of another type. Whole numbers of other widths are the same numbers, and so are floats.
    """
    name = str(now)
    if name != field.type and not any({name, field.type} <= alike for alike in _ALIKE):
        raise QueryError(
            f"the column {field.name} was {field.type} when it was indexed and is {name} now, so the splits cannot "
            "answer for it; build the companion anew: delete it, and follow the table again"
        )


def _short(column: Column, text: str) -> str:
    """A text that can be a term of the index."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise QueryError(f"the value {text[:20]!r} for {column} is not valid Unicode; no text of a table is") from None
    if size > MOST_RAW_BYTES:
        raise QueryError(
            f"the value {text[:20]!r}… for {column} has {size:,} bytes; values of up to {MOST_RAW_BYTES:,} are indexed"
        )
    return text


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as ranges without gaps."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


_HOW: Final = "search for words in the query, or build the splits with this column among the filters"


def _is_of_split(expression: Expression) -> bool:
    columns = list(columns_of(expression))
    return bool(columns) and all(column.is_partition for column in columns)


def _floats(field: SplitField, op: str, value: float) -> Plan:
    """Both zeros are equal, and NaN is in no order: it lies beyond infinity in the engine."""
    if math.isnan(value):
        return Never()
    zero = value == 0.0
    below, above = (-0.0, 0.0) if zero else (value, value)
    low = {"=": below, ">=": below, ">": math.nextafter(above, math.inf)}.get(op, -math.inf)
    high = {"=": above, "<=": above, "<": math.nextafter(below, -math.inf)}.get(op, math.inf)
    if (op == ">" and value == math.inf) or (op == "<" and value == -math.inf):
        return Never()
    return Interval(field.engine_name, low, high)


def like_regex(pattern: str, escape: str) -> str:
    """The engine's regular expression of a LIKE pattern."""
    tokens = like_tokens(pattern, escape)
    return "(?s)" + "".join((".*" if wild == ANY else ".") if wild else escaped(text) for wild, text in tokens)


def escaped(text: str) -> str:
    """A text as a regular expression of the engine that matches nothing else."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in text)
