"""What a pyarrow expression implies is true wherever the expression is."""

from __future__ import annotations

import datetime as dt
import operator
from decimal import Decimal
from functools import cache, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar.predicates.arrow_expression import Implied
from delta_sidecar.predicates.arrow_expression import implied as implied_by
from delta_sidecar.predicates.arrow_tree import ParsedExpression, is_arrow_expression
from delta_sidecar.predicates.binding import Binder
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.values.types import StructField, StructType, parse_type
from tests.predicates.arrow_expressions import DAY, NAN, leaves, trees, truths
from tests.properties.settings import random_cases, shards

CASES = 300
KINDS = {
    "long": [0, 3, -1, 2**24 + 1, 2**53 + 1, 2**53],
    "byte": [0, 3, -1, 100],
    "double": [0.0, -0.0, 0.1, 1.5, 3.0, NAN, float("inf"), 2.0**53],
    "float": [0.0, -0.0, 0.10000000149011612, 1.5, NAN, 16777216.0],
    "string": ["", "a", "ab", "AB", "a%", "é", "b", "3"],
    "binary": [b"", b"ab"],
    "boolean": [True, False],
    "timestamp": [0, DAY, DAY + 1, -1, DAY - 7_200_000_000],
    "timestamp_ntz": [0, DAY, DAY + 1, -1],
    "date": [0, 1, -1],
    "decimal(12,2)": [Decimal(v) for v in ("0.00", "1.50", "1.51", "3.00", "-0.01")],
}
INNER = StructType((StructField("c.d", parse_type("long")),))
SCHEMA = StructType((*(StructField(kind, parse_type(kind)) for kind in KINDS), StructField("st", INNER)))
ARROW = SCHEMA.to_arrow()
BINDER = Binder(SCHEMA, frozenset({"string", "long"}))
COLUMNS = [*(pc.field(kind) for kind in KINDS), pc.field("st", "c.d")]


