"""Pruning against real rows: a file that holds a matching row is never pruned, whoever wrote its stats.

The writers below round as the real ones do; the evaluator is the simplest one there is.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.predicates.expression import And, Column, Compare, Expression, In, IsNull, Like, Not, Or
from delta_sidecar.pruning.may_match import may_match
from delta_sidecar.pruning.row_group_bounds import RowGroupBounds
from delta_sidecar.values.comparison import literals
from delta_sidecar.values.types import DataType, DecimalType, PrimitiveType, arrow_type
from tests.pruning.bounds_tables import column, kept, partition_batch, stats_batch

EPOCH = datetime(1970, 1, 1)
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
MICROS = st.one_of(
    st.integers(-3_000, 3_000),
    st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    st.integers(-(10**15), 10**15),
)
TEXTS = st.text(st.sampled_from("ab\x00é\ud7ff\ue000\uffff\U00010000\U0001f600\U0010ffff"), max_size=80)
FLOAT32 = st.one_of(
    st.floats(width=32), st.sampled_from([0.1, -0.1, 16777216.0, 1e-45, -0.0, 0.0]).map(lambda v: float(np.float32(v)))
)


@st.composite
def decimals_of(draw: st.DrawFn, kind: DecimalType) -> Decimal:
    top = 10**kind.precision - 1
    unscaled = draw(st.one_of(st.integers(-top, top), st.integers(-9999, 9999)))
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))


VALUES: dict[DataType, st.SearchStrategy[Any]] = {
    PrimitiveType("long"): st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    PrimitiveType("byte"): st.integers(-128, 127),
    PrimitiveType("float"): FLOAT32,
    PrimitiveType("double"): st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1.0, float("nan")])),
    PrimitiveType("string"): TEXTS,
    PrimitiveType("date"): st.integers(-719_162, 2_932_896),
    PrimitiveType("timestamp"): MICROS,
    PrimitiveType("timestamp_ntz"): MICROS,
    DecimalType(9, 2): decimals_of(DecimalType(9, 2)),
    DecimalType(16, 2): decimals_of(DecimalType(16, 2)),
    DecimalType(38, 10): decimals_of(DecimalType(38, 10)),
}


def key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def compare(op: str, left: Any, right: Any) -> bool:
    a, b = key(left), key(right)
    return {"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def evaluate(expression: Expression, value: Any) -> bool | None:
    """SQL's three values for one row."""
    match expression:
        case Not(term):
            inner = evaluate(term, value)
            return None if inner is None else not inner
        case And(terms):
            found = [evaluate(t, value) for t in terms]
            return False if False in found else None if None in found else True
        case Or(terms):
            found = [evaluate(t, value) for t in terms]
            return True if True in found else None if None in found else False
        case IsNull():
            return value is None
        case _ if value is None:
            return None
        case Compare(_, op, literal):
            return compare(op, value, literal)
        case In(_, choices):
            return any(compare("=", value, choice) for choice in choices)
        case Like(_, pattern):
            return str(value).startswith(pattern[:-1])
    raise AssertionError(expression)


@dataclass(frozen=True)
class Writer:
    """How a writer puts a bound into JSON."""

    nan_is_largest: bool
    decimals_by_double: bool
    float_text: Callable[[float], str]
    cut: Callable[[int], int]
    """Microseconds to milliseconds."""
    space: bool
    offset: int
    """Hours from UTC in which instants are printed."""

    def bound(self, values: list[Any], kind: DataType, largest: bool) -> str | None:
        present = [v for v in values if v is not None]
        if isinstance(kind, PrimitiveType) and kind.name in ("float", "double"):
            numbers = [v for v in present if not isnan(v)]
            if self.nan_is_largest and len(numbers) < len(present) and (largest or not numbers):
                return '"NaN"'
            present = numbers
        if not present:
            return None
        return self.text((max if largest else min)(present, key=key), kind, largest)

    def text(self, value: Any, kind: DataType, largest: bool) -> str:
        match kind:
            case DecimalType():
                return repr(float(value)) if self.decimals_by_double else str(value)
            case PrimitiveType("float" | "double" as name):
                if value in (float("inf"), float("-inf")):
                    return '"Infinity"' if value > 0 else '"-Infinity"'
                return self.float_text(value) if name == "float" else repr(value)
            case PrimitiveType("string"):
                return json.dumps(truncated(value, largest))
            case PrimitiveType("date"):
                return json.dumps((date(1970, 1, 1) + timedelta(days=value)).isoformat())
            case PrimitiveType("timestamp" | "timestamp_ntz" as name):
                return json.dumps(self.timestamp(self.cut(value), name == "timestamp"))
        return str(value)

    def timestamp(self, millis: int, zoned: bool) -> str:
        shift = self.offset if zoned and abs(millis) < 10**13 else 0
        text = (EPOCH + timedelta(milliseconds=millis, hours=shift)).isoformat(
            " " if self.space else "T", "milliseconds"
        )
        return text + (("Z" if shift == 0 else f"{shift:+03d}:00") if zoned else "")


