"""A user's script sees types: `mypy --strict` against the installed package, outside of this project."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.resources import files

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


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy says of both scripts, in one run: most of it goes into reading the libraries."""
    place = tmp_path_factory.mktemp("user")
    scripts = {"good": GOOD, "bad": BAD}
    for name, script in scripts.items():
        (place / f"{name}.py").write_text(script)
    (place / "mypy.ini").write_text("[mypy]\n")
    environment = {name: value for name, value in os.environ.items() if name != "MYPYPATH"}
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini", "good.py", "bad.py"]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    *lines, last = done.stdout.splitlines()
    assert "(checked 2 source files)" in last, done.stdout + done.stderr
    return {name: [line for line in lines if line.startswith(f"{name}.py:")] for name in scripts} | {"all": lines}


def test_the_package_says_that_it_has_types() -> None:
    assert files("delta_sidecar").joinpath("py.typed").is_file()


@pytest.mark.slow
def test_a_script_is_clean(told: dict[str, list[str]]) -> None:
    assert told["good"] == []
    assert told["all"] == told["bad"]


@pytest.mark.slow
def test_mistakes_are_found(told: dict[str, list[str]]) -> None:
    errors = [line for line in told["bad"] if ": error: " in line]
    kinds = [line.rpartition("[")[2].rstrip("]") for line in errors]
    assert kinds == ["operator", "attr-defined", "call-arg", "arg-type"], errors