def batch(most: int) -> pa.RecordBatch:
    """Values up to a size, in every order with each other; the largest are those that Arrow refuses to cast."""
    columns: list[pa.Array] = []
    for place, (kind, pool) in enumerate(KINDS.items()):
        values = [v for v in pool if not isinstance(v, int | float) or v != v or abs(v) <= most] + [None]
        columns.append(
            pa.array([values[(row // (place + 1)) % len(values)] for row in range(90)], ARROW.field(kind).type)
        )
    inner = [None if row % 7 == 0 else {"c.d": [3, None, 0][row % 3]} for row in range(90)]
    return pa.RecordBatch.from_arrays([*columns, pa.array(inner, ARROW.field("st").type)], schema=ARROW)


BATCHES = [batch(10**20), batch(DAY + 1), batch(1000)]


@cache
def known_leaves() -> list[tuple[pc.Expression, pa.RecordBatch]]:
    """Every condition that pyarrow can evaluate, with rows on which it can."""
    judged = [
        (leaf, next((rows for rows in BATCHES if truths(leaf, rows) is not None), None)) for leaf in leaves(COLUMNS)
    ]
    return [(leaf, rows) for leaf, rows in judged if rows is not None]


def implied(expression: pc.Expression, binder: Binder, schema: pa.Schema) -> Implied:
    return implied_by(ParsedExpression(expression), binder, schema)


def check(expression: pc.Expression, rows: pa.RecordBatch) -> bool:
    """Whether something was implied; it must be true wherever the expression is."""
    theirs = truths(expression, rows)
    if theirs is None:
        return False
    found = implied(expression, BINDER, ARROW)
    if found is None:
        return False
    ours = matching(found, rows).to_pylist()
    wrong = [row for row, (their, our) in enumerate(zip(theirs, ours, strict=True)) if their and our is not True]
    assert not wrong, f"{expression} is true of {rows.slice(wrong[0], 1).to_pylist()}, {found} is not"
    return True


@pytest.mark.slow
def test_every_condition() -> None:
    """Both it and its negation."""
    understood = sum(check(leaf, rows) + check(pc.invert(leaf), rows) for leaf, rows in known_leaves())
    assert len(known_leaves()) > 2_000
    assert understood > 2_000, "the check must have something to check"


@pytest.mark.slow
@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(expression=trees(st.deferred(lambda: st.sampled_from(known_leaves())).map(lambda known: known[0])))
def test_conditions_of_conditions(shard: int, expression: pc.Expression) -> None:
    note(str(expression))
    for rows in BATCHES:
        check(expression, rows)


x, f, s, t = map(pc.field, ("double", "float", "string", "timestamp"))
n, d, m = map(pc.field, ("timestamp_ntz", "date", "decimal(12,2)"))
NO_TRUTH = pc.scalar(pa.scalar(None, pa.bool_()))
a = pc.field("long")
UTC = dt.UTC


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (a > 1, "long > 1"),
        (pc.less(pc.scalar(1), a), "long > 1"),
        (a > 1.5, "long > 1"),
        (a == 1.5, "(long IS NULL) AND (NULL)"),
        (a == pa.scalar(None, pa.int64()), "NULL"),
        (x > 2, "double > 2.0"),
        (f == 0.1, "(float IS NULL) AND (NULL)"),
        (pc.field("st", "c.d") == 3, "st.c.d = 3"),
        (pc.field("st", "C.D") == 3, None),
        (pc.field("LONG") == 3, None),
        (pc.field("nowhere") == 3, None),
        (pc.field(0) == 3, None),
        (a == a, None),
        (a + 1 > 3, None),
        (a.cast(pa.int32()) > 3, "long > 3"),
        (a.cast(pa.int32(), safe=False) > 3, None),
        (a.cast(pa.string()) == "3", None),
        (x.cast(pa.float32()) > 3, None),
        (f.cast(pa.float64()) > 3, "float > 3.0"),
        (a > pc.scalar("4").cast(pa.int64()), "long > 4"),
        ((a > 1) & (a + 1 > 3), "long > 1"),
        ((a > 1) | (a + 1 > 3), None),
        (~((a > 1) & (s < "b")), "(NOT (long > 1)) OR (NOT (string < 'b'))"),
        (~((a > 1) | (a + 1 > 3)), "NOT (long > 1)"),
        ((a > 1) == False, "NOT (long > 1)"),  # noqa: E712
        (pc.field("boolean"), "boolean = True"),
        (~pc.field("boolean"), "NOT (boolean = True)"),
        (a.isin([1, 2]), "long IN (1, 2)"),
        (a.isin([1, None]), "(long = 1) OR (long IS NULL)"),
        (pc.is_in(a, value_set=pa.array([1, None]), skip_nulls=True), "long = 1"),
        (~a.isin([1, 2]), "(NOT (long IN (1, 2))) OR (long IS NULL)"),
        (~a.isin([1, None]), "NOT (long = 1)"),
        (a.isin([]), "FALSE"),
        (a.isin([None]), "long IS NULL"),
        (~a.isin([]), None),
        (x.isin([1.5, NAN]), None),
        (~x.isin([1.5, NAN, 0.0]), "(NOT (double = 1.5)) OR (double IS NULL)"),
        (f.isin([0.1]), None),
        (a.isin(range(20_000)), "(long >= 0) AND (long <= 19999)"),
        (reduce(operator.or_, [a == n for n in range(3)]), "long IN (0, 1, 2)"),
        (pc.if_else(a.is_valid(), a.isin([1, 2]), NO_TRUTH), "(NOT (long IS NULL)) AND (long IN (1, 2))"),
        (pc.if_else(a.is_valid(), a > 1, a + 1 > 3), "((NOT (long IS NULL)) AND (long > 1)) OR (long IS NULL)"),
        (pc.if_else(a > 5, s == "a", s < "b"),
         "((long > 5) AND (string = 'a')) OR ((NOT (long > 5)) AND (string < 'b'))"),
        (pc.coalesce(a > 5, pc.scalar(False)), "long > 5"),
        (a.is_null(), "long IS NULL"),
        (x.is_null(nan_is_null=True), None),
        (~x.is_null(nan_is_null=True), "NOT (double IS NULL)"),
        (a.is_null(nan_is_null=True), "long IS NULL"),
        (x.is_nan(), "NOT (double IS NULL)"),
        (pc.field("st").is_null(), "st IS NULL"),
        (pc.starts_with(s, "a_"), "string LIKE 'a\\\\_%'"),
        (pc.starts_with(s, "a", ignore_case=True), None),
        (pc.match_like(s, "a_c%"), "string LIKE 'a%'"),
        (pc.match_like(s, "ac"), "string = 'ac'"),
        (~pc.match_like(s, "a_c%"), None),
        (~pc.match_like(s, "a%"), "NOT (string LIKE 'a%')"),
        (t > dt.datetime(2026, 2, 10, 22, tzinfo=UTC), "timestamp > '2026-02-10T22:00:00Z'"),
        (t >= pa.scalar(1_001, pa.timestamp("ns", "UTC")), "timestamp > '1970-01-01T00:00:00.000001Z'"),
        (n > dt.datetime(2026, 2, 10, 22), "timestamp_ntz > '2026-02-10T22:00:00'"),
        (t > dt.datetime(2026, 2, 10, 22), None),
        (n > dt.datetime(2026, 2, 10, 22, tzinfo=UTC), None),
        (t > dt.date(2026, 2, 10), None),
        (d > dt.date(2026, 2, 10), "date > '2026-02-10'"),
        (d > dt.datetime(2026, 2, 10, 22), "date > '2026-02-10'"),
        (m > Decimal("1.505"), "decimal(12,2) > Decimal('1.50')"),
        (m > 1.5, None),
        (pc.scalar(False), "FALSE"),
        (pc.scalar(True), None),
        (pc.scalar(None), "FALSE"),
    ],
)  # fmt: skip
def test_what_is_implied(expression: pc.Expression, expected: str | None) -> None:
    found = implied(expression, BINDER, ARROW)
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize(
    ("kind", "understood"),
    [(pa.float64(), False), (pa.int32(), False), (pa.dictionary(pa.int32(), pa.int64()), True), (pa.int64(), True)],
)
def test_columns_that_an_expression_sees_in_other_types(kind: pa.DataType, understood: bool) -> None:
    """A dataset may have a schema of its own, in which comparisons are others."""
    seen = pa.schema([ARROW.field(name) if name != "long" else pa.field("long", kind) for name in ARROW.names])
    assert (implied(a > 3, BINDER, seen) is not None) == understood


def test_long_chains_are_not_deep() -> None:
    """DataFusion writes a list of values as an OR of as many terms."""
    found = implied(reduce(operator.or_, [a == number for number in range(3_000)]), BINDER, ARROW)
    assert str(found).startswith("long IN (0, 1, 2, ")
    deep: Any = reduce(lambda inner, _: ~(inner & (s == "a")), range(3_000), a > 1)
    assert implied(deep, BINDER, ARROW) is None, "what is too deep implies nothing"


def test_what_is_no_expression() -> None:
    assert is_arrow_expression(a > 1)
    assert not any(map(is_arrow_expression, ("a > 1", [("a", ">", 1)], None, pa.scalar(1))))
    assert ParsedExpression(pc.field(0) > 1).tree is None
