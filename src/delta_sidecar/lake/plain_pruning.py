"""The plain evaluator of pruning policies: one file at a time, one condition after the other, in plain Python.

It shares with the listing what a condition means for a column (the bound expression) and how writers' dates and times
are parsed; the comparisons are its own, so that the two can be held against each other.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec
import numpy as np

from delta_sidecar.predicates.expression import (
    INVERSE,
    And,
    Column,
    Compare,
    Constant,
    Expression,
    In,
    IsNull,
    Not,
    Operator,
    Or,
)
from delta_sidecar.pruning.file_bounds import is_prunable
from delta_sidecar.scan.file_infos import FileInfo
from delta_sidecar.values import temporal
from delta_sidecar.values.comparison import INTEGERS, TIMESTAMPS, has_bounds, is_float, unscaled
from delta_sidecar.values.partition_values import zone_of
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType
from delta_sidecar.values.widening import MILLISECOND, Side, rounded_decimal, was_float, widened_decimal

PLAIN_COLUMNS: Final = ("path", "size", "modification_time", "partition_values", "deletion_vector", "stats")
"""What the listing must have."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_INFINITE: Final = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_COMPARE: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class _Number(str):
    """A number with a fraction or an exponent, as it is written."""

    __slots__ = ()


_DECODER: Final = msgspec.json.Decoder(float_hook=_Number)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of one column in one file; None is unknown."""

    minimum: Any = None
    maximum: Any = None
    null_count: int | None = None
    num_records: int | None = None
    may_hold_nan: bool = False


class PlainFiles:
    """Leaves out files one by one."""

    def __init__(self, condition: Expression | None, partition_timezone: str) -> None:
        self._condition = condition
        self._zone = zone_of(partition_timezone)

    def passing(self, files: Iterable[FileInfo]) -> Iterator[FileInfo]:
        """The files that may hold a matching row."""
        return (file for file in files if self._condition is None or self._may_match(file, self._condition))

    def _may_match(self, file: FileInfo, condition: Expression) -> bool:
        stats = _decoded(file.stats)

        def known(column: Column) -> _Known:
            if not is_prunable(column):
                return _Known()
            if column.is_partition:
                return _of_partition(file.partition_values, column, self._zone)
            return _of_stats(stats, column)

        return _may(condition, True, known)


def _may(expression: Expression, wanted: bool, known: Callable[[Column], _Known]) -> bool:
    """Whether some row may give `wanted`."""
    match expression:
        case Constant(value):
            return value is wanted
        case Not(term):
            return _may(term, not wanted, known)
        case And(terms):
            return (all if wanted else any)(_may(term, wanted, known) for term in terms)
        case Or(terms):
            return (any if wanted else all)(_may(term, wanted, known) for term in terms)
        case IsNull(column):
            return _may_be_null(known(column)) if wanted else _may_be_present(known(column))
        case Compare(column, op, value):
            bounds = known(column)
            literal = _comparable(value, column.type)
            return _may_be_present(bounds) and _may_compare(op if wanted else INVERSE[op], literal, wanted, bounds)
        case In(column, values):
            bounds = known(column)
            literals = [_comparable(value, column.type) for value in values]
            return _may_be_present(bounds) and _may_be_in(literals, wanted, bounds)
    raise AssertionError(f"no policy says {expression}")


def _may_be_null(known: _Known) -> bool:
    return known.null_count != 0


def _may_be_present(known: _Known) -> bool:
    return known.null_count is None or known.null_count != known.num_records


def _may_compare(op: Operator, value: Any, wanted: bool, known: _Known) -> bool:
    if _is_nan(value) or (known.may_hold_nan and (op == "!=" or not wanted)):
        return True
    low, high = known.minimum, known.maximum
    match op:
        case "=":
            return _possible("<=", low, value) and _possible(">=", high, value)
        case "!=":
            return _possible("!=", low, value) or _possible("!=", high, value)
        case "<" | "<=":
            return _possible(op, low, value)
        case ">" | ">=":
            return _possible(op, high, value)


def _may_be_in(values: list[Any], wanted: bool, known: _Known) -> bool:
    if any(map(_is_nan, values)) or (known.may_hold_nan and not wanted):
        return True
    low, high = known.minimum, known.maximum
    if wanted:
        return any(_possible("<=", low, value) and _possible(">=", high, value) for value in values)
    return low is None or high is None or low != high or low not in values


def _possible(op: Operator, bound: Any, value: Any) -> bool:
    return bound is None or _COMPARE[op](bound, value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _comparable(value: Any, data_type: DataType) -> Any:
    """A literal in the form of bounds: texts in the order of their bytes, decimals without their point."""
    if isinstance(data_type, DecimalType):
        return unscaled(value, data_type.scale)
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


# Partition values


def _of_partition(values: Mapping[str, str | None], column: Column, zone: tzinfo) -> _Known:
    """A value bounds itself. A missing one, null and the empty text are null; one that cannot be read is unknown."""
    text = values.get(column.fields[0].physical_name)
    if not text:
        return _Known(null_count=1, num_records=1)
    value = _partition_value(text, column.type, zone)
    if value is None:
        return _Known(num_records=1)
    return _Known(null_count=0, num_records=1) if _is_nan(value) else _Known(value, value, 0, 1)


def _partition_value(text: str, data_type: DataType, zone: tzinfo) -> Any:
    try:
        match data_type:
            case DecimalType():
                low, high = (rounded_decimal(Decimal(text), data_type, side) for side in Side)
                return low if low == high else None
            case PrimitiveType(name) if name in INTEGERS:
                return _within(int(text), INTEGERS[name])
            case PrimitiveType("float"):
                return _single(float(text))
            case PrimitiveType("double"):
                return float(text)
            case PrimitiveType("boolean"):
                return {"true": 1, "false": 0}.get(text.lower())
            case PrimitiveType("date"):
                return temporal.parse_days(text)
            case PrimitiveType("timestamp"):
                return temporal.micros_in_zone(text, zone)
            case PrimitiveType("timestamp_ntz"):
                moment = temporal.parse_moment(text)
                return None if moment is None or not moment.exact or moment.offset else moment.micros
    except (ValueError, InvalidOperation):
        return None
    return text.encode("utf-8", "surrogatepass")


def _within(value: int, bits: int) -> int | None:
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


# Statistics


def _decoded(text: str | None) -> Mapping[str, Any]:
    try:
        decoded = None if text is None else _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        decoded = None
    return decoded if isinstance(decoded, dict) else {}


def _of_stats(stats: Mapping[str, Any], column: Column) -> _Known:
    low, high = None, None
    if has_bounds(column.type):
        low = _bound(_leaf(stats, "minValues", column), column, Side.MINIMUM)
        high = _bound(_leaf(stats, "maxValues", column), column, Side.MAXIMUM)
    nulls, rows = _count(_leaf(stats, "nullCount", column)), _count(stats.get("numRecords"))
    return _Known(low, high, nulls, rows, is_float(column.type))


def _leaf(stats: Mapping[str, Any], kind: str, column: Column) -> Any:
    level: Any = stats.get(kind)
    for name in column.physical_path:
        level = level.get(name) if isinstance(level, dict) else None
    return level


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None


def _bound(written: Any, column: Column, side: Side) -> Any:
    """A bound as the log has it, moved outwards by as much as writers round."""
    match column.type:
        case DecimalType(precision):
            return _decimal_bound(written, column.type, precision, side)
        case PrimitiveType(name) if name in INTEGERS:
            return written if type(written) is int and _LEAST <= written <= _MOST else None
        case PrimitiveType("float" | "double"):
            return _float_bound(written, column, side)
        case PrimitiveType("date"):
            return temporal.parse_days(written) if type(written) is str else None
        case PrimitiveType(name) if name in TIMESTAMPS:
            return _time_bound(written, name, side)
    return written.encode("utf-8", "surrogatepass") if type(written) is str else None


def _decimal_bound(written: Any, data_type: DecimalType, precision: int, side: Side) -> int | None:
    try:
        value = Decimal(written) if type(written) in (int, str, _Number) else None
    except InvalidOperation:
        value = None
    bound = rounded_decimal(value, data_type, side)
    return bound if precision <= 15 else widened_decimal(bound, data_type, side)


def _float_bound(written: Any, column: Column, side: Side) -> float | None:
    if type(written) is str:
        value = _INFINITE.get(written)
    else:
        value = float(written) if type(written) in (int, _Number) else None
    if value is None:
        return None
    single = _single(value)
    if column.type == PrimitiveType("float"):
        return single if math.isfinite(single) or math.isinf(value) else None
    if not was_float(column.fields[-1]) or not math.isfinite(single):
        return value
    with np.errstate(over="ignore", under="ignore"):
        towards = np.float32(-math.inf if side is Side.MINIMUM else math.inf)
        return float(np.nextafter(np.float32(single), towards))


def _single(value: float) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(value))


def _time_bound(written: Any, name: str, side: Side) -> int | None:
    if type(written) is not str:
        return None
    micros = temporal.utc_micros(written) if name == "timestamp" else temporal.local_micros(written)
    if micros is None:
        return None
    if side is Side.MAXIMUM:
        return min(micros, _MOST - MILLISECOND) + MILLISECOND
    return max(micros, _LEAST + MILLISECOND) - MILLISECOND if micros <= 0 else micros
