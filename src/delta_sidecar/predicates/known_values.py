"""What is left of a predicate where the values of some columns are known, as partition columns' are for one file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from delta_sidecar.predicates.binding import MIRRORED
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.predicates.expression import (
    And,
    Column,
    Compare,
    CompareColumns,
    Constant,
    Expression,
    Not,
    Or,
    columns_of,
)


def with_values(expression: Expression, row: pa.RecordBatch) -> Expression:
    """The expression in one row's values: conditions on its columns become constants, the others stay.

    A comparison of a known column with an unknown one becomes one with a literal if both have the same type, and stays
    as it is otherwise.
    """
    match expression:
        case And(terms):
            return And(tuple(with_values(term, row) for term in terms))
        case Or(terms):
            return Or(tuple(with_values(term, row) for term in terms))
        case Not(term):
            return Not(with_values(term, row))
    known = [_is_known(column, row) for column in columns_of(expression)]
    if known and all(known):
        return Constant(matching(expression, row)[0].as_py())
    if isinstance(expression, CompareColumns) and any(known):
        return _compared(expression, known[0], row)
    return expression


def _is_known(column: Column, row: pa.RecordBatch) -> bool:
    return len(column.path) == 1 and column.path[0] in row.schema.names


def _compared(expression: CompareColumns, left_is_known: bool, row: pa.RecordBatch) -> Expression:
    """A comparison with the one column that is known."""
    known, other = (expression.left, expression.right) if left_is_known else (expression.right, expression.left)
    value = physical(row.column(known.path[0])[0])
    if value is None:
        return Constant(None)
    if known.type != other.type:
        return expression
    return Compare(other, MIRRORED[expression.op] if left_is_known else expression.op, value)


def physical(scalar: pa.Scalar) -> Any:
    """A scalar's value as an `Expression` holds it: times as numbers of days or microseconds; None for null."""
    if not scalar.is_valid:
        return None
    return scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()


def simplified(expression: Expression) -> Expression:
    """The same expression without constants that decide nothing, terms that repeat, and AND in AND."""
    match expression:
        case And(terms):
            return _joined(And, True, map(simplified, terms))
        case Or(terms):
            return _joined(Or, False, map(simplified, terms))
        case Not(term):
            return _negated(simplified(term))
    return expression


def _joined(kind: type[And] | type[Or], neutral: bool, terms: Iterable[Expression]) -> Expression:
    """AND or OR of simplified terms; `neutral` is the constant that changes nothing in it."""
    kept: dict[Expression, None] = {}
    for term in terms:
        for part in term.terms if isinstance(term, And | Or) and isinstance(term, kind) else (term,):
            if part == Constant(not neutral):
                return part
            if part != Constant(neutral):
                kept[part] = None
    if not kept:
        return Constant(neutral)
    return next(iter(kept)) if len(kept) == 1 else kind(tuple(kept))


def _negated(term: Expression) -> Expression:
    match term:
        case Constant(value):
            return Constant(None if value is None else not value)
        case Not(inner):
            return inner
    return Not(term)
