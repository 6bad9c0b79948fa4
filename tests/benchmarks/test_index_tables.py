"""A generated index is the one that the log asks for: verified against it, and read as the log is."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable as Peer

from benchmarks.generate import write_commits, write_log
from benchmarks.index_tables import checkpoint_size, ensure_indexed, index_sizes, write_index
from benchmarks.specs import IndexedSpec, LogSpec, from_json, table_dir, to_json
from delta_sidecar import DeltaTable
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store

pytestmark = pytest.mark.slow

SMALL = LogSpec(2_500, tail_commits=3, adds_per_commit=40)


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DIR", str(tmp_path / "tables"))


def listed(table: Path, predicate: str | None = None, enabled: bool = True) -> tuple[str, set[str]]:
    """The tier that was read, and the paths."""
    opened = DeltaTable(str(table), options={"delta.sidecar.enabled": enabled})
    with opened.scan_files(predicate) as scan:
        paths = scan.read_all().column("path").to_pylist()
        assert len(paths) == len(set(paths))
        return scan.metrics.tier, set(paths)


@pytest.mark.parametrize(
    ("spec", "part_rows"),
    [(LogSpec(20_000), 6_000), (LogSpec(2_500, stat_columns=3), 1_000), (LogSpec(2_500, files_per_hour=7), 2_500)],
    ids=["20 columns", "3 columns", "many hours"],
)
def test_the_index_is_the_checkpoint(spec: LogSpec, part_rows: int, tmp_path: Path) -> None:
    write_log(spec, tmp_path)
    write_index(spec, tmp_path, part_rows, workers=1)
    report = verify_index(open_store(tmp_path), spec.checkpoint_version)
    assert report.problems == ()
    assert report.notes == ()
    assert (report.files, report.parts) == (spec.files, -(-spec.files // part_rows))


@pytest.mark.parametrize("predicate", [None, "m0 = 7", "_event_hour >= '2025010102'", "ts >= '2025-01-01T02:00:00Z'"])
def test_the_index_lists_what_the_checkpoint_lists(predicate: str | None, tmp_path: Path) -> None:
    write_log(SMALL, tmp_path)
    write_index(SMALL, tmp_path, 1_000, workers=1)
    through_index, through_log = listed(tmp_path, predicate), listed(tmp_path, predicate, enabled=False)
    assert (through_index[0], through_log[0]) == ("index", "checkpoint")
    assert through_index[1] == through_log[1]


def test_several_processes_write_the_same_parts(tmp_path: Path) -> None:
    for workers in (1, 2):
        write_commits(SMALL, tmp_path / str(workers))
        write_index(SMALL, tmp_path / str(workers), 1_000, workers)
    one, two = (
        [pq.read_table(file) for file in sorted((tmp_path / name).rglob("*.core.parquet"), key=first_path)]
        for name in ("1", "2")
    )
    assert len(one) == 3
    assert one == two


def first_path(file: Path) -> str:
    path: str = pq.read_table(file, columns=["path"]).column(0)[0].as_py()
    return path


def test_without_a_checkpoint_the_index_opens_the_table(tmp_path: Path) -> None:
    spec = IndexedSpec(2_500, stat_columns=3, checkpoint=False)
    table = ensure_indexed(spec, workers=1)
    assert not list(table.rglob("*checkpoint*"))
    tier, paths = listed(table)
    assert tier == "index"
    assert len(paths) == spec.live_files == spec.log.live_files
    assert listed(table, f"_event_hour >= '{spec.log.last_hour}'")[0] == "index"


@pytest.mark.parametrize(("files", "removed"), [(3_000, 300), (2_501, 333)])
def test_a_late_commit_masks_files_all_over(files: int, removed: int) -> None:
    spec = IndexedSpec(files, removed=removed)
    table = ensure_indexed(spec, workers=1)
    peer = Peer(str(table))
    tier, paths = listed(table)
    assert tier == "index"
    assert peer.version() == spec.head
    assert len(paths) == len(peer.file_uris()) == spec.live_files
    assert spec.log.live_files - spec.live_files <= removed
    assert 0 <= spec.mask[0] < files // 10
    assert files * 9 // 10 < spec.mask[-1] < files


def test_a_masked_table_is_made_of_the_plain_one_and_leaves_it_as_it_is() -> None:
    masked = IndexedSpec(1_000, removed=50)
    ensure_indexed(masked, workers=1)
    plain = IndexedSpec(1_000)
    assert listed(table_dir(plain))[0] == "index"
    assert len(listed(table_dir(plain))[1]) == plain.live_files
    assert from_json(to_json(masked)) == masked


def test_sizes_are_those_on_disk() -> None:
    spec = IndexedSpec(2_500)
    table = ensure_indexed(spec, workers=1)
    size = index_sizes(spec)
    files = [file for file in (table / "_delta_log" / "_sidecars").iterdir() if file.name != "_last_index"]
    assert size.whole == sum(file.stat().st_size for file in files)
    assert (size.files, size.parts) == (2_500, 1)
    assert checkpoint_size(spec) > size.whole
