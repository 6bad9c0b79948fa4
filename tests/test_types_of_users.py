"""A user's script sees types: `mypy --strict` against the installed package, outside of this project."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

GOOD = """
import copy
from collections.abc import Callable
from typing import Any, assert_type

import delta_sidecar
from delta_sidecar import (
    BuildOptions,
    BuildReport,
    DeltaSidecarError,
    DeltaTable,
    FileInfo,
    FileScan,
    RowStream,
    ScanMetrics,
    ScanPlan,
    ScanPosition,
    VerifyReport,
    build_index,
    verify_index,
)
from delta_sidecar.pipeline import (
    IngestSummary,
    MaintenanceReport,
    StepReport,
    WatchReport,
    index_batch,
    ingest,
    ingest_stream,
    maintain,
    watch,
)


def newest(uri: str, position: ScanPosition | None = None) -> list[str]:
    table = DeltaTable(uri, storage_options={"aws_region": "eu-central-1"})
    assert_type(copy.deepcopy(table), DeltaTable)
    with table.scan_files("id > 3", columns=["path"], limit=5, after=position) as scan:
        assert_type(scan, FileScan)
        assert_type(scan.plan, ScanPlan)
        assert_type(scan.metrics, ScanMetrics)
        assert_type(ScanPosition.from_json(scan.position.to_json()), ScanPosition)
    assert_type(table.to_batches(predicate=[("id", ">", 3)]), RowStream)
    files: list[FileInfo] = list(table.file_infos())
    return [file.path for file in files if file.size is not None and file.size > 1_000]


def index(uri: str) -> int:
    try:
        report = build_index(uri, options=BuildOptions(time_column="ts"), progress=print)
    except DeltaSidecarError as error:
        raise SystemExit(str(error)) from error
    assert_type(report, BuildReport)
    assert_type(verify_index(uri, report.version), VerifyReport)
    assert_type(delta_sidecar.pipeline.build_index(uri), BuildReport)
    return report.files


def job(uri: str) -> None:
    assert_type(ingest("landing", uri, "ts", bucket="hour"), IngestSummary)
    ingest_stream("landing", uri, "ts", "progress", on_batch=lambda batch: print(batch.rows))
    report = maintain(uri, steps=["index"])
    assert_type(report, MaintenanceReport)
    assert_type(report.steps, tuple[StepReport, ...])
    assert_type(watch(uri, interval=10.0), WatchReport)
    assert_type(index_batch(uri), Callable[[Any, int], None])
"""

BAD = """
import delta_sidecar
from delta_sidecar import DeltaTable, pipeline

DeltaTable("events").version() + "1"
delta_sidecar.build_indexes("events")
pipeline.maintain("events", step=["index"])
DeltaTable("events").scan_files(limit="5")
"""


def check(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "user.py").write_text(script)
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "user.py"]
    return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)


def test_the_package_says_that_it_has_types() -> None:
    assert files("delta_sidecar").joinpath("py.typed").is_file()


@pytest.mark.slow
def test_a_script_is_clean(tmp_path: Path) -> None:
    done = check(tmp_path, GOOD)
    assert (done.returncode, done.stdout.strip()) == (0, "Success: no issues found in 1 source file")


@pytest.mark.slow
def test_mistakes_are_found(tmp_path: Path) -> None:
    errors = [line for line in check(tmp_path, BAD).stdout.splitlines() if ": error: " in line]
    kinds = [line.rpartition("[")[2].rstrip("]") for line in errors]
    assert kinds == ["operator", "attr-defined", "call-arg", "arg-type"], errors
