"""May a file (or a row group) hold a matching row?

False only if the bounds prove that no row makes the predicate true; an unknown bound keeps the file.
NOT is pushed down: `NOT x` is true where `x` is false, so each node answers whether some row may make it true, and
whether some row may make it false. A comparison with a value that is null in every row is neither.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from delta_sidecar import arrays
from delta_sidecar.arrays import Flags, pc
from delta_sidecar.predicates.expression import (
    INVERSE,
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
    columns_of,
)
from delta_sidecar.predicates.like import LikePrefix, like_prefix, matching_like
from delta_sidecar.pruning.file_bounds import Bounds, BoundsSource, is_prunable
from delta_sidecar.values.comparison import literals, unscaled_integers
from delta_sidecar.values.types import PrimitiveType


def may_match(expression: Expression, source: BoundsSource, count: int) -> pa.BooleanArray:
    """For each of the source's `count` files or row groups: may it hold a row that matches? Never null."""
    return arrays.booleans(_may(expression, True, _Remembered(source), count))


class _Remembered:
    """Finds the bounds of each column once."""

    def __init__(self, source: BoundsSource) -> None:
        self._source = source
        self._bounds: dict[Column, Bounds | None] = {}

    def bounds(self, column: Column) -> Bounds | None:
        if column not in self._bounds:
            self._bounds[column] = self._source.bounds(column)
        return self._bounds[column]


def needed_stats(expression: Expression) -> list[Column]:
    """The columns whose stats can prune by this predicate; none if it is on partition columns alone."""
    return list(dict.fromkeys(c for c in _asked(expression) if not c.is_partition and is_prunable(c)))


def _asked(expression: Expression) -> list[Column]:
    match expression:
        case And(terms) | Or(terms):
            return [column for term in terms for column in _asked(term)]
        case Not(term):
            return _asked(term)
        case CompareColumns():
            return []
    return list(columns_of(expression))


def _may(expression: Expression, wanted: bool, source: BoundsSource, count: int) -> Flags:
    """Where some row may give `wanted`."""
    match expression:
        case Constant(value):
            return np.full(count, value is wanted)
        case Not(term):
            return _may(term, not wanted, source, count)
        case And(terms):
            return _combined(terms, wanted, source, count, every=wanted)
        case Or(terms):
            return _combined(terms, wanted, source, count, every=not wanted)
        case CompareColumns():
            return np.ones(count, dtype=np.bool_)
        case Compare(column) | In(column) | IsNull(column) | Like(column):
            bounds = source.bounds(column)
            return np.ones(count, dtype=np.bool_) if bounds is None else _condition(expression, wanted, bounds)


def _combined(terms: Sequence[Expression], wanted: bool, source: BoundsSource, count: int, every: bool) -> Flags:
    result = np.full(count, every)
    for term in terms:
        if not result.any() if every else result.all():
            break
        flags = _may(term, wanted, source, count)
        result = result & flags if every else result | flags
    return result


def _condition(condition: Compare | In | IsNull | Like, wanted: bool, bounds: Bounds) -> Flags:
    match condition:
        case IsNull():
            return _may_be_null(bounds) if wanted else _may_be_present(bounds)
        case Compare(column, op, value):
            return _may_be_present(bounds) & _compare(column, op if wanted else INVERSE[op], value, wanted, bounds)
        case In(column, values):
            return _may_be_present(bounds) & _in(column, values, wanted, bounds)
        case Like(column):
            return _may_be_present(bounds) & _like(condition, wanted, bounds)


def _may_be_null(bounds: Bounds) -> Flags:
    return possible(pc.not_equal(bounds.null_count, arrays.int64s([0])[0]))


def _may_be_present(bounds: Bounds) -> Flags:
    """Where some row may be other than null."""
    return possible(pc.not_equal(bounds.null_count, bounds.num_records))


def possible(flags: pa.BooleanArray) -> Flags:
    """True or unknown."""
    return arrays.to_numpy_bool(flags) | ~arrays.to_numpy_bool(flags.is_valid())


def _everything(bounds: Bounds) -> Flags:
    return np.ones(len(bounds.minimum), dtype=np.bool_)


