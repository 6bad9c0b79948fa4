"""Splits are left out by what their texts mean, and kept where that is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_sidecar import PredicateError, UnknownColumnError
from delta_sidecar.predicates.binding import bind_predicate
from delta_sidecar.search import SearchTable, Split, append, create_table
from delta_sidecar.search.log.split_pruning import pruned
from delta_sidecar.values.types import parse_schema
from tests.properties.settings import random_cases
from tests.search.made import schema

COLUMNS = schema(
    id="long", small="byte", score="double", day="date", at="timestamp", clock="timestamp_ntz", text="string",
    price="decimal(10,2)", year="integer", region="string",
)  # fmt: skip


def kept(predicate: str, *made: Split, time_column: str | None = None) -> list[str]:
    bound = bind_predicate(predicate, parse_schema(COLUMNS), ["year", "region"])
    return [split.path for split in pruned(made, bound, time_column)]


def between(path: str, column: str, low: str | None, high: str | None, **fields: Any) -> Split:
    return Split(path=path, minValues={column: low}, maxValues={column: high}, numRecords=5, **fields)


@pytest.mark.parametrize(
    ("predicate", "low", "high", "may"),
    [
        ("id < 9", "9", "100", False),
        ("id <= 9", "9", "100", True),
        ("id > 99", "9", "100", True),
        ("id > 100", "9", "100", False),
        ("id = 50", "9", "100", True),
        ("id IN (1, 2)", "9", "100", False),
        ("id = 50", "nine", "100", True),
        ("id = 5000", "nine", "100", False),
        ("small = 5", "-10", "4", False),
        ("score > 1.0e10", "1.5", "1.0E10", False),
        ("score > 9", "1.5", "10", True),
        ("score > 9", "1.5", "NaN", True),
        ("day >= date '2024-10-02'", "2024-09-01", "2024-10-01", False),
        ("day >= date '2024-10-02'", "19967", "19997", True),
        ("at >= '2024-10-02T00:00:00Z'", "2024-10-01T00:00:00Z", "2024-10-01T23:59:59Z", False),
        ("at >= '2024-10-01T23:59:59Z'", "2024-10-01T00:00:00Z", "2024-10-01T23:59:59Z", True),
        ("at >= '2024-10-02T00:00:00Z'", "2024-10-01T00:00:00+02:00", "2024-10-01T23:59:59-05:00", True),
        ("at >= '2024-10-02T00:00:00Z'", "2024-10-01 00:00:00", "2024-10-01 23:59:59", True),
        ("clock >= '2024-10-02 00:00:00'", "2024-10-01 00:00:00", "2024-10-01 23:59:59", False),
        ("text = 'zebra'", "apple", "mango", False),
        ("text = 'zebra'", "a" * 40, "b" * 40, True),
        ("text = 'Zebra'", "a" * 40, "b" * 40, False),
        ("price > 10", "9.5", "10.00", False),
        ("price > 9", "9.5", "10.00", True),
        ("id IS NULL", "1", "2", True),
        ("NOT (id < 1000)", "9", "100", False),
    ],
)
def test_by_minimum_and_maximum(predicate: str, low: str, high: str, may: bool) -> None:
    column = next(name for name in predicate.replace("(", " ").split() if name != "NOT")
    assert bool(kept(predicate, between("a", column, low, high))) is may


def test_what_is_not_there_keeps_the_split() -> None:
    assert kept("id = 5", Split(path="a")) == ["a"]
    assert kept("id = 5", between("a", "score", "1", "2")) == ["a"]
    assert kept("id = 5", Split(path="a", stats="not json")) == ["a"]


def test_json_stats_count_where_there_is_nothing_else() -> None:
    stats = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":9},"nullCount":{"id":0}}'
    assert kept("id = 50", Split(path="a", stats=stats)) == []
    assert kept("id IS NULL", Split(path="a", stats=stats)) == []
    assert kept("id = 50", Split(path="a", stats=stats, maxValues={"id": "90"})) == ["a"]


def test_partitions_are_typed_and_may_be_null() -> None:
    made = [
        Split(path="9", partitionValues={"year": "9", "region": "eu"}),
        Split(path="2024", partitionValues={"year": "2024", "region": None}),
        Split(path="null", partitionValues={"year": None, "region": "__HIVE_DEFAULT_PARTITION__"}),
        Split(path="odd", partitionValues={"year": "x", "region": "us"}),
    ]
    assert kept("year > 100", *made) == ["2024", "odd"]
    assert kept("year = 2024 AND region = 'eu'", *made) == []
    assert kept("region IS NULL", *made) == ["2024", "null"]
    assert kept("year IS NOT NULL AND region = 'eu'", *made) == ["9"]


def test_time_ranges_count_for_the_column_that_the_table_names() -> None:
    split = Split(path="a", timeRangeStart="2024-10-01T00:00:00Z", timeRangeEnd="2024-10-01T23:59:59Z")
    assert kept("at > '2024-10-03T00:00:00Z'", split) == ["a"]
    assert kept("at > '2024-10-03T00:00:00Z'", split, time_column="at") == []
    assert kept("at > '2024-10-01T12:00:00Z'", split, time_column="at") == ["a"]
    assert kept("id = 3", split, time_column="at") == ["a"]


def test_through_the_table(tmp_path: Path) -> None:
    create_table(tmp_path, COLUMNS, ["year", "region"], configuration={"sidecar.timeColumn": "at"})
    made = [
        between("a", "id", "9", "90", partitionValues={"year": "2023", "region": "eu"}),
        between(
            "b",
            "id",
            "100",
            "200",
            partitionValues={"year": "2024", "region": "eu"},
            timeRangeStart="2024-01-01T00:00:00Z",
            timeRangeEnd="2024-01-02T00:00:00Z",
        ),
    ]
    append(tmp_path, made)
    table = SearchTable(tmp_path)
    assert [s.path for s in table.splits("id < 100")] == ["a"]
    assert [s.path for s in table.splits("year = 2024")] == ["b"]
    assert [s.path for s in table.splits("at < '2023-06-01T00:00:00Z'")] == ["a"]
    assert [s.path for s in table.splits([("id", ">", 90)])] == ["b"]
    with pytest.raises(UnknownColumnError):
        table.splits("nope = 1")
    with pytest.raises(PredicateError):
        table.splits("id <")


VALUES = st.integers(-120, 120)


@random_cases(150)
@given(
    st.lists(st.lists(VALUES | st.none(), min_size=1, max_size=5), min_size=1, max_size=6),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
    VALUES,
    st.booleans(),
)
def test_no_split_with_a_matching_row_is_left_out(
    rows: list[list[int | None]], op: str, value: int, negated: bool
) -> None:
    compare = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[op]
    made, matching = [], []
    for number, values in enumerate(rows):
        known = [v for v in values if v is not None]
        low, high = (str(min(known)), str(max(known))) if known else (None, None)
        made.append(between(str(number), "id", low, high))
        if any(getattr(v, compare)(value) is not negated for v in known):
            matching.append(str(number))
    predicate = f"NOT (id {op} {value})" if negated else f"id {op} {value}"
    assert set(matching) <= set(kept(predicate, *made))
