"""On a standalone cluster: nothing depends on local mode, and a lost executor loses nothing."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deltalake
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import build_index
from delta_sidecar.index.read.manifests import newest_usable_manifest
from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from tests.integration.servers import SparkCluster
from tests.integration.spark.driving import SECONDS, answered, sidecar, started
from tests.integration.spark.indexed import verified


def written(root: Path, commits: int = 4) -> Path:
    """A table of ten partitions, with a checkpoint and a tail."""
    for commit in range(commits):
        rows = pa.table({"id": range(10), "part": [str(n) for n in range(10)], "commit": [commit] * 10})
        deltalake.write_deltalake(str(root), rows, partition_by=["part"], mode="append")
        if commit == commits - 2:
            deltalake.DeltaTable(str(root)).create_checkpoint()
    return root


def live(root: Path) -> list[str]:
    return sorted(path.removeprefix(f"{root}/") for path in deltalake.DeltaTable(str(root)).file_uris())


def without_package(folder: Path) -> Path:
    """A Python that has all libraries but this package: `-S` leaves out what makes it importable from here."""
    script = folder / "python"
    libraries = sysconfig.get_paths()["platlib"]
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    check = [str(script), "-c", "import pyarrow, obstore; import delta_sidecar"]
    assert "No module named 'delta_sidecar'" in subprocess.run(check, capture_output=True, text=True).stderr
    return script


@dataclass(frozen=True, slots=True)
class Driven:
    """What one driver was given, and what it answered."""

    table: Path
    """Built as `table`, which is a relative path, by workers that lack the package."""
    refused: Path
    """Given as `/proc/self/cwd/refused`: the working directory of whoever opens it."""
    before: list[Path]
    """The files of the refused table before."""
    answers: dict[str, Any]


@pytest.fixture(scope="module")
def driven(cluster: SparkCluster, tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """One driver for the tests that need no other: it takes longer to start than to work."""
    place = tmp_path_factory.mktemp("driven")
    table, refused = written(place / "table"), written(place / "refused")
    before = files_below(refused)
    settings = cluster.settings | {"spark.pyspark.python": str(without_package(place))}
    typed = {"build": "table", "refusals": "/proc/self/cwd/refused"}
    driver = started(cluster.master, table, ["build", "engine", "refusals"], settings, typed=typed)
    return Driven(table, refused, before, answered(driver))


def test_an_index_is_built_on_workers_that_lack_the_package(driven: Driven) -> None:
    report = driven.answers["build"]
    assert (report["engine"], report["files"]) == ("spark", 40)
    assert report["parts"] > 5
    assert sorted(verified(open_store(driven.table))[0]) == live(driven.table)


def test_workers_that_lack_the_package_read_through_the_index(driven: Driven) -> None:
    source, native, delta = driven.answers["engine"]
    assert len(delta) == 8
    assert source == native == delta


def test_a_relative_path_is_that_of_the_driver(driven: Driven) -> None:
    assert (driven.table / driven.answers["build"]["manifest"]).is_file()
    assert [path.name for path in driven.table.iterdir() if path.name.startswith(".")] == []


def test_a_path_that_workers_do_not_share_is_refused(driven: Driven) -> None:
    said = driven.answers["refusals"]
    assert set(said) == {"build_index", "ingest_events", "maintain_table"}
    for line in said.values():
        assert "/proc/self/cwd/refused is not the same directory on this machine and on Spark's workers" in line
    # The index of a small table needs no worker: maintain goes on with it after the step that was refused.
    assert [path for path in files_below(driven.refused) if "_sidecars" not in path.parts] == driven.before


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.long
def test_a_batch_is_ingested_by_the_command_on_the_cluster(cluster: SparkCluster, tmp_path: Path) -> None:
    source, table = tmp_path / "source", tmp_path / "table"
    source.mkdir()
    times = pa.array([1_767_225_600_000_000 + minute * 60_000_000 for minute in range(180)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": range(180), "ts": times}), source / "events.parquet")
    settings = [part for name, value in cluster.settings.items() for part in ("--conf", f"{name}={value}")]
    done = sidecar(
        "ingest", str(source), str(table), "--time-column", "ts", "--index", "always", "--master", cluster.master,
        *settings,
    )  # fmt: skip
    assert (done["rows"], done["buckets"], done["files"], done["indexed"]) == (180, 3, 3, True)
    assert sorted(verified(open_store(table))[0]) == live(table)


@pytest.mark.long
def test_an_executor_killed_in_the_middle_of_a_task_is_made_up_for(cluster: SparkCluster, tmp_path: Path) -> None:
    table, mark = written(tmp_path / "table"), tmp_path / "mark"
    driver = started(cluster.master, table, ["build"], cluster.settings, mark)
    try:
        executor = executor_of(awaited_pid(mark), cluster)
        executor.kill()
        report = answered(driver)["build"]
    finally:
        driver.kill()
    assert (report["engine"], report["files"]) == ("spark", 40)
    assert sorted(verified(open_store(table))[0]) == live(table)


@pytest.mark.long
def test_a_build_killed_in_the_middle_leaves_the_old_index_and_the_next_one_completes(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    table, mark = written(tmp_path / "table"), tmp_path / "mark"
    old = build_index(open_store(table))
    written(table, commits=1)
    driver = started(cluster.master, table, ["build"], cluster.settings, mark)
    try:
        awaited_pid(mark)
    finally:
        driver.kill()
        driver.communicate(timeout=SECONDS)
    snapshot = load_snapshot(open_store(table))
    found, passed = newest_usable_manifest(snapshot)
    assert found is not None
    assert (found.manifest.version, passed) == (old.version, [])
    assert sorted(file.path for file in DeltaTable(str(table)).file_infos()) == live(table)
    report = answered(started(cluster.master, table, ["build"], cluster.settings))["build"]
    assert (report["engine"], report["version"], report["files"]) == ("spark", old.version + 1, 50)
    assert sorted(verified(open_store(table))[0]) == live(table)


def awaited_pid(mark: Path) -> int:
    """The process of the task that waits."""
    deadline = time.monotonic() + SECONDS
    while not (mark.exists() and mark.read_text().endswith("\n")):
        assert time.monotonic() < deadline, "no task got as far as writing"
        time.sleep(0.1)
    return int(mark.read_text())


def executor_of(task: int, cluster: SparkCluster) -> psutil.Process:
    """The executor that runs a task: the child of one of our workers that the task's process descends from."""
    lineage = psutil.Process(task).parents()
    return next(process for process in lineage if process.ppid() in cluster.workers)
