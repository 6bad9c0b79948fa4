"""One measurement, in a fresh process: wall time, CPU time, peak memory over imports, peak of Arrow's pool.

The peak is the kernel's own high-water mark of resident memory (VmHWM). A child inherits its parent's `ru_maxrss`
through fork and exec, so that figure is useless here; instead the mark is reset through /proc/self/clear_refs after
the imports, and what is reported is the mark at the end minus the resident memory at the reset. Imports that a reader
makes only when it is used count as part of the run, in time and in memory. Where the mark cannot be reset, a thread
samples resident memory every 2 ms, and the measurement says so.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks import engine_workloads, index_workloads, workloads
from benchmarks.specs import Spec, from_json, to_json

ROOT = Path(__file__).resolve().parent.parent
STATUS = Path("/proc/self/status")
MARKER = "measurement: "
REGISTRY = workloads.WORKLOADS | index_workloads.WORKLOADS | engine_workloads.WORKLOADS


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one workload cost: medians over the runs, or the reason why there is no figure."""

    key: str
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_mb: float | None = None
    arrow_peak_mb: float | None = None
    count: int | None = None
    runs: list[dict[str, Any]] = field(default_factory=list)
    error: str | None = None
    # Where the figures come from, when it is not this very run.
    recorded: str | None = None

    def told(self, name: str) -> float | None:
        """The median of what the runs themselves told, such as their requests; None if they do not tell it."""
        values = [run["extra"][name] for run in self.runs if run.get("extra", {}).get(name) is not None]
        return statistics.median(values) if values else None


class PeakMeter(Protocol):
    """Tells the peak of resident memory since it was made, in bytes over the resident memory at that moment."""

    method: str

    def peak(self) -> int:
        """The peak so far."""
        ...


class HighWaterMark:
    """The kernel's own mark, reset at the start: exact."""

    method = "VmHWM"

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")
        self._start = resident()
        if _status("VmHWM") > self._start + (1 << 20):
            raise OSError("the high-water mark was not reset")

    def peak(self) -> int:
        """The mark, over the memory at the start."""
        return _status("VmHWM") - self._start


class Sampler:
    """A thread that looks every 2 ms: may miss short peaks."""

    method = "sampled"

    def __init__(self) -> None:
        self._start = self._most = resident()
        threading.Thread(target=self._watch, daemon=True).start()

    def peak(self) -> int:
        """The most that was seen, over the memory at the start."""
        return max(self._most, resident()) - self._start

    def _watch(self) -> None:
        while True:
            self._most = max(self._most, resident())
            time.sleep(0.002)


def resident() -> int:
    """Resident memory of this process, in bytes."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def measure(key: str, spec: Spec, repetitions: int = 3, timeout: float = 1800) -> Measurement:
    """Run a workload several times, each in a fresh process; a failure of any run is the result."""
    return measure_in_turn([(key, spec)], repetitions, timeout)[0]


def measure_in_turn(
    workloads: Sequence[tuple[str, Spec]], repetitions: int = 3, timeout: float = 1800
) -> list[Measurement]:
    """As `measure`, of several workloads, a run of each in turn: what slows the machine for a while slows them all."""
    runs: list[list[dict[str, Any]]] = [[] for _ in workloads]
    for _ in range(repetitions):
        for (key, spec), found in zip(workloads, runs, strict=True):
            if not found or "error" not in found[-1]:
                found.append(run_child(key, spec, timeout))
    return [_measurement(key, found) for (key, _), found in zip(workloads, runs, strict=True)]


def _measurement(key: str, runs: list[dict[str, Any]]) -> Measurement:
    if "error" in runs[-1]:
        return Measurement(key, runs=runs[:-1], error=runs[-1]["error"])
    return Measurement(
        key,
        seconds=_median(runs, "seconds"),
        cpu_seconds=_median(runs, "cpu_seconds"),
        peak_mb=_median(runs, "peak_mb"),
        arrow_peak_mb=_median(runs, "arrow_peak_mb"),
        count=runs[0]["count"],
        runs=runs,
    )


def available_memory() -> int:
    """Memory that a child could use without swapping, in bytes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def run_child(key: str, spec: Spec, timeout: float, root: Path = ROOT) -> dict[str, Any]:
    """One run in a fresh process of a checkout, with its code: what it measured, or its `error`."""
    command = [sys.executable, "-m", "benchmarks.measure", key, json.dumps(to_json(spec))]
    environ = os.environ | {"PYTHONPATH": str(root / "src")}
    try:
        done = subprocess.run(
            command, cwd=root, env=environ, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer after {timeout:.0f} s"}
    answers = [line.removeprefix(MARKER) for line in done.stdout.splitlines() if line.startswith(MARKER)]
    if done.returncode == 0 and answers:
        answer: dict[str, Any] = json.loads(answers[-1])
        return answer
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"error": last if done.returncode >= 0 else f"killed by signal {-done.returncode}: {last}"}


def _median(runs: list[dict[str, Any]], name: str) -> float | None:
    values = [run[name] for run in runs if run[name] is not None]
    return statistics.median(values) if values else None


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


def _meter() -> PeakMeter:
    try:
        return HighWaterMark()
    except (OSError, StopIteration):
        return Sampler()


def _arrow_peak() -> int | None:
    """The peaks of all of Arrow's pools together, for a reader may use another than the usual one.

    Only if the workload has loaded Arrow: looking must not load it.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is None:
        return None
    pools = [getattr(arrow, f"{name}_memory_pool")() for name in arrow.supported_memory_backends()]
    return sum(max(0, int(pool.max_memory())) for pool in pools)


def _measured(key: str, spec: Spec) -> dict[str, Any]:
    workload = REGISTRY[key]
    workload.prepare()
    gc.collect()
    meter = _meter()
    cpu, started = time.process_time(), time.perf_counter()
    answer = workloads.run(workload, spec)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu
    peak, arrow_peak = meter.peak(), _arrow_peak()
    return {
        **dataclasses.asdict(answer),
        "seconds": seconds if answer.seconds is None else answer.seconds,
        "cpu_seconds": cpu_seconds,
        "peak_mb": peak / 1e6,
        "peak_method": meter.method,
        "arrow_peak_mb": None if arrow_peak is None else arrow_peak / 1e6,
    }


def main(key: str, spec: dict[str, Any]) -> None:
    """The child's side: measure and print one line of JSON."""
    print(MARKER + json.dumps(_measured(key, from_json(spec))))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
