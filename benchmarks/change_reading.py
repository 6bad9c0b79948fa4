"""The changes of one commit, read in a process that does nothing else: `python -m benchmarks.change_reading TABLE N`.

It reads twice and prints one line of JSON. Its memory is the kernel's mark of the whole process after the first
reading, interpreter and libraries included; a new program begins with a mark of its own.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def _status(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{name}:"))


def _timed(path: str, version: int) -> tuple[int, float, float]:
    """Rows, seconds, seconds of CPU."""
    from delta_sidecar import DeltaTable

    began, cpu = time.perf_counter(), time.process_time()
    with DeltaTable(path).changes(version, version) as changes:
        rows = sum(batch.num_rows for batch in changes)
    return rows, time.perf_counter() - began, time.process_time() - cpu


def main(path: str, version: int) -> None:
    import delta_sidecar

    delta_sidecar.DeltaTable  # noqa: B018
    imported = _status("VmRSS")
    rows, first, _ = _timed(path, version)
    peak = _status("VmHWM")
    _, warm, cpu = _timed(path, version)
    found = {
        "rows": rows,
        "first": first,
        "warm": warm,
        "cpu": cpu,
        "peak_mb": peak,
        "over_imports_mb": peak - imported,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
