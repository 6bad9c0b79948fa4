"""Polars' expressions for our values and predicates, with our meaning.

Polars has NaN equal to itself and above all numbers; we follow IEEE.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from delta_sidecar.engines.engine_plan import NotTranslatedError
from delta_sidecar.predicates.evaluation import literal_array
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
from delta_sidecar.predicates.like import like_regex, like_tokens
from delta_sidecar.values.types import PrimitiveType

if TYPE_CHECKING:
    import polars as pl

_OPERATORS: Final[Mapping[Operator, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))
_INTEGERS: Final = tuple(PrimitiveType(name) for name in ("byte", "short", "integer", "long"))


def polars_predicate(expression: Expression) -> pl.Expr:
    """The predicate over the columns of a frame: true, false and null as we have it."""
    import polars as pl

    match expression:
        case And(terms):
            return reduce(operator.and_, map(polars_predicate, terms))
        case Or(terms):
            return reduce(operator.or_, map(polars_predicate, terms))
        case Not(term):
            return ~polars_predicate(term)
        case Constant(value):
            return pl.lit(value, pl.Boolean)
        case IsNull(column):
            return _values(column).is_null()
        case Compare(column, op, value):
            compared: pl.Expr = _OPERATORS[op](_values(column), _literal(value, column))
            # NaN is above all numbers there.
            return compared & _values(column).is_not_nan() if column.type in _FLOATS and op in (">", ">=") else compared
        case CompareColumns(left, op, right):
            return _compare_columns(left, op, right)
        case In(column, values):
            return _values(column).is_in(_series(values, column).implode())
        case Like(column, pattern, escape):
            return _like(_values(column), pattern, escape)


def _values(column: Column) -> pl.Expr:
    import polars as pl

    top, *inner = column.path
    values = pl.col(_checked(top))
    for name in inner:
        values = values.struct.field(_checked(name))
    return values


def _checked(name: str) -> str:
    """Polars reads `^…$` as a pattern and `*` as all columns."""
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        raise NotTranslatedError(f"Polars reads the name {name!r} as a pattern")
    return name


def _series(values: Sequence[Value], column: Column) -> pl.Series:
    import polars as pl

    try:
        found = pl.from_arrow(literal_array(values, column))
    except UnicodeDecodeError:
        raise NotTranslatedError(f"a text that {column} is compared with is not UTF-8") from None
    assert isinstance(found, pl.Series)
    return found


def _literal(value: Value, column: Column) -> pl.Expr:
    return _only_value(_series([value], column))


def scalar_literal(scalar: pa.Scalar) -> pl.Expr:
    """A partition value."""
    import polars as pl

    found = pl.from_arrow(pa.array([scalar.as_py()], scalar.type) if scalar.is_valid else pa.nulls(1, scalar.type))
    assert isinstance(found, pl.Series)
    return _only_value(found)


def _only_value(values: pl.Series) -> pl.Expr:
    """The value of a series of one. A time goes as its count of units: as a datetime it would load the time zones,
    which take 2 MB."""
    import polars as pl

    is_time = isinstance(values.dtype, pl.Datetime)
    return pl.lit(values.to_physical()[0] if is_time else values[0], values.dtype)


def _compare_columns(left: Column, op: Operator, right: Column) -> pl.Expr:
    import polars as pl

    one, other = _values(left), _values(right)
    if left.type == right.type or (left.type in _INTEGERS and right.type in _INTEGERS):
        compared: pl.Expr = _OPERATORS[op](one, other)
    elif {left.type, right.type} <= {*_FLOATS, *_INTEGERS}:
        one, other = one.cast(pl.Float64), other.cast(pl.Float64)
        compared = _OPERATORS[op](one, other)
    else:
        raise NotTranslatedError(f"Polars compares {left.type} with {right.type} in its own way")
    if left.type not in _FLOATS and right.type not in _FLOATS:
        return compared
    is_nan = reduce(operator.or_, [v.cast(pl.Float64).is_nan() for v in (one, other)])
    known = one.is_not_null() & other.is_not_null()
    return pl.when(~known).then(pl.lit(None, pl.Boolean)).when(is_nan).then(pl.lit(op == "!=")).otherwise(compared)


def _like(values: pl.Expr, pattern: str, escape: str) -> pl.Expr:
    import polars as pl

    match tokens := like_tokens(pattern, escape):
        case []:
            return values == pl.lit("")
        case [("", text)]:
            return values == pl.lit(text)
        case [("", text), ("%", _)]:
            return values.str.starts_with(text)
        case [("%", _), ("", text)]:
            return values.str.ends_with(text)
        case [("%", _), ("", text), ("%", _)]:
            return values.str.contains(text, literal=True)
    return values.str.contains(like_regex(tokens))
