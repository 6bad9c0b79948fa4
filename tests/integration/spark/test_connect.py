"""Over Spark Connect: public API only, nothing of the driver's JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_sidecar.log.snapshot import load_snapshot
from delta_sidecar.storage import open_store
from tests.integration.spark.driving import answered, started
from tests.integration.spark.indexed import verified
from tests.integration.spark.test_cluster import live, written


@pytest.fixture(scope="module")
def done(connect: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, object]]]:
    """A table that was ingested, maintained and indexed by a client of the server."""
    table = tmp_path_factory.mktemp("connect") / "table"
    return table, answered(started(connect, table, ["ingest", "maintain", "build", "engine"]))


def test_a_batch_is_ingested_once(done: tuple[Path, dict[str, list[dict[str, object]]]]) -> None:
    first, second = done[1]["ingest"]
    assert (first["rows"], first["buckets"], first["skipped_as_replayed"]) == (600, 10, False)
    assert (second["files"], second["skipped_as_replayed"]) == (0, True)


def test_a_table_is_maintained(done: tuple[Path, dict[str, dict[str, list[dict[str, object]]]]]) -> None:
    states = {step["step"]: step["state"] for step in done[1]["maintain"]["steps"]}
    assert states["checkpoint"] == "done"
    assert load_snapshot(open_store(done[0])).segment.base is not None


def test_an_index_is_built(done: tuple[Path, dict[str, dict[str, object]]]) -> None:
    report = done[1]["build"]
    assert (report["engine"], report["mode"], report["files"]) == ("spark", "full", 10)
    assert len(verified(open_store(done[0]))[0]) == 10


def test_a_table_is_read_through_its_index(done: tuple[Path, dict[str, list[list[str]]]]) -> None:
    source, native, delta = done[1]["engine"]
    assert len(delta) == 2
    assert source == native == delta


def test_a_relative_path_is_that_of_the_client(connect: str, tmp_path: Path) -> None:
    table = written(tmp_path / "table")
    report = answered(started(connect, table, ["build"], typed={"build": "table"}))["build"]
    assert (report["engine"], report["files"]) == ("spark", 40)
    assert sorted(verified(open_store(table))[0]) == live(table)


def test_a_path_that_the_server_does_not_share_is_refused(connect: str, tmp_path: Path) -> None:
    table = written(tmp_path / "table")
    said = answered(started(connect, table, ["refusals"], typed={"refusals": "/proc/self/cwd/table"}))["refusals"]
    assert set(said) == {"build_index", "ingest_events", "maintain_table"}
    for line in said.values():
        assert "is not the same directory on this machine and on Spark's workers" in line
