"""The upper bounds of a plan hold where they are hard to know: sidecar files of checkpoints, keys in stats files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.testing import CountingStore
from delta_sidecar.testing.actions import add
from delta_sidecar.testing.table_builder import LogBuilder
from tests.index.models import small_parts


def numbered(number: int, key: str = "") -> Any:
    bounds = {"x": number, "s": key}
    return add(f"f{number}", stats={"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"x": 0}})


def opened_table(root: Path, is_local: bool) -> DeltaTable:
    shared_cache.clear()
    return DeltaTable(root, store=None if is_local else CountingStore(open_store(str(root))))


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize("kind", ["classic", "multi-part", "v2-json", "v2-parquet", "v2-classic"])
@pytest.mark.parametrize("is_opened", [True, False])
def test_bytes_of_a_checkpoint(tmp_path: Path, kind: Any, is_opened: bool, is_local: bool) -> None:
    """A checksum file has protocol and metadata, so the checkpoint is not opened for them."""
    features = ["v2Checkpoint"] if kind.startswith("v2") else []
    log = LogBuilder(tmp_path).protocol(3, features=features).metadata({"x": "long", "s": "string"})
    log.commit(*map(numbered, range(40))).checkpoint(kind, parts=3, row_group_size=4).commit(numbered(40))
    if not is_opened:
        log.crc()
    for predicate, limit in ((None, None), ("x > 3", None), (None, 30)):
        scan = opened_table(tmp_path, is_local).scan_files(predicate, limit=limit)
        plan, most = scan.plan, scan.plan.at_most
        assert (most.row_groups is not None) == is_opened
        is_known = is_opened or not features
        assert (most.bytes is not None) == is_known
        assert plan.as_dict()["bytes_at_most"] == most.bytes
        for text in (plan.headline, plan.reads):
            assert ("bytes unknown until the base is opened" in str(text)) != is_known
        scan.read_all()
        if most.bytes is not None:
            assert 0 < scan.metrics.bytes_read <= most.bytes + plan.tail_bytes


@pytest.mark.parametrize("is_local", [True, False])
@pytest.mark.parametrize(
    ("predicate", "columns"), [(None, None), ("s > '1'", None), ("s > '1'", ["path", "stats"]), (None, ["stats"])]
)
def test_stats_files_that_a_limit_reads_for_sort_keys(
    tmp_path: Path, predicate: str | None, columns: list[str] | None, is_local: bool
) -> None:
    log = LogBuilder(tmp_path).metadata({"x": "long", "s": "string"})
    for first in (0, 40):
        log.commit(*(numbered(n, f"{n * 37 % 80:02}") for n in range(first, first + 40)))
        options = BuildOptions("s", part_rows=8, limits=small_parts(0, 0, 99, 12, row_group_rows=2))
        build_index(open_store(str(tmp_path)), options=options)
    scan = opened_table(tmp_path, is_local).scan_files(predicate, columns, limit=75)
    most = scan.plan.at_most
    assert most.stats_files == len(scan.plan.parts) > 1
    scan.read_all()
    assert scan.metrics.tier == "index"
    assert most.bytes is not None
    assert scan.metrics.bytes_read <= most.bytes
