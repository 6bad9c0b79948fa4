"""The benchmark of engines: its table is what its log says, and every way to ask gives the same answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks import engine_workloads, synthetic, workloads
from benchmarks.engine_tables import ensure_engine_table
from benchmarks.engines import HOUR, goal, judged_way
from benchmarks.generate import ensure
from benchmarks.measure import Measurement
from benchmarks.specs import EngineSpec, RowsSpec, from_json, to_json
from delta_sidecar import DeltaTable

pytestmark = pytest.mark.slow

SPEC = EngineSpec(350)
ROWS = RowsSpec(files=3, rows_per_file=2_000)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(autouse=True)
def tables(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCH_DIR", str(place))
    ensure(ROWS)
    return ensure_engine_table(SPEC, workers=1)


def test_the_files_of_the_hour_are_as_the_log_says(tables: Path) -> None:
    listed = list(DeltaTable(tables).file_infos(f"ts >= '{SPEC.indexed.log.last_hour_begins}'"))
    assert len(listed) == len(SPEC.hour) == 50
    for file in listed:
        assert (tables / file.path).stat().st_size == file.size
    rows = sum(pq.read_metadata(tables / file.path).num_rows for file in listed)
    assert rows == synthetic.record_counts(np.array(SPEC.hour)).sum()


@pytest.mark.parametrize("key", [key for key in engine_workloads.WORKLOADS if "_hour" in key])
def test_every_way_counts_the_hour(key: str) -> None:
    workload = engine_workloads.WORKLOADS[key]
    workload.prepare()
    assert workloads.run(workload, SPEC).count > 0


@pytest.mark.parametrize("key", [key for key in engine_workloads.WORKLOADS if "_rows_" in key])
def test_every_way_reads_the_rows(key: str) -> None:
    workload = engine_workloads.WORKLOADS[key]
    workload.prepare()
    assert workloads.run(workload, ROWS).count > 0


def test_goals_follow_the_size() -> None:
    ours = "ours.duckdb_hour_files"
    assert [goal(EngineSpec(files), ours) for files in (10, 100_000, 5_000_000)] == [1.0, 1 / 15, 1 / 50]
    assert goal(EngineSpec(100_000), "ours.duckdb_hour_dataset") == 1 / 4
    assert goal(RowsSpec(), "ours.duckdb_rows_all") == 1.0
    figures = {ours: Measurement(ours, 0.1, 0.1, 50.0), HOUR[ours]: Measurement(HOUR[ours], 2.0, 2.0, 100.0)}
    (judged,) = judged_way(EngineSpec(100_000), ours, HOUR[ours], figures)
    assert (judged.reached, judged.verdict) == ("1/20.0", "PASS")
    (judged,) = judged_way(EngineSpec(10_000_000), ours, "", figures)
    assert (judged.goal, judged.reached, judged.verdict) == ("≤ 40 MB", "50 MB", "MISS")


def test_specs_travel() -> None:
    assert from_json(to_json(SPEC)) == SPEC
