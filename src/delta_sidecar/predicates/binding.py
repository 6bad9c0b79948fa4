"""A condition bound to a table: names become columns, literals become values of the columns' types.

What SQL says in many ways becomes the few nodes of `predicates.expression`, with the same three-valued result:
`BETWEEN` is two comparisons, `IS TRUE` and `IS [NOT] DISTINCT FROM` spell out when they are true, and `date(ts) = …` is
the range of timestamps of that day, so it prunes like one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from delta_sidecar.errors import PredicateError, UnknownColumnError
from delta_sidecar.predicates import condition as written
from delta_sidecar.predicates.condition import Condition, DayOf, Name, Operand
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
    Operator,
    Or,
    Value,
)
from delta_sidecar.predicates.fitting import INTEGER_BITS, LONG_MAX, NOWHERE, Place, place, place_date, uncomparable
from delta_sidecar.predicates.literals import Blank, Boolean, Bytes, Day, Float, Instant, Literal, Null, Number, Text
from delta_sidecar.predicates.predicate_sql import parse_sql
from delta_sidecar.predicates.predicate_tuples import Filters, RowFilters, parse_filters
from delta_sidecar.values.calendar import MICROS_PER_DAY
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType, StructField, StructType

MIRRORED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


UNKNOWN = Constant(None)


@dataclass(frozen=True, slots=True)
class Binder:
    """Binds conditions to one table."""

    schema: StructType
    partition_columns: frozenset[str]
    partition_timezone: str = "UTC"

    def bind(self, condition: Condition) -> Expression:
        match condition:
            case written.All(conditions):
                return And(tuple(map(self.bind, conditions)))
            case written.Any(conditions):
                return Or(tuple(map(self.bind, conditions)))
            case written.Negation(inner):
                return Not(self.bind(inner))
            case written.Truth(inner, value):
                return _truth(self.bind(inner), value)
            case written.Comparison(left, op, right):
                return self._compare(left, op, right)
            case written.Sameness(left, right):
                return self._same(left, right)
            case written.Membership(operand, options):
                return self._membership(operand, options)
            case written.Nullness(operand):
                return self._null(operand)
            case written.Likeness(operand, pattern, escape):
                return self._like(operand, pattern, escape)
            case written.Bare(operand):
                return self._bare(operand)

    def column(self, name: Name) -> Column:
        """The column of that name; `UnknownColumnError` if there is none."""
        fields = self._resolve(name)
        return Column(fields, len(fields) == 1 and fields[0].name in self.partition_columns)

    def _resolve(self, name: Name) -> tuple[StructField, ...]:
        try:
            return self.schema.resolve(name.parts)
        except UnknownColumnError:
            if not name.dotted or "." not in name.parts[0]:
                raise
        return self.schema.resolve(name.parts[0].split("."))

    def _compare(self, left: Operand, op: Operator, right: Operand) -> Expression:
        if isinstance(left, DayOf):
            return self._compare_day(left, op, right)
        if isinstance(right, DayOf):
            return self._compare_day(right, MIRRORED[op], left)
        if isinstance(left, Name):
            if isinstance(right, Name):
                return _compare_columns(self.column(left), op, self.column(right))
            return self._compare_literal(self.column(left), op, right)
        if isinstance(right, Name):
            return self._compare_literal(self.column(right), MIRRORED[op], left)
        return _compare_literals(left, op, right)

    def _compare_literal(self, column: Column, op: Operator, literal: Literal) -> Expression:
        if isinstance(literal, Blank) and column.is_partition and op in ("=", "!="):
            return IsNull(column) if op == "=" else Not(IsNull(column))
        if op not in ("=", "!=") and column.type == PrimitiveType("string") and isinstance(literal, Number | Float):
            raise PredicateError(
                f"column {column} is a string and has no order relative to a number; "
                f"write {column} {op} '{literal.text or literal.value}' to compare strings"
            )
        where = self._place(literal, column)
        return UNKNOWN if where is None else _at(column, op, where)

    def _compare_day(self, day: DayOf, op: Operator, other: Operand) -> Expression:
        """`date(column) op literal`, as a range of the column."""
        column = self._day_column(day)
        if isinstance(other, Name | DayOf):
            raise PredicateError(f"date({column}) can be compared only with a literal, not with a column")
        if column.type == PrimitiveType("date"):
            return self._compare_literal(column, op, other)
        if isinstance(other, Null | Blank):
            return UNKNOWN
        return _at_day(column, op, place_date(other, column))

    def _day_column(self, day: DayOf) -> Column:
        column = self.column(day.name)
        if _group(column.type) != "time":
            raise PredicateError(f"column {column} is {column.type}: date({column}) needs a timestamp or a date")
        return column

    def _place(self, literal: Literal, column: Column) -> Place | None:
        """The literal among the column's values; None for null."""
        if isinstance(literal, Blank):
            literal = Null() if column.is_partition else Text("")
        if isinstance(literal, Null):
            if _group(column.type) is None:
                raise uncomparable(column)
            return None
        return place(literal, column, self.partition_timezone)

    def _null(self, operand: Operand) -> Expression:
        if isinstance(operand, DayOf):
            return IsNull(self._day_column(operand))
        return IsNull(self.column(operand)) if isinstance(operand, Name) else Constant(isinstance(operand, Null))

    def _same(self, left: Operand, right: Operand) -> Expression:
        if isinstance(left, Null) or isinstance(right, Null):
            return self._null(right if isinstance(left, Null) else left)
        equal = is_true(self._compare(left, "=", right))
        if isinstance(left, Name) and isinstance(right, Name):
            return Or((equal, And((IsNull(self.column(left)), IsNull(self.column(right))))))
        return equal

    def _membership(self, operand: Operand, options: Sequence[Operand]) -> Expression:
        if not isinstance(operand, Name) or any(isinstance(option, Name | DayOf) for option in options):
            return Or(tuple(self._compare(operand, "=", option) for option in options))
        column = self.column(operand)
        places = [self._place(option, column) for option in options if not isinstance(option, Name | DayOf)]
        membership = one_of(column, [p.floor for p in places if p is not None and p.exact and p.floor is not None])
        return Or((membership, UNKNOWN)) if None in places else membership

    def _like(self, operand: Operand, pattern: str, escape: str) -> Expression:
        if not isinstance(operand, Name):
            raise PredicateError("LIKE needs a column on its left")
        column = self.column(operand)
        if column.type != PrimitiveType("string"):
            raise PredicateError(f"column {column} is {column.type}: LIKE needs a string column")
        return Like(column, pattern, _checked_escape(pattern, escape))

    def _bare(self, operand: Operand) -> Expression:
        match operand:
            case Null():
                return UNKNOWN
            case Boolean(value):
                return Constant(value)
            case Name():
                return _flag(self.column(operand))
            case DayOf():
                raise PredicateError("date(…) alone is not a condition; compare it with something")
            case _:
                raise PredicateError("a literal alone is not a condition; compare a column with it")


