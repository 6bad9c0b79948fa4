from __future__ import annotations

import math
import random
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.evaluation import matching
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
    Or,
)
from delta_sidecar.values.types import DecimalType
from tests.predicates.predicate_tables import batch, evaluate, field, struct

SCHEMA = struct(
    field("i", "long"),
    field("j", "short"),
    field("f", "float"),
    field("d", "double"),
    field("s", "string"),
    field("t", "string"),
    field("b", "boolean"),
    field("x", "binary"),
    field("dec", DecimalType(38, 10)),
    field("dec2", DecimalType(5, 3)),
    field("n", struct(field("leaf", "integer"))),
)
COLUMNS = {f.name: Column((f,)) for f in SCHEMA if f.name != "n"}
LEAF = Column(SCHEMA.resolve(["n", "leaf"]))

FLOATS = st.sampled_from([0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, 0.25])
TEXTS = st.text(st.sampled_from("ab%_\\.*\né\U0001f600"), max_size=4)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1]),
    "j": st.integers(-3, 3),
    "f": FLOATS,
    "d": FLOATS,
    "s": TEXTS,
    "t": TEXTS,
    "b": st.booleans(),
    "x": st.binary(max_size=2),
    "dec": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda v: Decimal((v < 0, tuple(map(int, str(abs(v)))), -10)))
    | st.just(Decimal("1.5")),
    "dec2": st.integers(-99999, 99999).map(lambda v: Decimal(v).scaleb(-3)) | st.just(Decimal("1.500")),
    "leaf": st.integers(-3, 3),
}
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | VALUES[name] for name in COLUMNS}
        | {"f": st.none() | FLOATS | st.just(math.nan), "d": st.none() | FLOATS | st.just(math.nan)}
        | {"n": st.none() | st.fixed_dictionaries({"leaf": st.none() | VALUES["leaf"]})}
    ),
    max_size=8,
)


def conditions() -> st.SearchStrategy[Expression]:
    names = st.sampled_from(sorted(COLUMNS))
    compare = names.flatmap(lambda n: st.builds(Compare, st.just(COLUMNS[n]), OPERATORS, VALUES[n]))
    in_list = names.flatmap(
        lambda n: st.builds(In, st.just(COLUMNS[n]), st.lists(VALUES[n], min_size=1, max_size=4).map(tuple))
    )
    pairs = st.sampled_from([("i", "j"), ("f", "d"), ("s", "t"), ("dec", "dec2"), ("j", "dec"), ("j", "f"), ("d", "f")])
    columns = st.builds(lambda p, op: CompareColumns(COLUMNS[p[0]], op, COLUMNS[p[1]]), pairs, OPERATORS)
    like = st.builds(
        Like, st.just(COLUMNS["s"]), TEXTS.filter(lambda t: not t.endswith("\\")), st.sampled_from(["\\", ""])
    )
    leaf = st.builds(Compare, st.just(LEAF), OPERATORS, VALUES["leaf"]) | st.just(IsNull(LEAF))
    null = names.map(lambda n: IsNull(COLUMNS[n]))
    return compare | in_list | columns | like | leaf | null | st.builds(Constant, st.sampled_from([True, False, None]))


def expressions() -> st.SearchStrategy[Expression]:
    def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        terms = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.builds(And, terms) | st.builds(Or, terms) | st.builds(Not, inner)

    return st.recursive(conditions(), grow, max_leaves=6)


@given(expressions(), ROWS)
def test_rows_agree_with_a_dumb_evaluator(expression: Expression, rows: list[dict[str, Any]]) -> None:
    found = matching(expression, batch(SCHEMA, rows))
    assert found.type == pa.bool_()
    assert found.to_pylist() == [evaluate(expression, row) for row in rows]


