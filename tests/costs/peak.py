"""The peak memory of one listing, or of one build, over imports, measured in a process of its own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.measure import HighWaterMark, Sampler

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Peak:
    """What a listing took."""

    mb: float
    files: int
    tier: str
    bytes_read: int
    mask_size: int


def peak_of(table: Path, **arguments: Any) -> Peak:
    """The peak of a whole listing that is streamed as Arrow and not kept."""
    return Peak(**_measured("listing", table, arguments))


def build_peak_of(table: Path, part_rows: int, **limits: int) -> float:
    """The peak of a whole build in one process, in MB."""
    return float(_measured("build", table, {"part_rows": part_rows, "limits": limits})["mb"])


def _measured(what: str, table: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.costs.peak", what, str(table), json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _meter() -> HighWaterMark | Sampler:
    from benchmarks.measure import HighWaterMark, Sampler

    gc.collect()
    try:
        return HighWaterMark()
    except OSError:
        return Sampler()


def _built(table: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from benchmarks.workloads import prepare_ours
    from delta_sidecar.index.build.build import BuildOptions, build_index
    from delta_sidecar.limits import BuildLimits
    from delta_sidecar.storage import open_store

    prepare_ours()
    options = BuildOptions(
        full=True, engine="process", part_rows=arguments["part_rows"], limits=BuildLimits(**arguments["limits"])
    )
    meter = _meter()
    build_index(open_store(table), options=options)
    return {"mb": meter.peak() / 1e6}


def _listed(table: str, arguments: dict[str, Any]) -> dict[str, Any]:
    import pyarrow

    from benchmarks.workloads import prepare_ours
    from delta_sidecar import DeltaTable

    prepare_ours()
    meter = _meter()
    with DeltaTable(table).scan_files(**arguments) as scan:
        files = sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(scan))
        done = scan.metrics
    return {
        "mb": meter.peak() / 1e6,
        "files": files,
        "tier": done.tier,
        "bytes_read": done.bytes_read,
        "mask_size": done.mask_size,
    }


if __name__ == "__main__":
    measure = {"listing": _listed, "build": _built}[sys.argv[1]]
    print(json.dumps(measure(sys.argv[2], json.loads(sys.argv[3]))))
