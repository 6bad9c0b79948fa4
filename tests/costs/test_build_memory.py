"""The memory of a whole build in one process: what its limits allow, however many files there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate import write_log
from benchmarks.specs import LogSpec
from tests.costs.peak import build_peak_of

LIMITS: dict[str, Any] = {
    "threads": 2,
    "batch_rows": 1_000,
    "run_bytes": 2 << 20,
    "block_bytes": 64 << 10,
    "merge_bytes": 1 << 20,
}


def table(root: Path, files: int) -> Path:
    """Files in no order: every run reaches over the whole index, and the merge has a block of each at hand."""
    write_log(LogSpec(files, stat_columns=6, row_group_rows=10_000, shuffled=True), root)
    return root


@pytest.mark.slow
def test_the_memory_of_a_build_hardly_grows_with_the_table(tmp_path: Path) -> None:
    small = build_peak_of(table(tmp_path / "small", 30_000), part_rows=5_000, **LIMITS)
    large = build_peak_of(table(tmp_path / "large", 240_000), part_rows=5_000, **LIMITS)
    unlimited = build_peak_of(tmp_path / "large", part_rows=5_000, run_bytes=1 << 30)
    assert large < small + 60
    assert large < unlimited - 100
