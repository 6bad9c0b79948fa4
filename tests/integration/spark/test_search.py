"""Hits of a query in Spark: the source finds what the table finds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar.search import CompanionSearch, SearchTable, build_splits, follow, register_search
from tests.search.lines import log_lines
from tests.search.test_building import CHOICES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def searching(spark: SparkSession) -> SparkSession:
    register_search(spark)
    return spark


def read(spark: SparkSession, path: Path, query: str, **options: str) -> DataFrame:
    return spark.read.format("sidecar_search").options(query=query, **options).load(str(path))


def test_hits_of_a_search_table(searching: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "logs"
    build_splits(log_lines(600), root, **CHOICES, rows_per_split=200)
    frame = read(searching, root, "timeout AND error", where="id >= 250", columns="id,ts")
    assert frame.columns == ["score", "id", "ts"]
    wanted = SearchTable(root).search("timeout AND error", "id >= 250", limit=None).to_table()
    found = sorted((row.id, round(row.score, 4)) for row in frame.collect())
    assert found == sorted(
        zip(wanted["id"].to_pylist(), (round(s, 4) for s in wanted["score"].to_pylist()), strict=True)
    )
    assert frame.rdd.getNumPartitions() == 2
    # The version is pinned with the schema.
    build_splits(log_lines(50, first=900), root)
    assert frame.count() == len(found)
    assert read(searching, root, "id:99999").count() == 0


def test_rows_of_a_delta_table(searching: SparkSession, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    root = tmp_path / "events"
    write_deltalake(str(root), log_lines(200))
    follow(root, text=["body"], time_column="ts", filters=["host"])
    frame = read(searching, root, "disk host:web-3")
    wanted = CompanionSearch(root).search("disk host:web-3", limit=1000).to_table()
    assert sorted(row.body for row in frame.collect()) == sorted(wanted["body"].to_pylist())


def test_what_is_wrong_is_named(searching: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "logs"
    build_splits(log_lines(20), root, **CHOICES)
    for problem, options in {
        "not understood at character 9": {"query": "disk AND"},
        "unknown option 'limt'": {"query": "disk", "limt": "5"},
        "needs the option query": {"columns": "id"},
    }.items():
        with pytest.raises(Exception, match=problem):
            searching.read.format("sidecar_search").options(**options).load(str(root)).collect()
