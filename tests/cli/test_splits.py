"""`sidecar splits`: from rows to a search table, and what keeps it in order."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

pytest.importorskip("tantivy", reason="the extra `search` is not installed")

from delta_sidecar import StoreUnavailableError
from delta_sidecar.cli.splits import FollowOrder, Place, follow_table
from delta_sidecar.search import FollowReport
from tests.cli.running import assert_refused, invoke
from tests.search.lines import log_lines
from tests.search.test_building import ids


@pytest.fixture
def source(tmp_path: Path) -> Path:
    pq.write_table(log_lines(100), tmp_path / "lines.parquet")
    return tmp_path / "lines.parquet"


def test_a_table_through_its_life(source: Path, tmp_path: Path) -> None:
    table = tmp_path / "logs"
    build = ("splits", "build", source, table, "--text", "body", "--key", "id", "--time", "ts", "--filter", "host")
    done = invoke(*build, "--analyzer", "body=en", "--rows-per-split", 40)
    assert (done.code, done.err) == (0, "")
    assert "100 rows in 3 splits" in done.out
    assert "in one process" in done.out
    assert invoke("splits", "build", source, table, "--json").objects[0]["rows"] == 100
    described = invoke("splits", "describe", table)
    assert "text, en" in described.out
    assert "200" in described.out
    assert len(invoke("splits", "describe", table, "--splits", "--json").objects) == 4
    assert len(invoke("splits", "describe", table, "--splits").out.splitlines()) == 5
    assert "would merge" in invoke("splits", "merge", table, "--dry-run").out
    assert "4 splits into 1" in invoke("splits", "merge", table).out
    assert ids(table) == sorted([*range(100), *range(100)])
    assert "version 3" in invoke("splits", "checkpoint", table).out
    doctor = invoke("splits", "doctor", table)
    assert (doctor.code, "no problem" in doctor.out) == (0, True)
    assert "purge" in doctor.out
    assert "0 files deleted" in invoke("splits", "purge", table).out
    kept = invoke("splits", "purge", table, "--older-than", "0s", "--log", "--dry-run", "--json").objects[0]
    assert kept["splits"]["deleted"] == []
    warm = invoke("splits", "prewarm", table, "--cache", tmp_path / "cache")
    assert "1 of 1 split" in warm.out
    assert "parquetCheckpoint" in invoke("splits", "upgrade", table, "--feature", "parquetCheckpoint").out
    for path in table.glob("*.split"):
        path.unlink()
    assert invoke("splits", "doctor", table).code == 1
    assert "200 rows" in invoke("splits", "repair", table).out
    assert ids(table) == []


@pytest.mark.slow
def test_partitions(source: Path, tmp_path: Path) -> None:
    table = tmp_path / "logs"
    invoke("splits", "build", source, table, "--text", "body", "--key", "id", "--partition-by", "host")
    dropped = invoke("splits", "drop-partition", table, "--where", "host = 'web-2'", "--json").objects[0]
    assert (dropped["rows"], len(dropped["splits"])) == (20, 1)
    assert_refused(invoke("splits", "drop-partition", table, "--where", "id = 1"), "no partition column")


def test_what_is_refused(source: Path, tmp_path: Path) -> None:
    table = tmp_path / "logs"
    assert_refused(invoke("splits", "build", source, table), "--text")
    assert_refused(invoke("splits", "build", source, table, "--text", "nope"), "nope")
    assert_refused(invoke("splits", "build", source, table, "--text", "body", "--analyzer", "body=xx"), "analyzer")
    assert_refused(invoke("splits", "build", tmp_path / "none", table, "--text", "body"), "does not exist")
    assert_refused(invoke("splits", "describe", table), "search table")
    invoke("splits", "build", source, table, "--text", "body")
    assert_refused(invoke("splits", "build", source, table, "--text", "host"), "indexes other columns")
    assert_refused(invoke("splits", "purge", table, "--older-than", "soon"), "7d")
    assert_refused(invoke("splits", "merge", table, "--target-size", "big"), "not a size")
    assert_refused(invoke("splits", "upgrade", table, "--feature", "magic"), "magic")
    assert_refused(invoke("splits", "doctr", table), "doctor")


def test_a_companion_is_followed(tmp_path: Path) -> None:
    table = tmp_path / "events"
    write_deltalake(str(table), log_lines(50))
    assert_refused(invoke("splits", "follow", table, "--once"), "--text")
    done = invoke("splits", "follow", table, "--text", "body", "--time", "ts", "--once")
    assert (done.code, done.err) == (0, "")
    assert "50 rows of 1 file" in done.out
    write_deltalake(str(table), log_lines(50, first=50), mode="append")
    assert invoke("splits", "follow", table, "--once", "--json").objects[0]["indexed_rows"] == 50
    assert invoke("splits", "describe", table / "_search", "--json").objects[0]["rows"] == 100


@pytest.mark.slow
def test_following_goes_on_until_it_is_stopped(tmp_path: Path) -> None:
    table = tmp_path / "events"
    write_deltalake(str(table), log_lines(50))
    command = [sys.executable, "-m", "delta_sidecar.cli.main", "splits", "follow", str(table), "--text", "body"]
    with subprocess.Popen([*command, "--interval", "0.2", "--json"], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            assert json.loads(follower.stdout.readline())["indexed_files"] == 1
            write_deltalake(str(table), log_lines(50, first=50), mode="append")
            assert json.loads(follower.stdout.readline())["indexed_files"] == 1
            follower.send_signal(signal.SIGTERM)
            follower.wait(30)
        finally:
            follower.kill()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--stream"], "--stream needs --checkpoint-location"),
        (["--every", "10 seconds"], "need --stream"),
        (["--stream", "--checkpoint-location", "p", "--batch-id", "1"], "a stream numbers its batches itself"),
        (["--stream", "--checkpoint-location", "p", "--mode", "overwrite"], "a stream appends"),
        (["--stream", "--checkpoint-location", "p", "--engine", "process"], "a stream runs on Spark"),
    ],
)
def test_options_of_a_stream_that_do_not_go_together(tmp_path: Path, options: list[str], problem: str) -> None:
    done = invoke("splits", "build", tmp_path, tmp_path / "logs", "--text", "body", *options)
    assert done.code == 2
    assert problem in done.err


def test_following_goes_on_when_a_store_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []
    stop = threading.Event()

    @contextmanager
    def stopped() -> Iterator[threading.Event]:
        yield stop

    def follow(*_: object, **__: object) -> FollowReport:
        calls.append(stop.is_set())
        if len(calls) == 1:
            raise StoreUnavailableError("the store did not answer")
        stop.set()
        return FollowReport(1, 1)

    monkeypatch.setattr("delta_sidecar.cli.splits.stopped_by_signals", stopped)
    monkeypatch.setattr("delta_sidecar.cli.splits.follow", follow)
    follow_table(FollowOrder(Place(str(tmp_path)), interval=0.01))
    assert len(calls) == 2
    calls.clear()
    with pytest.raises(StoreUnavailableError):
        follow_table(FollowOrder(Place(str(tmp_path)), once=True))
