"""`sidecar maintain` as far as it goes without Spark, and `sidecar build --watch` as a process that is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from delta_sidecar.testing import LogBuilder, add
from tests.cli.running import COMMAND, assert_refused, invoke

WITHOUT_SPARK = ("--skip", "vacuum")


@pytest.fixture
def events(tmp_path: Path) -> LogBuilder:
    return LogBuilder(tmp_path / "events").commit(add("a", size=1), add("b", size=1))


def test_a_dry_run_says_what_each_step_would_do(events: LogBuilder) -> None:
    done = invoke("maintain", events.root, "--dry-run", *WITHOUT_SPARK)
    assert done.code == 0
    words = [line.split(maxsplit=1)[0] for line in done.out.splitlines()]
    assert words == ["table", "version", "optimize", "index", "garbage", "dry"]
    assert "due: 2 small files in 1 buckets" in done.out
    assert sorted(path.name for path in events.root.iterdir()) == ["_delta_log"]


def test_one_step_alone_and_as_json(events: LogBuilder) -> None:
    (report,) = invoke("maintain", events.root, "--only", "index", "--json").objects
    assert [(step["step"], step["state"]) for step in report["steps"]] == [("index", "done")]
    assert (report["version"], report["dry_run"]) == (0, False)
    (again,) = invoke("maintain", events.root, "--only", "index", "--json").objects
    assert again["steps"][0]["state"] == "nothing to do"


def test_a_target_size_decides_what_is_small(events: LogBuilder) -> None:
    done = invoke("maintain", events.root, "--only", "optimize", "--target-file-size", "2B", "--dry-run")
    assert "no bucket has several small files" in done.out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["--only", "polish"], "polish"), (["--skip", "polish"], "polish"), (["--target-file-size", "big"], "big")],
)
def test_orders_that_make_no_sense_are_refused(events: LogBuilder, arguments: list[str], word: str) -> None:
    assert_refused(invoke("maintain", events.root, *arguments), word)


def test_a_table_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert_refused(invoke("maintain", tmp_path / "nowhere"), "no Delta table")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_tells_each_build_and_ends_well_when_stopped(events: LogBuilder, number: signal.Signals) -> None:
    events.checkpoint()
    command = [*COMMAND, "build", str(events.root), "--watch", "--interval", "0.2", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline())["version"] == 0
            events.commit(add("c")).checkpoint()
            assert json.loads(watching.stdout.readline())["version"] == 1
            watching.send_signal(number)
            assert watching.wait(30) == 0
            assert watching.stdout.read() == ""
        finally:
            watching.kill()
    assert list(Path(events.log, "_sidecars").glob("*.lease.json")) == []
