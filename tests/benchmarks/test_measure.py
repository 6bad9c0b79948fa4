"""A measurement is made in a process of its own, sees the peak, and never turns a failure into a figure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.generate import ensure
from benchmarks.measure import ROOT, HighWaterMark, Sampler, measure
from benchmarks.specs import LogSpec

pytestmark = pytest.mark.slow

MB = 1_000_000


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogSpec:
    monkeypatch.setenv("BENCH_DIR", str(tmp_path))
    spec = LogSpec(500, tail_commits=2, adds_per_commit=10)
    ensure(spec)
    return spec


PEAK_OF_60_MB = """
import sys, time
from benchmarks import measure
bytearray(150_000_000)
meter = getattr(measure, sys.argv[1])()
block = bytearray(b"x") * 60_000_000
time.sleep(0.2)
del block
print(meter.peak())
"""


@pytest.mark.parametrize("kind", [HighWaterMark, Sampler])
def test_the_peak_is_seen_after_the_memory_is_free_again(kind: type[HighWaterMark | Sampler]) -> None:
    """In a process of its own, as measurements are: threads of other tests free memory meanwhile."""
    command = [sys.executable, "-c", PEAK_OF_60_MB, kind.__name__]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 55 * MB < int(done.stdout) < 90 * MB


def test_a_measurement_has_all_its_figures(spec: LogSpec) -> None:
    found = measure("pyarrow.all_arrow", spec, repetitions=2)
    assert found.error is None
    assert found.count == 502
    assert [run["peak_method"] for run in found.runs] == ["VmHWM", "VmHWM"]
    for figure in (found.seconds, found.cpu_seconds, found.peak_mb, found.arrow_peak_mb):
        assert figure is not None
        assert figure > 0


def test_the_peer_is_measured(spec: LogSpec) -> None:
    assert measure("deltalake.all_uris", spec, repetitions=1).count == spec.live_files


def test_a_failing_workload_gives_its_reason_and_no_figure(spec: LogSpec) -> None:
    found = measure("deltalake.rows_all", spec, repetitions=1)
    assert found.seconds is None
    assert found.error


def test_a_wrong_count_is_a_failure(spec: LogSpec) -> None:
    log = ensure(spec) / "_delta_log"
    (log / f"{spec.head:020d}.json").unlink()
    found = measure("deltalake.all_uris", spec, repetitions=1)
    assert found.seconds is None
    assert "is not what the table holds" in str(found.error)


def test_a_workload_that_never_ends_is_a_failure(spec: LogSpec) -> None:
    found = measure("pyarrow.all_arrow", spec, repetitions=1, timeout=0.01)
    assert "no answer after" in str(found.error)
