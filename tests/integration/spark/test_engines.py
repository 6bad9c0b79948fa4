"""One table, indexed on Spark and in one process: the same files with the same stats, in the same order of keys."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.index.build.build_job import Engine
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.limits import BuildLimits
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.storage import open_store
from tests.index.models import index_rows_at
from tests.index.test_whole import TINY, random_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("sort_column", [None, "n"])
def test_both_engines_build_the_same_index(spark: SparkSession, tmp_path: Path, sort_column: str | None) -> None:
    log = random_table(tmp_path / "spark")
    shutil.copytree(log.root, tmp_path / "process")

    def built(engine: Engine, limits: BuildLimits) -> tuple[list[Any], list[Any]]:
        root = tmp_path / engine
        options = BuildOptions(
            sort_column=sort_column, part_rows=25, engine=engine, limits=replace(limits, single_rows=0)
        )
        report = build_index(str(root), options=options, spark=spark)
        assert (report.engine, report.mode) == (engine, "full")
        assert report.parts > 3
        assert verify_index(open_store(root)).ok
        with DeltaTable(str(root)).scan_files(columns=["path", "size", "stats", "partition_values"]) as scan:
            listing = [_parsed(row) for batch in scan for row in batch.to_pylist()]
            assert scan.metrics.tier == "index"
        rows = [_known(row) for row in index_rows_at(open_store(root), log.version)]
        return sorted(rows, key=_path), sorted(listing, key=_path)

    assert built("process", TINY) == built("spark", BuildLimits())


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what it has no value of: a part leaves columns out that are null in all its rows."""
    return {name: value for name, value in row.items() if value is not None}


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"stats": None if row["stats"] is None else json.loads(row["stats"])}


def _path(row: dict[str, Any]) -> str:
    path: str = row["path"]
    return path
