"""Bytes of a checkpoint that are read: only the columns that the question needs, never the whole file."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.generate import write_log
from benchmarks.specs import BUCKET, LogSpec
from delta_sidecar import DeltaTable
from delta_sidecar.testing.stores import CountingStore, Request
from tests.costs.counted import counted, opened

SPEC = LogSpec(files=30_000, row_group_rows=5_000, tail_commits=3, adds_per_commit=10, crc=True)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bytes") / "table"
    write_log(SPEC, root)
    return root


def checkpoint(table: Path) -> Path:
    return next((table / "_delta_log").glob("*.checkpoint.parquet"))


def column_bytes(table: Path, *leaves: str) -> int:
    metadata = pq.ParquetFile(checkpoint(table)).metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    chunks = [group.column(i) for group in groups for i in range(group.num_columns)]
    return sum(c.total_compressed_size for c in chunks if c.path_in_schema in leaves)


def asked(table: Path, store: CountingStore) -> list[Request]:
    """Requests for the checkpoint, but for the one that fetches the file's end with its footer."""
    size = checkpoint(table).stat().st_size
    return [r for r in store.requests if ".checkpoint." in r.path and r.start + r.bytes < size]


def stats_touched(table: Path, store: CountingStore) -> int:
    """Bytes requested that belong to the JSON stats."""
    metadata = pq.ParquetFile(checkpoint(table)).metadata
    touched = 0
    for group in (metadata.row_group(i) for i in range(metadata.num_row_groups)):
        chunk = next(group.column(i) for i in range(group.num_columns) if group.column(i).path_in_schema == "add.stats")
        start = min(x for x in (chunk.dictionary_page_offset, chunk.data_page_offset) if x is not None)
        end = start + chunk.total_compressed_size
        touched += sum(max(0, min(end, r.start + r.bytes) - max(start, r.start)) for r in asked(table, store))
    return touched


def listed(table: Path, store: CountingStore, **arguments: object) -> int:
    with opened(store).scan_files(**arguments) as scan:  # type: ignore[arg-type]
        return scan.read_all().num_rows


def test_a_plain_listing_leaves_the_stats_alone(table: Path) -> None:
    store = counted(table)
    assert listed(table, store) == SPEC.live_files
    assert stats_touched(table, store) == 0


def test_path_and_size_cost_little_more_than_their_columns(table: Path) -> None:
    store = counted(table)
    assert listed(table, store, columns=["path", "size"]) == SPEC.live_files
    needed = column_bytes(table, "add.path", "add.size")
    assert needed <= sum(r.bytes for r in asked(table, store)) < 1.2 * needed


def test_a_partition_predicate_never_reads_the_stats(table: Path) -> None:
    store = counted(table)
    assert 0 < listed(table, store, predicate=f"{BUCKET} >= '{SPEC.last_hour}'") < SPEC.live_files
    assert stats_touched(table, store) == 0


def test_a_stats_predicate_reads_them_once(table: Path) -> None:
    store = counted(table)
    assert 0 < listed(table, store, predicate="m0 = 7") < SPEC.live_files
    stats = column_bytes(table, "add.stats")
    assert stats <= stats_touched(table, store) < 1.1 * stats


def test_the_checkpoint_is_read_by_ranges_only(table: Path) -> None:
    store = counted(table)
    listed(table, store)
    assert {r.verb for r in store.requests if ".checkpoint." in r.path} == {"range"}
    assert max(r.bytes for r in store.requests) < checkpoint(table).stat().st_size / 3


def test_local_files_are_charged_too(table: Path) -> None:
    with DeltaTable(str(table)).scan_files() as scan:
        scan.read_all()
    assert 0 < scan.metrics.bytes_read < checkpoint(table).stat().st_size - column_bytes(table, "add.stats")
    assert scan.metrics.requests > 0
