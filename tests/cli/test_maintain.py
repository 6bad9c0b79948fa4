"""`sidecar maintain` as far as it goes without Spark, and `sidecar build --watch` as a process that is stopped."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from delta_sidecar.errors import OptionError
from delta_sidecar.pipeline import maintenance as maintaining
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
    assert "due: 2 small files in 1 bucket" in done.out
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


def test_several_tables_are_an_object_each(events: LogBuilder, tmp_path: Path) -> None:
    LogBuilder(tmp_path / "more").commit(add("a"))
    done = invoke("maintain", events.root, tmp_path / "nowhere", tmp_path / "more", "--only", "index", "--json")
    assert done.code == 2
    first, second, third = map(json.loads, done.out.splitlines())
    assert [report["steps"][0]["state"] for report in (first, third)] == ["done", "done"]
    assert second["steps"] == []
    assert "no Delta table" in second["error"]
    assert [line for line in done.err.splitlines() if "nowhere" in line and "no Delta table" in line]
    plain = invoke("maintain", events.root, tmp_path / "more", "--only", "index")
    assert plain.code == 0
    assert plain.out.count("nothing to do") == 2


@pytest.mark.parametrize(("error", "code"), [("OptionError", 2), ("RuntimeError", 1)])
def test_a_step_that_fails_decides_the_exit_code(
    events: LogBuilder, monkeypatch: pytest.MonkeyPatch, error: str, code: int
) -> None:
    def broken(*given: object) -> None:
        raise {"OptionError": OptionError, "RuntimeError": RuntimeError}[error]("no room for geheim")

    monkeypatch.setattr(maintaining, "crowded_partitions", broken)
    given = ("--storage-option", "secret_token=geheim", "--only", "optimize", "--only", "index")
    done = invoke("maintain", events.root, *given)
    assert done.code == code
    assert "failed: " in done.out
    assert "index     done: " in done.out
    assert "optimize failed: " in done.err
    assert "geheim" not in done.out + done.err


def test_a_checkpoint_comes_with_a_warning(events: LogBuilder) -> None:
    done = invoke("maintain", events.root, "--only", "checkpoint", "--dry-run", "--json")
    assert "aborts every batch and stream" in done.objects[0]["warnings"][0]


@pytest.mark.slow
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