@given(TEXTS, st.sampled_from(["\\", "", "%", "a"]), st.lists(TEXTS, max_size=6))
def test_like(pattern: str, escape: str, texts: list[str]) -> None:
    if escape and pattern.replace(escape * 2, "").endswith(escape):
        pattern += escape
    expression = Like(COLUMNS["s"], pattern, escape)
    rows = [dict.fromkeys(SCHEMA.names) | {"s": text} for text in [*texts, pattern]]
    assert matching(expression, batch(SCHEMA, rows)).to_pylist() == [evaluate(expression, row) for row in rows]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("a%", "a\nb", True),
        ("%b", "a\nb", True),
        ("a_b", "a\nb", True),
        ("_", "\U0001f600", True),
        ("_", "é", True),
        ("__", "é", False),
        ("a.c", "abc", False),
        ("%$", "a\n", False),
        ("a", "a\n", False),
        ("", "", True),
        ("%", "", True),
        ("%%", "x", True),
        ("a\\%", "a%", True),
        ("a\\%", "ab", False),
        ("a\\_%", "a_b", True),
        ("\\\\%", "\\x", True),
        ("%\0_", "x\0y", True),
    ],
)
def test_like_by_hand(pattern: str, text: str, matches: bool) -> None:
    rows = [dict.fromkeys(SCHEMA.names) | {"s": text}, dict.fromkeys(SCHEMA.names)]
    assert matching(Like(COLUMNS["s"], pattern, "\\"), batch(SCHEMA, rows)).to_pylist() == [matches, None]


def test_dates_and_timestamps_compare_across_columns() -> None:
    schema = struct(field("d", "date"), field("t", "timestamp"), field("n", "timestamp_ntz"))
    day, noon = date(2026, 2, 10), datetime(2026, 2, 10, 12)
    rows = [
        {"d": day, "t": noon.replace(tzinfo=UTC), "n": noon},
        {"d": day, "t": datetime(2026, 2, 10, tzinfo=UTC), "n": datetime(2026, 2, 10)},
        {"d": None, "t": noon.replace(tzinfo=UTC), "n": noon + timedelta(microseconds=1)},
    ]
    for text, answer in {
        "d < t": [True, False, None],
        "d = n": [False, True, None],
        "t = n": [True, True, False],
        "t < n": [False, False, True],
    }.items():
        expression = bind_predicate(text, schema, [])
        assert expression is not None
        assert matching(expression, batch(schema, rows)).to_pylist() == answer


def test_a_field_of_a_null_struct_is_null() -> None:
    rows = [dict.fromkeys(SCHEMA.names), dict.fromkeys(SCHEMA.names) | {"n": {"leaf": 1}}]
    assert matching(IsNull(LEAF), batch(SCHEMA, rows)).to_pylist() == [True, False]


def test_sliced_and_empty_batches() -> None:
    rows = [dict.fromkeys(SCHEMA.names) | {"i": i, "n": {"leaf": i}} for i in range(10)]
    whole = batch(SCHEMA, rows)
    both = And((Compare(COLUMNS["i"], ">", 4), Compare(LEAF, "<", 7), Constant(True)))
    assert matching(both, whole.slice(3, 5)).to_pylist() == [False, False, True, True, False]
    assert len(matching(both, whole.slice(0, 0))) == 0


DUCKDB_SCHEMA = struct(
    field("i", "integer"),
    field("k", "long"),
    field("s", "string"),
    field("b", "boolean"),
    field("dec", DecimalType(10, 2)),
    field("d", "date"),
    field("t", "timestamp_ntz"),
    field("e", struct(field("v", "long"))),
)


def duckdb_rows(generator: random.Random, count: int) -> list[dict[str, Any]]:
    def maybe(value: Any) -> Any:
        return None if generator.random() < 0.15 else value

    day = date(2026, 2, 10)
    return [
        {
            "i": maybe(generator.randint(-3, 3)),
            "k": maybe(generator.randint(-3, 3)),
            "s": maybe(generator.choice(["", "a", "ab", "b", "a%", "é", "z\n", "1"])),
            "b": maybe(generator.random() < 0.5),
            "dec": maybe(Decimal(generator.randint(-300, 300)).scaleb(-2)),
            "d": maybe(day + timedelta(days=generator.randint(-2, 2))),
            "t": maybe(datetime(2026, 2, 10) + timedelta(hours=generator.randint(-30, 30))),
            "e": maybe({"v": maybe(generator.randint(-3, 3))}),
        }
        for _ in range(count)
    ]


