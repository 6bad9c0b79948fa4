"""`sidecar build --watch`, as a process that is stopped by a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from delta_sidecar.index.names import SIDECARS
from delta_sidecar.testing import LogBuilder, add
from tests.cli.running import COMMAND, invoke


def wait_for(path: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} never came"
        time.sleep(0.05)


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
