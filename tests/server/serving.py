"""Servers of this process and of their own, and what tests look at in them."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pyarrow.parquet as pq

from delta_sidecar.server.json_logs import JsonLines
from delta_sidecar.server.roots import Root, Roots
from delta_sidecar.server.running import RunningServer, ServerOptions
from delta_sidecar.storage.store import Store
from delta_sidecar.storage.uri import Location, parse_location
from delta_sidecar.testing.actions import AddFile
from delta_sidecar.testing.table_builder import LogBuilder


@contextmanager
def serving(
    roots: Mapping[str, str | Path],
    opened: Callable[[Location], Store] | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> Iterator[RunningServer]:
    """A server of this process. `opened` opens the stores of its roots."""
    made = [Root(name, parse_location(place), storage_options or {}, opened) for name, place in roots.items()]
    with RunningServer(Roots(made), ServerOptions(**{"port": 0, "stop_seconds": 5.0, **options})) as server:
        yield server


@contextmanager
def logged() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """What a server logs in the block, line by line."""
    ours, text = logging.getLogger("delta_sidecar"), io.StringIO()
    before = ours.handlers, ours.propagate, ours.level
    ours.handlers, ours.propagate = [JsonLines(stream=text)], False
    ours.setLevel(logging.INFO)
    try:
        yield lambda: [json.loads(line) for line in text.getvalue().splitlines()]
    finally:
        ours.handlers, ours.propagate = before[0], before[1]
        ours.setLevel(before[2])


def command_of(**request: Any) -> flight.FlightDescriptor:
    return flight.FlightDescriptor.for_command(json.dumps(request).encode())


def bearer(token: str | None) -> flight.FlightCallOptions:
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    return flight.FlightCallOptions(headers=headers, timeout=30)


class ServerProcess:
    """`sidecar serve` as a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], told: dict[str, Any], log: Path) -> None:
        self.process = process
        self.log = log
        self.url: str = told["url"]
        self.metrics_port: int | None = told.get("metrics_port")
        self._tasks = Path(f"/proc/{process.pid}/task")
        self._files = Path(f"/proc/{process.pid}/fd")

    def threads(self) -> int:
        return len(list(self._tasks.iterdir()))

    def descriptors(self) -> int:
        return len(list(self._files.iterdir()))

    def peak_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024

    def lines(self) -> list[dict[str, Any]]:
        """What it logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """The exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def server_process(*arguments: object, environment: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    command = [sys.executable, "-m", "delta_sidecar.cli.main", "serve", "--port", "0", *map(str, arguments)]
    with tempfile.TemporaryDirectory(prefix="sidecar-serve-") as directory:
        log = Path(directory, "log")
        with log.open("wb") as sink:  # a pipe that nobody reads would stop the server
            process = subprocess.Popen(
                command, stderr=sink, stdin=subprocess.DEVNULL, env=os.environ | (environment or {})
            )
        try:
            eventually(lambda: "\n" in log.read_text() or process.poll() is not None, 60)
            first = log.read_text().partition("\n")[0]
            assert '"listening"' in first, first
            yield ServerProcess(process, json.loads(first), log)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def write_rows(root: Path, files: int, rows: int) -> None:
    """A table of random numbers, which do not compress."""
    drawn, adds = np.random.default_rng(7), []
    root.mkdir(parents=True)
    for number in range(files):
        place = root / f"{number}.parquet"
        pq.write_table(pa.table({"x": drawn.integers(0, 1 << 62, rows)}), place, use_dictionary=False)
        adds.append(AddFile(place.name, size=place.stat().st_size))
    LogBuilder(root).metadata({"x": "long"}).commit(*adds)


def eventually(holds: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether something comes true in time."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
