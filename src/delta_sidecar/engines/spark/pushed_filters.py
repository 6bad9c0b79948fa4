"""Spark's filters, read weakly: what they imply in our own terms, or nothing.

Spark applies every filter to the rows again, so a filter that is not understood costs time and never rows. One that is
understood leaves out files and rows, so it may be true of no row less than in Spark. Spark differs from us in NaN,
which it holds equal to itself and larger than all numbers: what could be true of a NaN there is not translated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from delta_sidecar.engines.spark.spark_types import is_plain_text
from delta_sidecar.errors import InputError
from delta_sidecar.predicates import condition as written
from delta_sidecar.predicates.binding import Binder
from delta_sidecar.predicates.condition import Condition, Name
from delta_sidecar.predicates.expression import INVERSE, Column, Expression, Operator, all_of
from delta_sidecar.predicates.like import like_text
from delta_sidecar.predicates.literals import Literal, Text
from delta_sidecar.predicates.predicate_tuples import literal
from delta_sidecar.values.types import DecimalType, PrimitiveType

_COMPARISONS: Final[dict[type[Filter], Operator]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_INTEGERS: Final = ("byte", "short", "integer", "long")
_FLOATS: Final = ("float", "double")
_FLOAT_TYPES: Final = tuple(map(PrimitiveType, _FLOATS))


def implied_by(filters: Iterable[Filter], binder: Binder) -> Expression | None:
    """A condition that is true of every row that all filters are true of; None if nothing is known."""
    return all_of(_implied(each, binder) for each in filters)


def _implied(spark_filter: Filter, binder: Binder) -> Expression | None:
    negated = isinstance(spark_filter, Not)
    inner: Any = spark_filter.child if isinstance(spark_filter, Not) else spark_filter
    try:
        name = Name(tuple(inner.attribute))
        column = binder.column(name)
        condition = _condition(inner, name, column, negated)
        return None if condition is None else binder.bind(condition)
    except (AttributeError, InputError):
        return None


def _condition(inner: Any, name: Name, column: Column, negated: bool) -> Condition | None:
    if not isinstance(column.type, PrimitiveType | DecimalType) or not all(map(is_plain_text, column.fields)):
        return None
    match inner:
        case IsNull() | IsNotNull():
            null = written.Nullness(name)
            return null if isinstance(inner, IsNull) is not negated else written.Negation(null)
        case EqualNullSafe(value=None):
            return written.Negation(written.Nullness(name)) if negated else written.Nullness(name)
        case EqualNullSafe(value=value) if not negated:
            return _comparison(name, column, "=", value)
        case EqualTo() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            op = _COMPARISONS[type(inner)]
            return _comparison(name, column, INVERSE[op] if negated else op, inner.value)
        case In():
            return _membership(name, column, inner.value, negated)
        case StringStartsWith() | StringEndsWith() | StringContains():
            return _likeness(name, column, inner, negated)
    return None


def _comparison(name: Name, column: Column, op: Operator, value: Any) -> Condition | None:
    if op in (">", ">=") and column.type in _FLOAT_TYPES:
        return None
    found = _literal(column, value)
    return None if found is None else written.Comparison(name, op, found)


def _membership(name: Name, column: Column, values: Any, negated: bool) -> Condition | None:
    """`NOT IN` with a null among the values is true of no row; what the other values say holds all the more."""
    found = [_literal(column, value) for value in values if value is not None]
    options = tuple(each for each in found if each is not None)
    if not options or len(options) < len(found):
        return None
    membership = written.Membership(name, options)
    return written.Negation(membership) if negated else membership


def _likeness(name: Name, column: Column, inner: Any, negated: bool) -> Condition | None:
    if column.type != PrimitiveType("string") or not isinstance(inner.value, str):
        return None
    text = like_text(inner.value)
    before = "" if isinstance(inner, StringStartsWith) else "%"
    after = "" if isinstance(inner, StringEndsWith) else "%"
    likeness = written.Likeness(name, f"{before}{text}{after}")
    return written.Negation(likeness) if negated else likeness


def _literal(column: Column, value: Any) -> Literal | None:
    """The value as a literal, if it is of the column's own type; Spark casts the column where it is not."""
    if not _fits(column, value):
        return None
    # In our tuples an empty text is null on a partition column; in Spark it equals no null.
    return Text(value) if isinstance(value, str) else literal(value)


def _fits(column: Column, value: Any) -> bool:
    match column.type:
        case DecimalType():
            return isinstance(value, Decimal) and value.is_finite()
        case PrimitiveType("string"):
            return isinstance(value, str)
        case PrimitiveType("binary"):
            return isinstance(value, bytes | bytearray)
        case PrimitiveType("boolean"):
            return isinstance(value, bool)
        case PrimitiveType("date"):
            return isinstance(value, date) and not isinstance(value, datetime)
        case PrimitiveType("timestamp"):
            return isinstance(value, datetime) and value.tzinfo is not None
        case PrimitiveType("timestamp_ntz"):
            return isinstance(value, datetime) and value.tzinfo is None
        case PrimitiveType(name) if name in _INTEGERS:
            return isinstance(value, int) and not isinstance(value, bool)
        case PrimitiveType(name) if name in _FLOATS:
            return isinstance(value, float) and not math.isnan(value)
    return False
