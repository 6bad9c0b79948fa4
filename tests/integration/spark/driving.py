"""Running `driver.py`, or the command, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

DRIVER = Path(__file__).with_name("driver.py")
SIDECAR = Path(sys.executable).with_name("sidecar")
SECONDS = 240


def started(
    master: str,
    table: Path,
    steps: Sequence[str],
    conf: Mapping[str, str] | None = None,
    pause: Path | None = None,
    typed: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """A driver at work in the directory above the table, which a step is given by another name if `typed` has one."""
    order = {
        "master": master,
        "conf": dict(conf or {}),
        "tables": {step: (typed or {}).get(step, str(table)) for step in steps},
        "pause": None if pause is None else str(pause),
    }
    command = [sys.executable, str(DRIVER), json.dumps(order)]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=table.parent, env=environment
    )


def answered(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """What a driver answers when it is done."""
    try:
        said, complaint = driver.communicate(timeout=SECONDS)
    finally:
        driver.kill()
    assert driver.returncode == 0, complaint[-3000:]
    answer: dict[str, Any] = json.loads(said.splitlines()[-1])
    return answer


def killed_while_writing(command: Sequence[str], table: Path, log: Path) -> None:
    """Kill the command and Spark with it as soon as a batch has written files but not its commit."""
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    deadline = time.monotonic() + SECONDS
    while not any(table.glob("_event_minute=*/*.parquet")):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def sidecar(*arguments: str) -> dict[str, Any]:
    """What the command answers as JSON."""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [str(SIDECAR), *arguments, "--json"], capture_output=True, text=True, timeout=SECONDS, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
