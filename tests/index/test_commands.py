"""`sidecar build`: the engine that is chosen, and `--watch` as a process that is stopped by a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from delta_sidecar.errors import SparkError
from delta_sidecar.index.build.build import BuildOptions
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.limits import BuildLimits
from delta_sidecar.pipeline import session
from delta_sidecar.pipeline.spark_build import build_index
from delta_sidecar.testing import LogBuilder, add
from tests.cli.running import COMMAND, invoke


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_indexes_new_checkpoints_until_stopped(tmp_path: Path, number: signal.Signals) -> None:
    log = LogBuilder(tmp_path).commit(add("a")).checkpoint()
    arguments = ["build", str(tmp_path), "--watch", "--interval", "0.1", "--json"]
    watching = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(tmp_path / SIDECARS / "v0.manifest.json")
        log.commit(add("b")).commit(add("c")).checkpoint()
        wait_for(tmp_path / SIDECARS / "v2.manifest.json")
        watching.send_signal(number)
        out, err = watching.communicate(timeout=60)
    finally:
        watching.kill()
    assert (watching.returncode, err) == (0, "")
    assert [json.loads(line)["version"] for line in out.splitlines()] == [0, 2]
    assert invoke("verify", tmp_path).code == 0


def test_the_engine_and_why_it_was_chosen_are_told(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"), add("b"))
    done = invoke("build", tmp_path)
    assert done.code == 0
    assert "2 files: built in one process; Spark is used above 5,000,000" in done.out
    told = json.loads(invoke("build", tmp_path, "--full", "--engine", "process", "--json").out)
    assert (told["engine"], told["reason"]) == ("process", "2 files: built in one process; as requested")


def test_an_engine_that_is_none_is_refused(tmp_path: Path) -> None:
    LogBuilder(tmp_path).commit(add("a"))
    done = invoke("build", tmp_path, "--engine", "duckdb")
    assert (done.code, done.out) == (2, "")
    assert "no engine 'duckdb'; give one of auto, process, spark" in done.err


def test_without_pyspark_one_line_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(package: str) -> str:
        raise session.PackageNotFoundError(package)

    monkeypatch.setattr(session, "version", absent)
    LogBuilder(tmp_path).commit(*(add(f"{n}.parquet") for n in range(9)))
    with pytest.raises(SparkError) as raised:
        build_index(str(tmp_path), options=BuildOptions(limits=BuildLimits(process_files=8)))
    assert str(raised.value) == (
        "the index must be built on Spark; 9 files to read, and one process builds up to 8; pyspark is not installed; "
        "run: pip install 'delta-sidecar[spark]', or build in one process: --engine process"
    )
    done = invoke("build", tmp_path, "--engine", "spark")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert "pip install 'delta-sidecar[spark]', or build in one process: --engine process" in done.err
    assert invoke("build", tmp_path, "--engine", "process").code == 0


def test_one_file_is_not_files(tmp_path: Path) -> None:
    root = LogBuilder(tmp_path / "one").commit(add("a")).root
    built = invoke("build", root, "--full")
    assert "engine   1 file: built in one process" in built.out
    for command in ("explain", "info"):
        assert "index 0, 1 file in 1 part" in invoke(command, root).out