def truncated(value: str, largest: bool) -> str:
    if len(value) <= 32:
        return value
    return value[:32] + ("\U0010ffff" * 49 if largest else "")


SPARK = Writer(True, False, lambda v: str(np.float32(v)), lambda us: us // 1000, False, -8)
DELTALAKE = Writer(False, True, repr, lambda us: us // 1000, True, 0)
TOWARDS_ZERO = Writer(True, False, repr, lambda us: us // 1000 if us >= 0 else -(-us // 1000), False, 2)


@st.composite
def conditions(draw: st.DrawFn, of: Column, values: st.SearchStrategy[Any]) -> Expression:
    form = draw(st.sampled_from(["compare", "compare", "compare", "in", "null", "like"]))
    if form == "null":
        return IsNull(of)
    if form == "in":
        return In(of, tuple(draw(st.lists(values, min_size=1, max_size=5))))
    literal = draw(values)
    if form == "like" and isinstance(literal, str):
        return Like(of, literal[: draw(st.integers(0, 40))] + "%")
    compared = Compare(of, draw(st.sampled_from(OPERATORS)), literal)  # type: ignore[arg-type]
    return Not(compared) if draw(st.booleans()) else compared


def predicates(of: Column, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Expression]:
    def combined(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        pairs = st.tuples(inner, inner)
        return st.one_of(inner.map(Not), pairs.map(And), pairs.map(Or))

    return st.recursive(conditions(of, values), combined, max_leaves=4)


@st.composite
def cases(draw: st.DrawFn) -> tuple[DataType, list[Any], Expression]:
    """A type, the rows of a file, and a predicate whose literals are often among the rows."""
    kind = draw(st.sampled_from(list(VALUES)))
    rows = draw(st.lists(st.one_of(st.none(), VALUES[kind]), max_size=6))
    present = [v for v in rows if v is not None]
    literals_ = st.one_of(st.sampled_from(present), VALUES[kind]) if present else VALUES[kind]
    return kind, rows, draw(predicates(column(kind), literals_))


def stats_text(writer: Writer, kind: DataType, rows: list[Any], counts: bool) -> str:
    low, high = (writer.bound(rows, kind, largest) for largest in (False, True))
    parts = [f'"minValues":{{"x":{low}}}'] if low else []
    parts += [f'"maxValues":{{"x":{high}}}'] if high else []
    parts += [f'"numRecords":{len(rows)},"nullCount":{{"x":{rows.count(None)}}}'] if counts else []
    return "{" + ",".join(parts) + "}"


@given(cases(), st.sampled_from([SPARK, DELTALAKE, TOWARDS_ZERO]), st.booleans())
def test_a_file_with_a_matching_row_is_never_pruned(
    case: tuple[DataType, list[Any], Expression], writer: Writer, counts: bool
) -> None:
    kind, rows, expression = case
    text = stats_text(writer, kind, rows, counts)
    if any(evaluate(expression, row) for row in rows):
        assert kept(expression, stats_batch([None, text]), column(kind))[1], (text, rows, str(expression))


def physical(rows: list[Any], kind: DataType) -> pa.Array:
    """Rows in Arrow's form."""
    target = arrow_type(kind)
    if pa.types.is_timestamp(target) or pa.types.is_date(target):
        width = pa.int32() if pa.types.is_date(target) else pa.int64()
        return pa.array(rows, width).cast(target)
    return pa.array(rows, target)


@given(cases())
def test_a_row_group_with_a_matching_row_is_never_pruned(case: tuple[DataType, list[Any], Expression]) -> None:
    kind, rows, expression = case
    if not rows:
        return
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": physical(rows, kind)}), sink, row_group_size=2)
    file = pq.ParquetFile(io.BytesIO(sink.getvalue()))
    source = RowGroupBounds(file.metadata, file.schema_arrow)
    flags = may_match(expression, source, len(source)).to_pylist()
    for group, flag in enumerate(flags):
        held = [evaluate(expression, row) for row in rows[group * 2 : group * 2 + 2]]
        assert flag or True not in held, (rows, str(expression))


@given(cases())
def test_typed_stats_never_prune_a_matching_row(case: tuple[DataType, list[Any], Expression]) -> None:
    kind, rows, expression = case
    present = [v for v in rows if v is not None and v == v]
    ends = [pick(present, key=key) if present else None for pick in (min, max)]
    sides = [pa.StructArray.from_arrays([physical([end], kind)], ["x"]) for end in ends]
    nulls = pa.StructArray.from_arrays([pa.array([rows.count(None)], pa.int64())], ["x"])
    names = ["minValues", "maxValues", "nullCount", "numRecords"]
    parsed = pa.StructArray.from_arrays([*sides, nulls, pa.array([len(rows)], pa.int64())], names)
    batch = pa.RecordBatch.from_arrays([parsed], ["stats_parsed"])
    if any(evaluate(expression, row) for row in rows):
        assert kept(expression, batch, column(kind)) == [True], (rows, str(expression))


@given(cases())
def test_partition_values_decide_exactly(case: tuple[DataType, list[Any], Expression]) -> None:
    """On partition values pruning is not a guess: a file stays if and only if its one value matches, NaN aside."""
    kind, rows, expression = case
    of = column(kind, partition=True)
    rows = [row for row in rows if row != ""]
    batch = partition_batch([{"x": None if row is None else partition_text(row, kind)} for row in rows])
    flags = kept(on_partition(expression, of), batch)
    for row, flag in zip(rows, flags, strict=True):
        matched = evaluate(expression, row) is True
        assert flag or not matched, (row, str(expression))
        if row is None or (not isinstance(row, float) and single(expression)):
            assert flag == matched, (row, str(expression))


def single(expression: Expression) -> bool:
    """No LIKE, whose negation is a range on purpose."""
    match expression:
        case Not(term):
            return single(term)
        case And(terms) | Or(terms):
            return all(map(single, terms))
    return not isinstance(expression, Like)


def on_partition(expression: Expression, of: Column) -> Expression:
    match expression:
        case Not(term):
            return Not(on_partition(term, of))
        case And(terms):
            return And(tuple(on_partition(t, of) for t in terms))
        case Or(terms):
            return Or(tuple(on_partition(t, of) for t in terms))
        case Compare(_, op, value):
            return Compare(of, op, value)
        case In(_, values):
            return In(of, values)
        case Like(_, pattern):
            return Like(of, pattern)
        case IsNull():
            return IsNull(of)
    raise AssertionError(expression)


def partition_text(value: Any, kind: DataType) -> str:
    match kind:
        case PrimitiveType("date"):
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        case PrimitiveType("timestamp" | "timestamp_ntz"):
            return (EPOCH + timedelta(microseconds=value)).isoformat(" ", "microseconds")
        case PrimitiveType("float" | "double"):
            return str(value).replace("nan", "NaN").replace("inf", "Infinity")
    return str(value)


@given(st.data(), st.sampled_from([k for k in VALUES if k not in (PrimitiveType("float"), PrimitiveType("double"))]))
def test_what_lies_far_outside_is_pruned(data: st.DataObject, kind: DataType) -> None:
    low, middle, high = sorted(data.draw(st.lists(VALUES[kind], min_size=3, max_size=3)), key=key)
    of = column(kind)
    around = literals([low, middle, high], kind)
    text = stats_text(SPARK, kind, [middle], True)
    [below, above] = [kept(Compare(of, op, v), stats_batch([text]), of)[0] for op, v in (("<", low), (">", high))]
    if distinct(around, kind):
        assert (below, above) == (False, False), (low, middle, high)


def distinct(around: pa.Array, kind: DataType) -> bool:
    """Far enough apart that no rounding can reach from one to the next."""
    low, middle, high = around.to_pylist()
    if isinstance(low, bytes):
        return len(middle.decode()) <= 32
    if isinstance(kind, DecimalType):
        slack = max(abs(low), abs(middle), abs(high)) / 2**40 + 1
        return bool(middle - low > slack and high - middle > slack)
    slack = 5000 if kind in (PrimitiveType("timestamp"), PrimitiveType("timestamp_ntz")) else 0
    return bool(middle - low >= slack and high - middle >= slack)
