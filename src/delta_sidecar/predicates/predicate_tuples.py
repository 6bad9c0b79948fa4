"""deltalake's tuple filters: a list of `(column, operator, value)` is their AND, a list of such lists an OR of ANDs.

As in deltalake, `''` on a partition column means null (`=` and `!=` ask for null and not null; in a list of
`in` it is SQL's NULL), and a value of another type is compared with a string column as it is written in the log.
`None` with `=` and `!=` asks for null, too.

Filters of rows (`filters=`) go to pyarrow in deltalake, where null is a value of lists: see `RowFilters`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from delta_sidecar.errors import PredicateError
from delta_sidecar.predicates import condition as written
from delta_sidecar.predicates.condition import Comparison, Condition, Likeness, Membership, Name, Negation, Nullness
from delta_sidecar.predicates.expression import Operator
from delta_sidecar.predicates.literals import Blank, Boolean, Bytes, Day, Float, Instant, Literal, Null, Number, Text

Filter: TypeAlias = tuple[str, str, Any]
Filters: TypeAlias = Sequence[Filter] | Sequence[Sequence[Filter]]


class RowFilters(NamedTuple):
    """Tuple filters of rows, with pyarrow's meaning of null: `not in` keeps null unless the list has None, `in` finds
    null if the list has None, and nothing is equal or unequal to None."""

    filters: Filters


OPERATORS: dict[str, Operator] = {
    "=": "=",
    "==": "=",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_SUPPORTED = "=, ==, !=, <>, <, <=, >, >=, in, not in, like, not like, is null, is not null"
_FORM = "filters are a list of (column, operator, value) tuples, or a list of such lists"
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def parse_filters(filters: Filters | RowFilters) -> Condition | None:
    """The condition; None for no filters at all, which matches everything."""
    of_rows = isinstance(filters, RowFilters)
    items = list(filters.filters if isinstance(filters, RowFilters) else filters)
    if not items:
        return None
    if all(isinstance(item, tuple) for item in items):
        return _conjunction(items, of_rows)
    if all(isinstance(item, list) for item in items):
        return written.Any(tuple(_conjunction(item, of_rows) for item in items))
    raise PredicateError(f"{_FORM}; got {items!r}")


def _conjunction(filters: Sequence[Any], of_rows: bool) -> Condition:
    if not filters:
        raise PredicateError(f"an empty list among the filters; {_FORM}")
    return written.All(tuple(_filter(item, of_rows) for item in filters))


def _filter(item: Any, of_rows: bool) -> Condition:
    if not isinstance(item, tuple) or len(item) not in (2, 3) or not all(isinstance(part, str) for part in item[:2]):
        raise PredicateError(f"{_FORM}; got {item!r}")
    name = Name((item[0],), dotted=True)
    operator = " ".join(item[1].lower().split())
    if operator in ("is null", "is not null"):
        return _negated(Nullness(name), operator == "is not null")
    if len(item) == 2:
        raise PredicateError(f"the filter {item!r} has no value; {_FORM}")
    return _valued(name, operator, item[2], of_rows)


def _valued(name: Name, operator: str, value: Any, of_rows: bool) -> Condition:
    if operator in OPERATORS:
        if value is None and of_rows:
            return Comparison(name, OPERATORS[operator], Null())
        return _comparison(name, OPERATORS[operator], value)
    if operator in ("in", "not in"):
        options = _options(value, operator)
        found = _membership_of_rows(name, options) if of_rows else Membership(name, options)
        return _negated(found, operator == "not in")
    if operator in ("like", "not like"):
        if not isinstance(value, str):
            raise PredicateError(f"{operator} needs a string, not {value!r}")
        return _negated(Likeness(name, value), operator == "not like")
    raise PredicateError(f"the operator {operator!r} is not supported; use one of: {_SUPPORTED}")


def _comparison(name: Name, op: Operator, value: Any) -> Condition:
    if value is None and op in ("=", "!="):
        return _negated(Nullness(name), op == "!=")
    return Comparison(name, op, literal(value))


def _membership_of_rows(name: Name, options: tuple[Literal, ...]) -> Condition:
    """Whether a value is in a list that may hold null: true or false, never unknown."""
    is_null = Nullness(name)
    others = Membership(name, tuple(option for option in options if not isinstance(option, Null)))
    if any(isinstance(option, Null) for option in options):
        return written.Any((is_null, others))
    return written.All((Negation(is_null), others))


def _negated(condition: Condition, negative: bool) -> Condition:
    return Negation(condition) if negative else condition


def _options(values: Any, operator: str) -> tuple[Literal, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise PredicateError(f"{operator} needs a list, tuple or set of values, not {values!r}")
    return tuple(map(literal, values))


def literal(value: Any) -> Literal:
    """A Python value as a literal; NumPy's and pandas' scalars, too."""
    match value:
        case None:
            return Null()
        case bool():
            return Boolean(value, str(value).lower())
        case str():
            return Text(str(value)) if value else Blank()
        case int():
            return Number(Decimal(value), str(Decimal(value)))  # `str` of an int stops at 4,300 digits
        case float():
            return Float(float(value), str(float(value)))
        case Decimal():
            return Number(value, str(value)) if value.is_finite() else Float(float(value), str(value))
        case bytes() | bytearray() | memoryview():
            return Bytes(bytes(value))
        case datetime():
            return _instant(value)
        case date():
            return Day((value - _EPOCH.date()).days, value.isoformat())
        case _ if hasattr(value, "item"):
            return _scalar(value)
    raise PredicateError(f"a {type(value).__name__} cannot be compared: {value!r}")


def _scalar(value: Any) -> Literal:
    item = value.item()
    if hasattr(item, "item") or type(item) is type(value):
        raise PredicateError(f"a {type(value).__name__} cannot be compared: {value!r}")
    if isinstance(item, float) and not math.isnan(item):
        return Float(item, str(value))
    return literal(item)


def _instant(value: datetime) -> Instant:
    """Aware ones are taken to UTC; pandas' timestamps may have nanoseconds."""
    offset = value.utcoffset()
    micros = (value.replace(tzinfo=None, fold=0) - _EPOCH - (offset or timedelta())) // _MICROSECOND
    return Instant(micros, not getattr(value, "nanosecond", 0), offset is not None, value.isoformat(sep=" "))
