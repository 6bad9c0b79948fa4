"""The peak memory of one listing, over imports, measured in a process of its own."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    command = [sys.executable, "-m", "tests.costs.peak", str(table), json.dumps(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return Peak(**json.loads(done.stdout))


def _listed(table: str, arguments: dict[str, Any]) -> dict[str, Any]:
    import pyarrow

    from benchmarks.measure import HighWaterMark, Sampler
    from delta_sidecar import DeltaTable

    gc.collect()
    try:
        meter: HighWaterMark | Sampler = HighWaterMark()
    except OSError:
        meter = Sampler()
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
    print(json.dumps(_listed(sys.argv[1], json.loads(sys.argv[2]))))
