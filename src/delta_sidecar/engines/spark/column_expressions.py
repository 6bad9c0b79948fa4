"""A bound predicate as a column of Spark that is true, false and null of the same rows as in our own evaluation.

Of our tree and not of the user's text, because the two languages differ: Spark holds NaN larger than every number,
reads times in the zone of the session, and has rules of its own for LIKE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from delta_sidecar.engines.spark.spark_types import is_plain_text
from delta_sidecar.errors import PredicateError
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
)
from delta_sidecar.predicates.like import backslash_pattern, like_tokens
from delta_sidecar.values.bucket_columns import quoted
from delta_sidecar.values.calendar import MICROS_PER_DAY, MICROS_PER_SECOND, date_of
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType

_OPERATORS: Final[dict[Operator, Callable[[Any, Any], SparkColumn]]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_FLOATS: Final = (PrimitiveType("float"), PrimitiveType("double"))


def column_of(expression: Expression) -> SparkColumn:
    """The condition as a column of a frame that has the table's names; `PredicateError` for what has no such form."""
    match expression:
        case And(terms):
            return reduce(and_, map(column_of, terms))
        case Or(terms):
            return reduce(or_, map(column_of, terms))
        case Not(term):
            return ~column_of(term)
        case Constant(value):
            return literal(value, PrimitiveType("boolean"))
        case IsNull(column):
            return named(*column.path).isNull()
        case Compare(column, op, value):
            return _compare(column, op, literal(value, column.type))
        case CompareColumns(left, op, right):
            return _compare_columns(left, op, right)
        case In(column, values):
            return _bytes_of(column).isin(*(literal(value, column.type) for value in values))
        case Like(column, pattern, escape):
            return F.like(_bytes_of(column), F.lit(backslash_pattern(like_tokens(pattern, escape))), F.lit("\\"))


def named(*parts: str) -> SparkColumn:
    """The column of that path, whatever characters its names have."""
    return F.col(quoted(*parts))


def literal(value: Any, data_type: DataType) -> SparkColumn:
    """A value in Arrow's physical form (see `predicates.expression`) as a column of the type."""
    name = str(data_type)
    if value is None:
        return F.lit(None).cast(name)
    match data_type:
        case DecimalType():
            return F.lit(f"{value:f}").cast(name)
        case PrimitiveType("date"):
            return F.date_from_unix_date(F.lit(value))
        case PrimitiveType("timestamp"):
            return F.timestamp_micros(F.lit(value))
        case PrimitiveType("timestamp_ntz"):
            return F.lit(_clock(value)).cast(name)
        case PrimitiveType("binary"):
            return F.lit(bytearray(value))
    return F.lit(value).cast(name)


def _compare(column: Column, op: Operator, value: SparkColumn) -> SparkColumn:
    values = _bytes_of(column)
    compared = _OPERATORS[op](values, value)
    return compared & ~F.isnan(values) if op in (">", ">=") and column.type in _FLOATS else compared


def _compare_columns(left: Column, op: Operator, right: Column) -> SparkColumn:
    """A comparison of columns of one type: Spark and we have different rules for the others, and for NaN."""
    if left.type != right.type or left.type in _FLOATS:
        raise PredicateError(
            f"columns {left} ({left.type}) and {right} ({right.type}) cannot be compared here; "
            "compare them in Spark, or read the table with spark.read.format('sidecar')"
        )
    return _OPERATORS[op](_bytes_of(left), _bytes_of(right))


def _bytes_of(column: Column) -> SparkColumn:
    """The column; text that Spark does not compare by its bytes is refused."""
    if not all(map(is_plain_text, column.fields)):
        raise PredicateError(
            f"column {column} has a collation or is CHAR or VARCHAR, which Spark compares by rules of its own; "
            "filter on it in Spark"
        )
    return named(*column.path)


def _clock(micros: int) -> str:
    """A time without zone as Spark reads it, in any year."""
    days, rest = divmod(micros, MICROS_PER_DAY)
    seconds, fraction = divmod(rest, MICROS_PER_SECOND)
    year, month, day = date_of(days)
    years = f"{year:04}" if 0 <= year <= 9999 else f"{year:+07}"
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"{years}-{month:02}-{day:02} {clock}"
