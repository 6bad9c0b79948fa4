"""What all runs of measurements share: a warm file cache, peers that are started only where they fit, progress."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from benchmarks.measure import Measurement, available_memory, measure
from benchmarks.specs import IndexedSpec, LogSpec, Spec

# Above this many files a peer takes minutes and gigabytes, so it is measured once.
ONCE_ABOVE = 5_000_000
# What deltalake needs for a file of 20 stat columns, with some to spare: 18.6 GB were measured at 10 M.
DELTALAKE_BYTES_PER_FILE = 1_900


def read_once(table: Path) -> None:
    """Read every file of a table, so that every reader finds the same warm file cache."""
    for file in table.rglob("*"):
        if file.is_file():
            with file.open("rb") as source:
                while source.read(1 << 24):
                    pass


def measured(key: str, spec: Spec, repeat: int, timeout: float, progress: Console) -> Measurement:
    """Measure one workload, and say so."""
    progress.print(f"{key} …", end=" ", markup=False)
    found = _refused(key, spec) or measure(key, spec, _repetitions(key, spec, repeat), timeout)
    if found.error or found.seconds is None or found.peak_mb is None:
        progress.print(f"FAILED: {found.error}", style="red", markup=False)
    else:
        progress.print(f"{found.seconds:.3f} s, {found.peak_mb:.0f} MB", markup=False)
    return found


def _repetitions(key: str, spec: Spec, repeat: int) -> int:
    return 1 if _peer_files(key, spec) > ONCE_ABOVE else repeat


def _refused(key: str, spec: Spec) -> Measurement | None:
    """A peer that would not fit in memory is not started: the machine would swap, or kill something else."""
    needed, free = _peer_files(key, spec) * DELTALAKE_BYTES_PER_FILE, available_memory()
    if needed <= free:
        return None
    return Measurement(key, error=f"needs about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are free")


def _peer_files(key: str, spec: Spec) -> int:
    """The files that deltalake would load; none where it is not the reader."""
    return spec.files if key.startswith("deltalake.") and isinstance(spec, LogSpec | IndexedSpec) else 0
