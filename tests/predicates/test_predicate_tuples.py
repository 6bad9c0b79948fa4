from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from delta_sidecar.errors import PredicateError, UnknownColumnError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.predicates.evaluation import matching
from tests.predicates.predicate_tables import ALL_TYPES, PARTITIONS, field, struct


def bound(filters: Any) -> str:
    return str(bind_predicate(filters, ALL_TYPES, PARTITIONS))


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (("long", "=", 1), "long = 1"),
        (("long", "==", "1"), "long = 1"),
        (("LONG", "!=", 1), "long != 1"),
        (("long", "<>", 1), "long != 1"),
        (("long", "<", 1.5), "long <= 1"),
        (("long", ">=", Decimal("1.5")), "long > 1"),
        (("long", "=", np.int32(3)), "long = 3"),
        (("long", "<", 10**5000), "long <= 9223372036854775807"),
        (("double", ">", Decimal("-1e99999")), "double > -inf"),
        (("double", "=", 0.1), "double = 0.1"),
        (("float", "=", np.float32(0.1)), "float = 0.10000000149011612"),
        (("decimal", "=", 0.1), "decimal = Decimal('0.10')"),
        (("year", "=", "2026"), "year = 2026"),
        (("year", "=", ""), "year IS NULL"),
        (("year", "!=", ""), "NOT (year IS NULL)"),
        (("year", ">", ""), "NULL"),
        (("part", "in", ["a", ""]), "(part = 'a') OR (NULL)"),
        (("part", "not in", ("a", "b")), "NOT (part IN ('a', 'b'))"),
        (("part", "=", 12), "part = '12'"),
        (("part", ">=", "12"), "part >= '12'"),
        (("part", "=", True), "part = 'true'"),
        (("part", "=", date(2026, 2, 10)), "part = '2026-02-10'"),
        (("part", "=", datetime(2026, 2, 10, 1)), "part = '2026-02-10 01:00:00'"),
        (("string", "=", ""), "string = ''"),
        (("string", "in", {"a"}), "string = 'a'"),
        (("string", "LIKE", "a%"), "string LIKE 'a%'"),
        (("string", "not  like", "a%"), "NOT (string LIKE 'a%')"),
        (("string", "is null"), "string IS NULL"),
        (("string", "is not null", None), "NOT (string IS NULL)"),
        (("long", "=", None), "long IS NULL"),
        (("long", "!=", None), "NOT (long IS NULL)"),
        (("long", "<", None), "NULL"),
        (("long", "in", [1, None]), "(long = 1) OR (NULL)"),
        (("long", "in", []), "(long IS NULL) AND (NULL)"),
        (("boolean", "=", True), "boolean = True"),
        (("binary", "=", b"\x00"), "binary = b'\\x00'"),
        (("date", "=", date(1970, 1, 2)), "date = '1970-01-02'"),
        (("date", "<", datetime(1970, 1, 2, 12)), "date <= '1970-01-02'"),
        (("timestamp", "=", datetime(1970, 1, 1, 0, 0, 1)), "timestamp = '1970-01-01T00:00:01Z'"),
        (("timestamp", "=", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), "timestamp = '1970-01-01T00:00:01Z'"),
        (
            ("timestamp", "=", datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
            "timestamp = '1970-01-01T00:00:00Z'",
        ),
        (
            ("timestamp_ntz", "=", datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
            "timestamp_ntz = '1970-01-01T00:00:00'",
        ),
        (("timestamp", "=", date(1970, 1, 2)), "timestamp = '1970-01-02T00:00:00Z'"),
        (
            ("timestamp", ">=", pd.Timestamp("1970-01-01 00:00:00.000001500")),
            "timestamp > '1970-01-01T00:00:00.000001Z'",
        ),
        (("event.inner.leaf", "=", 1), "event.inner.leaf = 1"),
    ],
)
def test_one_filter(item: Any, expected: str) -> None:
    assert bound([item]) == f"({expected})"


def test_lists_are_and_lists_of_lists_are_or() -> None:
    assert bound([("long", "=", 1), ("integer", "=", 2)]) == "(long = 1) AND (integer = 2)"
    assert bound([[("long", "=", 1)], [("long", "=", 2), ("integer", "=", 3)]]) == (
        "((long = 1)) OR ((long = 2) AND (integer = 3))"
    )
    assert bind_predicate([], ALL_TYPES, PARTITIONS) is None


def test_a_column_with_a_dot_in_its_name_comes_before_a_path() -> None:
    schema = struct(field("a.b", "long"), field("a", struct(field("b", "string"))))
    assert str(bind_predicate([("a.b", "=", 1)], schema, [])) == "(a.b = 1)"
    with pytest.raises(UnknownColumnError):
        bind_predicate([("a.c", "=", 1)], schema, [])


@pytest.mark.parametrize(
    "filters",
    [
        [[]],
        [("long", "=")],
        [("long", "~", 1)],
        [("long", "in", "abc")],
        [("long", "in", 5)],
        [("long", "=", object())],
        [("long", "=", {"a": 1})],
        [("string", "like", 5)],
        [(1, "=", 1)],
        [("long", "=", 1), [("long", "=", 2)]],
        ["long = 1"],
        {"long": 1},
        5,
        [("timestamp", "=", 5)],
        [("part", ">=", 12)],
        [("string", "<", 1.5)],
        [("array", "=", [1])],
    ],
)
def test_refusals_are_one_line(filters: Any) -> None:
    with pytest.raises(PredicateError) as caught:
        bind_predicate(filters, ALL_TYPES, PARTITIONS)
    assert "\n" not in str(caught.value)


FILTERS: list[Any] = [
    [("p", "=", "")],
    [("p", "!=", "")],
    [("p", "=", "a")],
    [("p", "!=", "a")],
    [("p", "in", ["a", ""])],
    [("p", "not in", ["a", ""])],
    [("p", "not in", ["a"])],
    [("p", ">=", "b")],
    [("n", "=", "2")],
    [("n", ">", 1)],
    [("n", "=", "")],
    [[("p", "=", "a")], [("n", "=", "2")]],
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_partition_filters_select_what_deltalake_selects(filters: Any, tmp_path: Any) -> None:
    rows = [{"p": p, "n": n, "x": 1} for p in ("a", "b", None) for n in (1, 2, None)]
    table = pa.Table.from_pylist(rows, schema=pa.schema([("p", pa.string()), ("n", pa.int32()), ("x", pa.int32())]))
    write_deltalake(str(tmp_path), table, partition_by=["p", "n"])
    theirs = DeltaTable(str(tmp_path)).file_uris(file_pruning_predicate=filters)
    schema = struct(field("p", "string"), field("n", "integer"), field("x", "integer"))
    expression = bind_predicate(filters, schema, ["p", "n"])
    assert expression is not None
    ours = table.to_batches()[0].filter(matching(expression, table.to_batches()[0]))
    assert len(theirs) == ours.num_rows
