"""Predicates as users give them, SQL text or tuple filters, made into an `Expression` of a table."""

from __future__ import annotations

from collections.abc import Sequence

from delta_sidecar.errors import PredicateError
from delta_sidecar.log.schema import StructType
from delta_sidecar.scan.binding import Binder
from delta_sidecar.scan.condition import Condition
from delta_sidecar.scan.expression import Expression
from delta_sidecar.scan.predicate_sql import parse_sql
from delta_sidecar.scan.predicate_tuples import Filters, parse_filters


def parse_predicate(predicate: str | Filters) -> Condition | None:
    """The condition as it is written, bound to no table; None if it leaves nothing out."""
    if isinstance(predicate, str):
        return parse_sql(predicate)
    if not isinstance(predicate, (list, tuple)):
        raise PredicateError(f"a predicate is SQL text or a list of filters, not a {type(predicate).__name__}")
    return parse_filters(predicate)


def bind_predicate(
    predicate: str | Filters | None,
    schema: StructType,
    partition_columns: Sequence[str],
    partition_timezone: str = "UTC",
) -> Expression | None:
    """The predicate over the columns of a table; None if there is none.

    Raises `PredicateError` for what cannot be parsed or does not fit the schema, `UnknownColumnError` for
    a column that is not there.
    """
    if predicate is None:
        return None
    try:
        condition = parse_predicate(predicate)
        binder = Binder(schema, frozenset(partition_columns), partition_timezone)
        return None if condition is None else binder.bind(condition)
    except RecursionError:
        raise PredicateError("the predicate is nested too deeply; use IN (…) for many values of one column") from None
