"""Which files survive a predicate."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable, build_index
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
    Value,
)
from delta_sidecar.pruning.file_bounds import FileBounds
from delta_sidecar.pruning.may_match import may_match, needed_stats
from delta_sidecar.testing import LogBuilder, add
from delta_sidecar.values.types import MapType, PrimitiveType, StructType, UnknownType
from tests.pruning.bounds_tables import column, decimal, field, kept, nested, partition_batch, stats_batch

X = column("long")
D = column("double")
S = column("string")
P = column("long", "p", partition=True)
PF = column("double", "p", partition=True)


def stats(low: Any = None, high: Any = None, nulls: Any = None, records: Any = None, **more: Any) -> str:
    leaves = {"minValues": low, "maxValues": high, "nullCount": nulls}
    found: dict[str, Any] = {key: {"x": value} for key, value in leaves.items() if value is not None}
    return json.dumps(found | ({"numRecords": records} if records is not None else {}) | more)


def one(expression: Expression, text: str | None, of: Column = X) -> bool:
    [flag] = kept(expression, stats_batch([text]), of)
    return flag


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [("=", 9, False), ("=", 10, True), ("=", 20, True), ("=", 21, False), ("<", 10, False), ("<", 11, True),
     ("<=", 9, False), ("<=", 10, True), (">", 20, False), (">", 19, True), (">=", 21, False), (">=", 20, True),
     ("!=", 15, True), ("!=", 10, True)],
)  # fmt: skip
def test_comparisons(op: Operator, value: int, expected: bool) -> None:
    assert one(Compare(X, op, value), stats(10, 20)) is expected


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [("=", 15, True), ("!=", 10, True), ("<", 10, True), ("<", 21, False), ("<=", 20, False), ("<=", 19, True),
     (">", 9, False), (">", 10, True), (">=", 10, False), (">=", 11, True)],
)  # fmt: skip
def test_negated_comparisons(op: Operator, value: int, expected: bool) -> None:
    assert one(Not(Compare(X, op, value)), stats(10, 20)) is expected


def test_not_equal_prunes_a_single_value() -> None:
    assert not one(Compare(X, "!=", 7), stats(7, 7))
    assert not one(Not(Compare(X, "=", 7)), stats(7, 7))
    assert one(Not(Compare(X, "!=", 7)), stats(7, 7))
    assert not one(Not(Compare(X, "!=", 8)), stats(7, 7))


def test_half_a_bound() -> None:
    assert not one(Compare(X, "<", 5), stats(low=10))
    assert one(Compare(X, ">", 5), stats(low=10))
    assert not one(Compare(X, "=", 5), stats(low=10))
    assert not one(Compare(X, "=", 5), stats(high=4))
    assert one(Compare(X, "!=", 10), stats(low=10))


@pytest.mark.parametrize("text", [None, "{", stats(), stats(records=3)])
@pytest.mark.parametrize("term", [Compare(X, "=", 1), In(X, (1, 2)), IsNull(X), Compare(X, "!=", 1)])
def test_the_unknown_keeps_the_file(text: str | None, term: Expression) -> None:
    assert one(term, text)
    assert one(Not(term), text)


def test_all_null_files_match_no_comparison_and_no_negation() -> None:
    empty = stats(nulls=3, records=3)
    for term in (Compare(X, "=", 1), Compare(X, "!=", 1), In(X, (1,))):
        assert not one(term, empty)
        assert not one(Not(term), empty)
    assert not one(Compare(D, "!=", 1.0), empty, D)
    assert not one(Like(S, "a%"), empty, S)


def test_is_null() -> None:
    assert not one(IsNull(X), stats(nulls=0, records=3))
    assert not one(IsNull(X), stats(nulls=0))
    assert one(IsNull(X), stats(nulls=1, records=3))
    assert one(IsNull(X), stats(records=3))
    assert not one(Not(IsNull(X)), stats(nulls=3, records=3))
    assert one(Not(IsNull(X)), stats(nulls=2, records=3))
    assert one(Not(IsNull(X)), stats(nulls=3))
    assert one(Not(IsNull(X)), stats(nulls=4, records=3))


@pytest.mark.parametrize("tight", [True, False, None])
def test_bounds_that_are_not_tight_prune(tight: bool | None) -> None:
    text = stats(10, 20, 0, 3, tightBounds=tight)
    assert not one(Compare(X, ">", 20), text)
    assert not one(IsNull(X), text)


def test_a_struct_itself_is_unknown() -> None:
    whole = Column((field("x", StructType((field("y", "long"),))),))
    text = '{"numRecords":3,"nullCount":{"x":{"y":0}}}'
    assert one(IsNull(whole), text, whole)
    assert one(Not(IsNull(whole)), text, whole)
    assert needed_stats(IsNull(whole)) == []
    leaf = nested("long", "x", "y")
    assert not one(IsNull(leaf), text, leaf)


@pytest.mark.parametrize(
    "kind", ["void", "variant", UnknownType("geometry"), MapType(PrimitiveType("string"), PrimitiveType("long"))]
)
def test_types_without_stats_keep(kind: Any) -> None:
    of = column(kind)
    assert one(IsNull(of), stats(nulls=0, records=3), of)
    assert needed_stats(IsNull(of)) == []


@pytest.mark.parametrize(("kind", "value"), [("boolean", True), ("binary", b"z")])
def test_boolean_and_binary_bounds_never_prune(kind: str, value: Value) -> None:
    of = column(kind)
    assert one(Compare(of, "=", value), '{"minValues":{"x":false},"maxValues":{"x":"a"}}', of)
    assert not one(Compare(of, "=", value), stats(nulls=2, records=2), of)


def test_kleene() -> None:
    yes, no, maybe = Constant(True), Constant(False), Constant(None)
    for expression, expected in [
        (yes, True), (no, False), (maybe, False), (Not(yes), False), (Not(no), True), (Not(maybe), False),
        (And((yes, no)), False), (And((yes, maybe)), False), (Or((no, yes)), True), (Or((no, maybe)), False),
        (Not(And((yes, no))), True), (Not(And((yes, maybe))), False), (Not(Or((no, maybe))), False),
        (Not(Or((no, no))), True),
    ]:  # fmt: skip
        assert one(expression, None) is expected, str(expression)


def test_and_or_combine_row_by_row() -> None:
    batch = stats_batch([stats(0, 5), stats(10, 15), stats(20, 25), None])
    low, high = Compare(X, "<", 4), Compare(X, ">", 22)
    assert kept(Or((low, high)), batch, X) == [True, False, True, True]
    assert kept(And((low, high)), batch, X) == [False, False, False, True]
    assert kept(Not(Or((low, high))), batch, X) == [True, True, True, True]
    assert kept(Or((Compare(X, "=", 12), Compare(X, "=", 2))), batch, X) == [True, True, False, True]


def test_in_lists_of_every_type() -> None:
    batch = stats_batch([stats(10, 20), stats(30, 40), stats(low=35), stats(high=5), None])
    assert kept(In(X, (50, 25, 9)), batch, X) == [False, False, True, False, True]
    assert kept(In(X, (15, 3)), batch, X) == [True, False, False, True, True]
    texts = stats_batch([stats("b", "d"), stats("f", "g"), None])
    assert kept(In(S, ("a", "e", "ff")), texts, S) == [False, True, True]
    money = column(decimal(20, 2))
    assert kept(In(money, (Decimal("15.50"), Decimal(1))), batch, money) == [True, False, False, True, True]
    assert kept(In(D, (15.5, 1.0)), batch, D) == [True, False, False, True, True]


def test_not_in() -> None:
    batch = stats_batch([stats(7, 7), stats(8, 8), stats(7, 8), None])
    assert kept(Not(In(X, (7, 9))), batch, X) == [False, True, True, True]


def test_long_in_lists() -> None:
    batch = stats_batch([stats(i * 10, i * 10 + 3) for i in range(100)])
    values = tuple(range(5, 1000, 20))
    assert not any(kept(In(X, values), batch, X))
    assert sum(kept(In(X, (*values, 331)), batch, X)) == 1


@pytest.mark.parametrize(
    ("pattern", "escape", "expected"),
    [("b%", "", [True, True, False]), ("bc%", "", [True, False, False]), ("a%", "", [False, False, False]),
    ("%", "", [True, True, True]),
     ("_x", "", [True, True, True]), ("e_", "", [False, False, True]), ("bd", "", [False, True, False]),
     ("b\\%", "\\", [False, False, False]),
     ("b\\%%", "\\", [False, False, False]), ("e%z", "", [False, False, True]), ("", "", [False, False, False])],
)  # fmt: skip
def test_like(pattern: str, escape: str, expected: list[bool]) -> None:
    batch = stats_batch([stats("bb", "bcz"), stats("bd", "be"), stats("dz", "ez")])
    assert kept(Like(S, pattern, escape), batch, S) == expected


def test_not_like_prunes_where_all_rows_begin_so() -> None:
    batch = stats_batch([stats("ba", "bz"), stats("ba", "ca"), stats(low="ba"), None])
    assert kept(Not(Like(S, "b%")), batch, S) == [False, True, True, True]
    assert kept(Not(Like(S, "b_%")), batch, S) == [True, True, True, True]
    assert kept(Not(Like(S, "%")), batch, S) == [False, False, True, True]


def test_prefix_successor_is_in_utf8_bytes() -> None:
    batch = stats_batch([stats("\U0010ffffa", "\U0010ffffb"), stats("z", "\uffff")])
    assert kept(Like(S, "\U0010ffff%"), batch, S) == [True, False]
    assert kept(Like(S, "\ud7ff%"), stats_batch([stats("\ud7ff", "\ud7ff!"), stats("\ue000", "\ue001")]), S) == [
        True,
        False,
    ]


def test_strings_compare_in_utf8_order_not_utf16() -> None:
    assert one(Compare(S, ">", "\uffee"), stats("a", "\U0001f600"), S)
    assert not one(Compare(S, "<", "\uffee"), stats("\U0001f600", "\U0001f600"), S)


def test_floats_never_prove_that_nan_is_absent() -> None:
    single = stats(1.0, 1.0, 0, 5)
    for term in (Compare(D, "!=", 1.0), Not(Compare(D, "=", 1.0)), Not(Compare(D, "<", 9.0)), Not(Compare(D, ">", 0.0)),
                 Not(In(D, (1.0,))), Not(Compare(D, "!=", 2.0))):  # fmt: skip
        assert one(term, single, D), str(term)
    assert not one(Compare(D, "=", 2.0), single, D)
    assert not one(Compare(D, "<", 1.0), single, D)
    assert one(Compare(D, "=", float("nan")), single, D)
    assert one(In(D, (5.0, float("nan"))), single, D)


def test_a_nan_bound_is_unknown() -> None:
    text = '{"minValues":{"x":1.0},"maxValues":{"x":"NaN"}}'
    assert one(Compare(D, ">", 100.0), text, D)
    assert not one(Compare(D, "<", 1.0), text, D)


def test_signed_zeros_are_equal() -> None:
    assert one(Compare(D, "=", 0.0), stats(-0.0, -0.0), D)
    assert one(Compare(D, ">=", 0.0), stats(-1.0, -0.0), D)
    assert one(In(D, (0.0,)), stats(-0.0, -0.0), D)


def test_two_columns_are_not_compared() -> None:
    y = column("long", "y")
    expression = CompareColumns(X, "<", y)
    assert kept(expression, stats_batch([stats(1, 1)]), X, y) == [True]
    assert needed_stats(expression) == []


def test_partition_values_are_exact() -> None:
    batch = partition_batch([{"p": "1"}, {"p": "2"}, {"p": None}, {"p": "odd"}])
    assert kept(Compare(P, "=", 1), batch) == [True, False, False, True]
    assert kept(Not(Compare(P, "=", 1)), batch) == [False, True, False, True]
    assert kept(IsNull(P), batch) == [False, False, True, True]
    assert kept(Not(IsNull(P)), batch) == [True, True, False, True]
    assert kept(In(P, (2, 3)), batch) == [False, True, False, True]
    flag = column("boolean", "p", partition=True)
    flags = partition_batch([{"p": "true"}, {"p": "false"}])
    assert kept(Compare(flag, "=", True), flags) == [True, False]


def test_partition_floats_prune_negations_except_nan() -> None:
    batch = partition_batch([{"p": "1.0"}, {"p": "2.0"}, {"p": "NaN"}, {"p": None}])
    assert kept(Compare(PF, "!=", 1.0), batch) == [False, True, True, False]
    assert kept(Not(Compare(PF, "<", 1.5)), batch) == [False, True, True, False]


def test_partition_timestamps_follow_the_zone() -> None:
    of = column("timestamp", "p", partition=True)
    batch = partition_batch([{"p": "1970-01-01 01:00:00"}])
    assert kept(Compare(of, "=", 0), batch, timezone="Europe/Berlin") == [True]
    assert kept(Compare(of, "=", 0), batch) == [False]


def test_a_partition_predicate_needs_no_stats() -> None:
    expression = And((Compare(P, "=", 1), Not(IsNull(P))))
    assert needed_stats(expression) == []
    batch = partition_batch([{"p": "1"}]).append_column("stats", pa.array(["{"]))
    source = FileBounds(batch, [P])
    assert may_match(expression, source, 1).to_pylist() == [True]
    assert "_json" not in vars(source)
    assert "_typed" not in vars(source)


def test_needed_stats_are_distinct_leaves_in_order() -> None:
    y = column("boolean", "y")
    expression = Or((Compare(y, "=", True), And((Compare(X, "<", 1), Not(Compare(X, "<", 0)), Compare(P, "=", 1)))))
    assert needed_stats(expression) == [y, X]


def test_no_files() -> None:
    assert kept(Or((Compare(X, "=", 1), And((IsNull(X), In(X, (1,)))))), stats_batch([]), X) == []


def test_timestamps_cut_to_milliseconds() -> None:
    of = column("timestamp")
    text = stats("2026-02-10T22:00:00.123Z", "2026-02-10T22:00:00.123Z")
    at = 1_770_760_800_123_000
    assert one(Compare(of, "=", at + 456), text, of)
    assert one(Compare(of, ">", at + 999), text, of)
    assert not one(Compare(of, ">", at + 1000), text, of)
    assert not one(Compare(of, "<", at), text, of)


@pytest.mark.parametrize("pattern", ["%", "%%", "\U0010ffff%", "a%"])
@pytest.mark.parametrize("text", [None, "{}", stats(nulls=0, records=1)])
def test_a_pattern_keeps_files_whose_bounds_are_unknown(pattern: str, text: str | None) -> None:
    assert one(Like(S, pattern), text, S)
    assert one(Not(Like(S, pattern)), text, S)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [("timestamp", 1_770_761_100_500_000, "'2026-02-10T22:05:00.5Z'"), ("timestamp_ntz", 0, "'1970-01-01T00:00:00'"),
     ("date", -1, "'1969-12-31'"), ("long", 7, "7"), ("string", "a", "'a'")],
)  # fmt: skip
def test_literals_are_shown_as_people_write_them(kind: str, value: Any, text: str) -> None:
    assert str(Compare(column(kind), ">=", value)) == f"x >= {text}"
    assert str(In(column(kind), (value, value))) == f"x IN ({text}, {text})"


def test_patterns_on_partition_values_are_exact(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path).metadata({"id": "long", "p": "string"}, ["p"])
    names = ["north-east", "east", "south", None, "ost"]
    log.commit(*(add(f"f{at}.parquet", partition={"p": name}) for at, name in enumerate(names)))
    for _ in range(2):
        table = DeltaTable(tmp_path)
        for where, places in (
            ("p LIKE '%east'", [0, 1]),
            ("p NOT LIKE '%east'", [2, 4]),
            ("p LIKE '_st'", [4]),
            ("p LIKE '%o%t%'", [0, 2, 4]),
            ("p LIKE 'south'", [2]),
        ):
            found = sorted(int(file.path[1]) for file in table.file_infos(where))
            assert found == places, where
        build_index(tmp_path)