def random_sql(generator: random.Random, depth: int = 0) -> str:
    if depth < 3 and generator.random() < 0.6:
        left, right = random_sql(generator, depth + 1), random_sql(generator, depth + 1)
        return generator.choice(
            [
                f"({left}) AND ({right})",
                f"({left}) OR ({right})",
                f"NOT ({left})",
                f"({left}) IS NULL",
                f"({left}) IS NOT TRUE",
            ]
        )
    op = generator.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
    number = generator.choice(["-1", "0", "2", "1.5", "-0.25", "NULL", "2.005"])
    return generator.choice(
        [
            f"i {op} {number}",
            f"{number} {op} k",
            f"dec {op} {number}",
            f"e.v {op} {number}",
            f"i {op} k",
            f"i {op} dec",
            f"s {op} '{generator.choice(['a', 'ab', '', 'é'])}'",
            f"d {op} DATE '2026-02-{generator.randint(8, 12):02}'",
            f"d {op} TIMESTAMP '2026-02-10 {generator.choice(['00', '12'])}:00:00'",
            f"t {op} '2026-02-{generator.randint(8, 12):02} 05:00:00'",
            f"t {op} DATE '2026-02-10'",
            f"d {op} t",
            f"b {op} TRUE",
            "b",
            "b IS FALSE",
            f"i IN (1, {number})",
            f"i NOT IN (1, {number}, -2)",
            f"k BETWEEN {number} AND 2",
            f"k NOT BETWEEN -1 AND {number}",
            "s LIKE 'a%'",
            "s NOT LIKE '%b'",
            "s LIKE 'a!%' ESCAPE '!'",
            "s LIKE '_'",
            "s IS NOT NULL",
            "e IS NULL",
        ]
    )


def test_rows_agree_with_duckdb() -> None:
    generator = random.Random(7)
    rows = batch(DUCKDB_SCHEMA, duckdb_rows(generator, 400))
    with duckdb.connect() as connection:
        connection.register("rows", pa.Table.from_batches([rows]))
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
        for _ in range(400):
            text = random_sql(generator)
            theirs = [answer for (answer,) in connection.execute(f"SELECT ({text}) FROM t ORDER BY rowid").fetchall()]
            expression = bind_predicate(text, DUCKDB_SCHEMA, [])
            assert expression is not None
            assert matching(expression, rows).to_pylist() == theirs, text


def test_no_pandas_for_a_filter() -> None:
    program = """
import sys
import pyarrow as pa
from decimal import Decimal
from delta_sidecar.predicates.expression import And, Column, Compare, In, Like
from delta_sidecar.predicates.evaluation import matching
from delta_sidecar.values.types import DecimalType, PrimitiveType, StructField, StructType
kinds = {"l": (PrimitiveType("long"), 1), "t": (PrimitiveType("timestamp"), 1), "s": (PrimitiveType("string"), "a"),
    "d": (DecimalType(5, 2), Decimal("1.00"))}
schema = StructType(tuple(StructField(name, kind) for name, (kind, _) in kinds.items()))
batch = pa.RecordBatch.from_arrays([pa.nulls(3, f.type) for f in schema.to_arrow()], schema=schema.to_arrow())
terms = [Compare(Column((f,)), "=", kinds[f.name][1]) for f in schema]
terms += [In(Column((f,)), (kinds[f.name][1],)) for f in schema] + [Like(Column((schema.fields[2],)), "a_b")]
matching(And(tuple(terms)), batch)
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
