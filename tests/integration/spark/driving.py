"""Running `driver.py`, or the command, beside a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
    typed: str | None = None,
) -> subprocess.Popen[str]:
    """A driver at work in the directory above the table, which it is given as `typed`."""
    order = {
        "master": master,
        "conf": dict(conf or {}),
        "table": typed or str(table),
        "steps": list(steps),
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


def sidecar(*arguments: str) -> dict[str, Any]:
    """What the command answers as JSON."""
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [str(SIDECAR), *arguments, "--json"], capture_output=True, text=True, timeout=SECONDS, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