def _flag(column: Column) -> Expression:
    if column.type != PrimitiveType("boolean"):
        raise PredicateError(f"column {column} is {column.type}, not a condition; compare it with something")
    return Compare(column, "=", True)


def never(column: Column) -> Expression:
    """False, but unknown where the column is null: a comparison that no value fulfils."""
    return And((IsNull(column), UNKNOWN))


def always(column: Column) -> Expression:
    """True, but unknown where the column is null: a comparison that every value fulfils."""
    return Or((Not(IsNull(column)), UNKNOWN))


def _at(column: Column, op: Operator, where: Place) -> Expression:
    """The comparison with a literal at a place, in values of the column's type."""
    if where is NOWHERE:
        return always(column) if op == "!=" else never(column)
    if where.exact and where.floor is not None:
        return Compare(column, op, where.floor)
    if op in ("=", "!="):
        return never(column) if op == "=" else always(column)
    upwards = op in (">", ">=")
    if where.floor is None:
        return always(column) if upwards else never(column)
    return Compare(column, ">" if upwards else "<=", where.floor)


def _at_day(column: Column, op: Operator, where: Place) -> Expression:
    """The comparison of a column's day with a literal at a place among days, as a range of timestamps."""
    assert isinstance(where.floor, int)
    first, after = where.floor * MICROS_PER_DAY, (where.floor + 1) * MICROS_PER_DAY
    if op in ("=", "!="):
        inside = And((_from(column, first), _before(column, after))) if where.exact else never(column)
        return inside if op == "=" else Not(inside)
    if op in (">", "<="):
        return _from(column, after) if op == ">" else _before(column, after)
    edge = first if where.exact else after
    return _from(column, edge) if op == ">=" else _before(column, edge)


def _from(column: Column, micros: int) -> Expression:
    """At or after an instant, which may be beyond every timestamp."""
    if micros > LONG_MAX:
        return never(column)
    return always(column) if micros <= -LONG_MAX - 1 else Compare(column, ">=", micros)


def _before(column: Column, micros: int) -> Expression:
    """Before an instant, which may be beyond every timestamp."""
    if micros > LONG_MAX:
        return always(column)
    return never(column) if micros <= -LONG_MAX - 1 else Compare(column, "<", micros)


def one_of(column: Column, values: Iterable[Value]) -> Expression:
    """`column IN (values)`, in its simplest form."""
    distinct = tuple(dict.fromkeys(values))
    match distinct:
        case ():
            return never(column)
        case (value,):
            return Compare(column, "=", value)
        case _:
            return In(column, distinct)


