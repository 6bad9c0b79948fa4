"""Random tables × random policies: the vectorised and the plain evaluator leave the same files, with an index and
without, and none that holds a matching row is lost."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.lake import FilePruningPolicy, PartitionFilter, StatsFilter, prune_files
from delta_sidecar.storage import open_store
from delta_sidecar.testing.actions import AddFile
from delta_sidecar.testing.data_files import collect_stats
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts
from tests.properties.settings import random_cases, shards
from tests.properties.test_pruning import COLUMNS, MEMORY, _indexes, _row

CASES = 80
PARTITIONS: dict[str, tuple[str, list[Any]]] = {
    "p": ("string", ["a", "b", "", "É'"]),
    "q": ("integer", [-10, 0, 7]),
    "r": ("double", [0.5, -0.0, float("nan")]),
    "u": ("timestamp", [dt.datetime(2026, 2, 10, 22, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, tzinfo=dt.UTC)]),
    "v": ("decimal(20,2)", ["1.50", "-3.25"]),
}
STATS = ("full", "full", "full", "none", "count", "some", "broken", "no nulls")


@dataclass(frozen=True)
class File:
    partition: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    stats: str


_file = st.builds(
    File,
    st.fixed_dictionaries({name: st.none() | st.sampled_from(pool) for name, (_, pool) in PARTITIONS.items()}),
    st.lists(_row, max_size=3).map(tuple),
    st.sampled_from(STATS),
)


def _partition_filters() -> st.SearchStrategy[PartitionFilter]:
    def of(name: str) -> st.SearchStrategy[PartitionFilter]:
        value = st.none() | st.sampled_from([v for v in PARTITIONS[name][1] if v == v and (v != "" or name == "p")])
        single = st.builds(PartitionFilter, st.just(name), st.sampled_from(["=", "!="]), value)
        several = st.builds(
            PartitionFilter, st.just(name), st.sampled_from(["in", "not in"]), st.lists(value, max_size=3)
        )
        return single | several

    return st.sampled_from(list(PARTITIONS)).flatmap(of)


def _stats_filters() -> st.SearchStrategy[StatsFilter]:
    def of(name: str) -> st.SearchStrategy[StatsFilter]:
        values = st.sampled_from(COLUMNS[name][2])
        compared = st.builds(StatsFilter, st.just(name), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), values)
        return compared | st.builds(StatsFilter, st.just(name), st.sampled_from(["=", "!="]), st.none())

    return st.sampled_from(list(COLUMNS)).flatmap(of)


_policies = st.builds(
    FilePruningPolicy, st.lists(_partition_filters(), max_size=2), st.lists(_stats_filters(), max_size=2)
)


def written(value: Any) -> str | None:
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return None if value is None else "NaN" if value != value else str(value)


def stats_of(file: File) -> Any:
    full = collect_stats(file.rows, list(COLUMNS))
    match file.stats:
        case "none":
            return None
        case "broken":
            return '{"numRecords":'
        case "count":
            return {"numRecords": len(file.rows)}
        case "some":
            return collect_stats(file.rows, ["x", "f", "t"])
        case "no nulls":
            return {key: value for key, value in full.items() if key != "nullCount"}
    return full


def build(root: Path, files: Sequence[File], checkpoint: str) -> None:
    kinds = {name: kind for name, (kind, _) in PARTITIONS.items()} | {
        name: kind for name, (kind, _, _) in COLUMNS.items()
    }
    builder = LogBuilder(root).protocol(reader=3, features=["timestampNtz"]).metadata(kinds, partition_by=[*PARTITIONS])
    for number, file in enumerate(files):
        partition = {name: written(value) for name, value in file.partition.items()}
        builder.commit(AddFile(f"f{number}.parquet", size=number + 1, partition=partition, stats=stats_of(file)))
    if checkpoint != "none":
        builder.checkpoint(stats=checkpoint == "text", stats_parsed=checkpoint == "typed")


def matches(policy: FilePruningPolicy, file: File, row: dict[str, Any]) -> bool:
    """Whether a row fulfils a policy, by the meaning of the filters alone."""
    partition = {name: None if value == "" else value for name, value in file.partition.items()}
    return all(_holds(f, partition[f.column]) for f in policy.partition_filters) and all(
        _holds(f, row[f.column]) for f in policy.stats_filters
    )


def _holds(condition: PartitionFilter | StatsFilter, value: Any) -> bool:
    op, wanted = condition.op, condition.value
    if op in ("in", "not in"):
        if value is None:
            return (None in wanted) and op == "in"
        return (any(value == w for w in wanted)) is (op == "in")
    if wanted is None or value is None:
        return (wanted is None) and (value is None) is (op == "=")
    return (
        bool({"=": value == wanted, "!=": value != wanted}[op])
        if op in ("=", "!=")
        else bool({"<": value < wanted, "<=": value <= wanted, ">": value > wanted, ">=": value >= wanted}[op])
    )


def check(root: Path, files: Sequence[File], policy: FilePruningPolicy, without_nulls: str | None = None) -> None:
    """Of the column `without_nulls` the index reads bounds and no null counts: it may keep a file for that."""
    table = DeltaTable(str(root))
    fast, plain = prune_files(table, policy), prune_files(table, policy, "plain")
    kept, kept_plainly = ([file.path for file in result] for result in (fast, plain))
    assert len(kept) == len(set(kept))
    if any(f.column == without_nulls for f in policy.stats_filters):
        assert set(kept) >= set(kept_plainly)
    else:
        assert sorted(kept) == sorted(kept_plainly)
    for result, count in ((fast, len(kept)), (plain, len(kept_plainly))):
        found = (result.candidate_count, result.total_files, result.pruned_count)
        assert found == (count, len(files), len(files) - count)
    for number, file in enumerate(files):
        if any(matches(policy, file, row) for row in file.rows):
            assert f"f{number}.parquet" in kept, "a file with a matching row was lost"


@pytest.mark.slow
@pytest.mark.parametrize("shard", shards(CASES))
@random_cases(CASES)
@given(
    files=st.lists(_file, min_size=1, max_size=5),
    policy=_policies,
    checkpoint=st.sampled_from(["none", "text", "typed"]),
    index=st.none() | _indexes,
)
def test_the_evaluators_agree(
    shard: int, files: list[File], policy: FilePruningPolicy, checkpoint: str, index: BuildOptions | None
) -> None:
    root = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    note(f"policy: {policy}")
    try:
        build(root, files, checkpoint)
        check(root, files, policy)
        if index is not None:
            build_index(open_store(str(root)), options=replace(index, limits=small_parts(single=0)))
            check(root, files, policy, without_nulls=index.time_column)
    finally:
        shutil.rmtree(root)
