"""Policies of pruning: what each filter means, what is refused, what it costs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import (
    ConsumedStreamError,
    DeltaTable,
    InputError,
    OptionError,
    PredicateError,
    UnknownColumnError,
    build_index,
)
from delta_sidecar.index.build import build
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.lake import (
    FilePruningPolicy,
    FilePruningResult,
    PartitionFilter,
    SnapshotKey,
    StatsFilter,
    prune_files,
)
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import AddFile, column
from delta_sidecar.testing.table_builder import LogBuilder
from delta_sidecar.values.bucket_columns import bucket_expression
from tests.index.models import small_parts

NESTED = {"type": "struct", "fields": [column("b", "long")]}
COLUMNS: dict[str, Any] = {"p": "string", "q": "integer", "x": "long", "s": "string", "ts": "timestamp", "a": NESTED}


@pytest.fixture(params=["log", "index"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DeltaTable:
    """Files 0 … 5: `p` is a text, `q` a number, file 4 has null for both, and file 5 has no stats."""
    builder = LogBuilder(tmp_path).metadata(COLUMNS, ["p", "q"])
    for n in range(6):
        values = {"x": 10 * n, "s": f"s{n}", "ts": f"2026-02-10T2{n % 4}:00:00.000Z", "a": {"b": n}}
        nulls = {"x": 0, "s": 0, "ts": 0, "a": {"b": 0}}
        stats = {"numRecords": 2, "minValues": values, "maxValues": values | {"x": 10 * n + 5}, "nullCount": nulls}
        partition = {"p": None, "q": None} if n == 4 else {"p": f"p{n % 2}", "q": str(9 + n)}
        builder.commit(AddFile(f"f{n}", size=1, partition=partition, stats=None if n == 5 else stats))
    if request.param == "index":
        build_index(str(tmp_path))
    return DeltaTable(str(tmp_path))


def numbers(result: FilePruningResult) -> list[int]:
    return sorted(int(path[1:]) for path in result.candidate_paths())


def kept(table: DeltaTable, *filters: PartitionFilter | StatsFilter) -> list[int]:
    """The files both evaluators leave."""
    policy = FilePruningPolicy(
        [f for f in filters if isinstance(f, PartitionFilter)], [f for f in filters if isinstance(f, StatsFilter)]
    )
    found = numbers(prune_files(table, policy))
    assert numbers(prune_files(table, policy, "plain")) == found
    return found


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("=", "p1", [1, 3, 5]),
        ("!=", "p1", [0, 2]),
        ("in", ["p0", "p7"], [0, 2]),
        ("not in", ["p0", "p7"], [1, 3, 5]),
        ("=", None, [4]),
        ("!=", None, [0, 1, 2, 3, 5]),
        ("in", ["p0", None], [0, 2, 4]),
        ("not in", ["p0", None], [1, 3, 5]),
        ("=", "", []),
        ("!=", "", [0, 1, 2, 3, 5]),
        ("in", [], []),
        ("not in", [], [0, 1, 2, 3, 5]),
        ("in", {"p0"}, [0, 2]),
    ],
)
def test_partition_filters(table: DeltaTable, op: str, value: object, expected: list[int]) -> None:
    assert kept(table, PartitionFilter("p", op, value)) == expected


def test_partition_values_are_compared_in_their_type(table: DeltaTable) -> None:
    """As a text, 9 is above 10."""
    assert kept(table, PartitionFilter("q", "=", 10)) == kept(table, PartitionFilter("q", "=", "010")) == [1]
    assert kept(table, PartitionFilter("Q", "in", [9, "11"])) == [0, 2]


@pytest.mark.parametrize(
    ("op", "value", "cast", "expected"),
    [
        ("=", 12, None, [1, 5]),
        ("!=", 12, None, [0, 1, 2, 3, 4, 5]),
        ("<", 10, None, [0, 5]),
        ("<=", 10, None, [0, 1, 5]),
        (">", 35, None, [4, 5]),
        (">=", 35, None, [3, 4, 5]),
        (">", "35", "long", [4, 5]),
        (">", 34.5, None, [3, 4, 5]),
        (">", "34.5", "decimal", [3, 4, 5]),
        ("=", None, None, [5]),
        ("!=", None, None, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_stats_filters(table: DeltaTable, op: str, value: object, cast: str | None, expected: list[int]) -> None:
    assert kept(table, StatsFilter("x", op, value, cast)) == expected


def test_stats_of_other_types(table: DeltaTable) -> None:
    assert kept(table, StatsFilter("a.b", ">", 3)) == [4, 5]
    assert kept(table, StatsFilter("s", "=", "s2")) == [2, 5]
    late = dt.datetime(2026, 2, 10, 23, tzinfo=dt.UTC)
    assert kept(table, StatsFilter("ts", ">=", late)) == [3, 5]
    assert kept(table, StatsFilter("ts", ">=", late.isoformat(), "timestamp")) == [3, 5]


def test_filters_must_all_hold(table: DeltaTable) -> None:
    assert kept(table, PartitionFilter("p", "=", "p1"), StatsFilter("x", ">", 20), StatsFilter("x", "<", 1000)) == [
        3,
        5,
    ]
    assert kept(table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("evaluator", ["vectorised", "plain"])
def test_counts_are_known_once_all_is_read(table: DeltaTable, evaluator: Any) -> None:
    result = prune_files(table, FilePruningPolicy([PartitionFilter("p", "=", "p0")]), evaluator)
    assert result.key == SnapshotKey.of(table)
    assert next(result).path in ("f0", "f2")
    assert (result.candidate_count, result.total_files, result.pruned_count) == (None, None, None)
    assert len(list(result)) == 1
    assert (result.candidate_count, result.total_files, result.pruned_count) == (2, 6, 4)
    with pytest.raises(ConsumedStreamError, match="result of pruning was read to its end"):
        list(result)


def test_a_closed_result_does_not_look_like_an_empty_one(table: DeltaTable) -> None:
    with prune_files(table, FilePruningPolicy()) as result:
        next(result)
    with pytest.raises(ConsumedStreamError, match="was closed"):
        next(result)
    assert result.total_files is None


def test_the_index_spares_files(tmp_path: Path) -> None:
    """The vectorised evaluator reads the parts that the filters leave; the total is only counted when asked for."""
    builder = LogBuilder(tmp_path).metadata({"x": "long", "p": "string"}, ["p"])
    builder.commit(*(AddFile(f"f{n}", size=1, partition={"p": f"{n // 100:03}"}) for n in range(2000)))
    options = BuildOptions(sort_column="p", part_rows=200, limits=small_parts(single=0, rows=200))
    build.build_index(open_store(str(tmp_path)), options=options)
    result = prune_files(DeltaTable(str(tmp_path)), FilePruningPolicy([PartitionFilter("p", "=", "003")]))
    assert len(list(result)) == 100
    metrics = result._scan.metrics
    assert (metrics.tier, metrics.parts_read, metrics.files_considered < 500) == ("index", 1, True)
    requests = metrics.requests
    assert (result.total_files, result.pruned_count) == (2000, 1900)
    assert result._scan.metrics.requests > requests


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: PartitionFilter("p", "<", "a"),
            "PartitionFilter on 'p' has no operator '<'; it has =, !=, in, not in",
        ),
        (lambda: PartitionFilter("p", "in", "abc"), "in on 'p' takes a list of values, not 'abc'"),
        (lambda: PartitionFilter("", "=", "a"), "the column of a PartitionFilter is ''"),
        (lambda: StatsFilter("x", "in", [1]), "StatsFilter on 'x' has no operator 'in'"),
        (lambda: StatsFilter("x", "<", None), "< on 'x' has no value; only = and != take None"),
        (lambda: StatsFilter("x", "<", 1, "int"), "cast of 'x' is 'int'; it takes one of long, double"),
        (lambda: StatsFilter("x", "<", "1.5", "long"), "'1.5', the value for 'x', is not a long"),
        (lambda: FilePruningPolicy([StatsFilter("x", "<", 1)]), "partition_filters takes PartitionFilter objects"),  # type: ignore[list-item]
    ],
)
def test_filters_that_mean_nothing_are_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (PartitionFilter("nope", "=", 1), UnknownColumnError, "no column 'nope'"),
        (StatsFilter("a.c", "=", 1), UnknownColumnError, "no column 'a.c'"),
        (
            PartitionFilter("x", "=", 1),
            PredicateError,
            r"'x' is not a partition column \(partition columns here: p, q\)",
        ),
        (StatsFilter("p", "=", "a"), PredicateError, "'p' is a partition column and has no statistics"),
        (PartitionFilter("q", "=", "ten"), PredicateError, "column q is integer: 'ten'"),
        (PartitionFilter("q", "=", ""), PredicateError, "column q is integer: ''"),
        (StatsFilter("x", "<", "ten"), PredicateError, "column x is long: 'ten'"),
        (StatsFilter("s", "<", "5", "long"), PredicateError, "its bounds are in the order of text"),
        (StatsFilter("a", "=", 1), PredicateError, "column a is struct"),
    ],
)
def test_filters_that_do_not_fit_the_table_are_refused(
    table: DeltaTable, given: Any, error: type[Exception], message: str
) -> None:
    policy = FilePruningPolicy(*([[given], []] if isinstance(given, PartitionFilter) else [[], [given]]))
    for evaluator in ("vectorised", "plain"):
        with pytest.raises(error, match=message):
            prune_files(table, policy, evaluator)


def test_other_arguments_are_refused(table: DeltaTable) -> None:
    with pytest.raises(OptionError, match="it takes one of vectorised, plain"):
        prune_files(table, FilePruningPolicy(), "acero")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="table is a str"):
        prune_files(table.table_uri, FilePruningPolicy())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="policy is a list"):
        prune_files(table, [])  # type: ignore[arg-type]


def test_a_time_bucket_prunes_what_the_plain_evaluator_keeps(tmp_path: Path) -> None:
    """Files without stats: what their bucket says of their times only the table's own listing knows."""
    generated = {"delta.generationExpression": bucket_expression("ts", "hour")}
    columns = [column("ts", "timestamp"), column("hour", "string", metadata=generated)]
    builder = LogBuilder(tmp_path).protocol(reader=1, writer=4).metadata(columns, ["hour"])
    builder.commit(*(AddFile(f"f{n}", size=1, partition={"hour": f"202602102{n}"}) for n in range(4)))
    policy = FilePruningPolicy(stats_filters=[StatsFilter("ts", ">=", "2026-02-10T23:00:00Z")])
    table = DeltaTable(str(tmp_path))
    assert numbers(prune_files(table, policy)) == [3]
    assert numbers(prune_files(table, policy, "plain")) == [0, 1, 2, 3]