def _checked_escape(pattern: str, escape: str) -> str:
    if len(escape) > 1:
        raise PredicateError(f"ESCAPE {escape!r} must be one character, or empty for none")
    unescaped = pattern.replace(escape * 2, "") if escape else pattern
    if escape and unescaped.endswith(escape):
        raise PredicateError(
            f"the LIKE pattern {pattern!r} ends in its escape character; write it twice: {escape * 2!r}"
        )
    return escape


_GROUPS = {
    "string": "string",
    "binary": "binary",
    "boolean": "boolean",
    "float": "number",
    "double": "number",
    "date": "time",
    "timestamp": "time",
    "timestamp_ntz": "time",
} | dict.fromkeys(INTEGER_BITS, "number")


def _group(data_type: DataType) -> str | None:
    """What kind of thing a type's values are: only values of one kind compare."""
    if isinstance(data_type, DecimalType):
        return "number"
    return _GROUPS.get(data_type.name) if isinstance(data_type, PrimitiveType) else None


def _compare_columns(left: Column, op: Operator, right: Column) -> Expression:
    if _group(left.type) is None or _group(left.type) != _group(right.type):
        raise PredicateError(f"columns {left} ({left.type}) and {right} ({right.type}) cannot be compared")
    return CompareColumns(left, op, right)


_COMPARISONS: dict[Operator, Callable[[object, object], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


def _compare_literals(left: Literal, op: Operator, right: Literal) -> Expression:
    if isinstance(left, Null) or isinstance(right, Null):
        return UNKNOWN
    for kind in (Number | Float, Text, Boolean, Bytes, Day | Instant):
        if isinstance(left, kind) and isinstance(right, kind) and type(left) is type(right):
            return Constant(_COMPARISONS[op](_key(left), _key(right)))
    raise PredicateError("two literals of different kinds are compared; one side should be a column")


def _key(literal: Literal) -> object:
    """What orders literals of one kind; strings in the order of their UTF-8."""
    match literal:
        case Text(value):
            return value.encode("utf-8", "surrogatepass")
        case Instant(value, exact):
            return value, not exact
        case Null() | Blank():
            return None
        case _:
            return literal.value


def is_true(expression: Expression) -> Expression:
    """True exactly where the expression is true, else false: never unknown."""
    match expression:
        case Constant(value):
            return Constant(value is True)
        case IsNull():
            return expression
        case Not(term):
            return is_false(term)
        case And(terms):
            return And(tuple(map(is_true, terms)))
        case Or(terms):
            return Or(tuple(map(is_true, terms)))
        case _:
            return And((*_known(expression), expression))


def is_false(expression: Expression) -> Expression:
    """True exactly where the expression is false, else false: never unknown."""
    match expression:
        case Constant(value):
            return Constant(value is False)
        case IsNull():
            return Not(expression)
        case Not(term):
            return is_true(term)
        case And(terms):
            return Or(tuple(map(is_false, terms)))
        case Or(terms):
            return And(tuple(map(is_false, terms)))
        case _:
            return And((*_known(expression), Not(expression)))


def _known(expression: Compare | CompareColumns | In | Like) -> tuple[Expression, ...]:
    """Conditions under which a comparison is not unknown."""
    if isinstance(expression, CompareColumns):
        return Not(IsNull(expression.left)), Not(IsNull(expression.right))
    return (Not(IsNull(expression.column)),)


def _truth(expression: Expression, value: bool | None) -> Expression:
    if value is None:
        return Not(Or((is_true(expression), is_false(expression))))
    return is_true(expression) if value else is_false(expression)


def parse_predicate(predicate: str | Filters | RowFilters | Condition, now: int | None = None) -> Condition | None:
    """The condition as it is written, bound to no table; None if it leaves nothing out."""
    if isinstance(predicate, str):
        return parse_sql(predicate, now)
    if isinstance(predicate, Condition):
        return predicate
    if not isinstance(predicate, (list, tuple)):
        raise PredicateError(
            f"a predicate is SQL text, a list of filters or a pyarrow expression, not a {type(predicate).__name__}"
        )
    return parse_filters(predicate)


def bind_predicate(
    predicate: str | Filters | RowFilters | Condition | None,
    schema: StructType,
    partition_columns: Sequence[str],
    partition_timezone: str = "UTC",
    now: int | None = None,
) -> Expression | None:
    """The predicate over the columns of a table; None if there is none.

    `now()` is evaluated once, here: it is `now`, microseconds since 1970-01-01 UTC, or else the present.
    Raises `PredicateError` for what cannot be parsed or does not fit the schema, `UnknownColumnError` for
    a column that is not there.
    """
    if predicate is None:
        return None
    try:
        condition = parse_predicate(predicate, now)
        binder = Binder(schema, frozenset(partition_columns), partition_timezone)
        return None if condition is None else binder.bind(condition)
    except RecursionError:
        raise PredicateError("the predicate is nested too deeply; use IN (…) for many values of one column") from None