def _compare(column: Column, op: Operator, value: Value, wanted: bool, bounds: Bounds) -> Flags:
    """`op` is what the rows must fulfil. A row that is NaN fulfils `!=` and every negation."""
    unordered = isinstance(value, float) and math.isnan(value)
    if unordered or (bounds.may_hold_nan and (op == "!=" or not wanted)):
        return _everything(bounds)
    literal = literals([value], column.type)[0]
    match op:
        case "=":
            return possible(pc.less_equal(bounds.minimum, literal)) & possible(
                pc.greater_equal(bounds.maximum, literal)
            )
        case "!=":
            return possible(pc.not_equal(bounds.minimum, literal)) | possible(pc.not_equal(bounds.maximum, literal))
        case "<":
            return possible(pc.less(bounds.minimum, literal))
        case "<=":
            return possible(pc.less_equal(bounds.minimum, literal))
        case ">":
            return possible(pc.greater(bounds.maximum, literal))
        case ">=":
            return possible(pc.greater_equal(bounds.maximum, literal))


def _in(column: Column, values: Sequence[Value], wanted: bool, bounds: Bounds) -> Flags:
    if any(isinstance(v, float) and math.isnan(v) for v in values) or (bounds.may_hold_nan and not wanted):
        return _everything(bounds)
    candidates = _sorted(literals(values, column.type))
    return _holds_one_of(candidates, bounds) if wanted else ~_only_one_of(candidates, bounds)


def _sorted(values: pa.Array) -> pa.Array:
    return values.take(pc.array_sort_indices(values))


def _holds_one_of(candidates: pa.Array, bounds: Bounds) -> Flags:
    """Where the smallest candidate that is not below the minimum is not above the maximum."""
    positions = _positions(candidates, pc.coalesce(bounds.minimum, candidates[0]))
    beyond: Flags = positions == len(candidates)
    nearest = candidates.take(arrays.indices(np.where(beyond, 0, positions)))
    reached = possible(pc.less_equal(nearest, bounds.maximum))
    return reached & ~beyond


def _positions(candidates: pa.Array, values: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """For each value, the position of the first candidate that is not below it."""
    if candidates.type in (pa.int64(), pa.float64()):
        dtype = np.int64 if candidates.type == pa.int64() else np.float64
        return np.searchsorted(_fixed(candidates, dtype), _fixed(values, dtype), side="left")
    ordered = _ordered(candidates)
    return np.fromiter((bisect_left(ordered, v) for v in _ordered(values)), dtype=np.int64, count=len(values))


def _fixed(array: pa.Array, dtype: Any) -> np.ndarray[Any, Any]:
    return np.frombuffer(array.buffers()[1], dtype)[array.offset : array.offset + len(array)]


def _ordered(array: pa.Array) -> list[Any]:
    """Python values in the array's order: bytes, or a decimal's integers."""
    return unscaled_integers(array) if pa.types.is_decimal128(array.type) else array.to_pylist()


def _only_one_of(candidates: pa.Array, bounds: Bounds) -> Flags:
    """Where every row is one and the same candidate."""
    single = pc.and_kleene(pc.equal(bounds.minimum, bounds.maximum), pc.is_in(bounds.minimum, value_set=candidates))
    return ~possible(pc.invert(single))


def _like(condition: Like, wanted: bool, bounds: Bounds) -> Flags:
    if condition.column.type != PrimitiveType("string"):
        return _everything(bounds)
    if bounds.are_values:
        return _is_like(condition, wanted, bounds)
    prefix = like_prefix(condition.pattern, condition.escape)
    if prefix.is_literal:
        return _compare(condition.column, "=" if wanted else "!=", prefix.text, wanted, bounds)
    if wanted:
        return possible(_not_before(bounds.maximum, prefix)) & possible(_not_after(bounds.minimum, prefix))
    inside = pc.and_kleene(_not_before(bounds.minimum, prefix), _not_after(bounds.maximum, prefix))
    return possible(pc.invert(inside)) if prefix.is_all else _everything(bounds)


def _is_like(condition: Like, wanted: bool, bounds: Bounds) -> Flags:
    """Where the value itself matches, or does not."""
    try:
        values = bounds.minimum.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return _everything(bounds)
    found = matching_like(values, condition.pattern, condition.escape)
    return possible(found if wanted else pc.invert(found))


def _not_before(values: pa.Array, prefix: LikePrefix) -> pa.BooleanArray:
    return pc.greater_equal(values, arrays.binaries([prefix.start])[0])


def _not_after(values: pa.Array, prefix: LikePrefix) -> pa.BooleanArray:
    """Whether values are below the first string after all that begin with the prefix; if there is none, true."""
    if prefix.stop is None:
        return pc.equal(values, values)
    return pc.less(values, arrays.binaries([prefix.stop])[0])
