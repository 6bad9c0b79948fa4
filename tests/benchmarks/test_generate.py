"""The generated logs say what their specs say: read back with plain pyarrow and json, and opened by deltalake."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from benchmarks import rows, synthetic
from benchmarks.checkpoint import batches, layout_of
from benchmarks.generate import ensure, write_log, write_single_commit
from benchmarks.specs import CommitSpec, LogSpec, RowsSpec, from_json, hour_text, table_dir, to_json

SPECS = {
    "json": LogSpec(2_500, row_group_rows=1_000),
    "both, crc, shuffled": LogSpec(2_500, stats="both", crc=True, shuffled=True, row_group_rows=999),
    "parsed, unpartitioned": LogSpec(2_500, stats="parsed", partitioned=False, compression="snappy"),
    "no tail": LogSpec(2_500, tail_commits=0),
    "few columns": LogSpec(2_500, stat_columns=3, tail_commits=3, adds_per_commit=40),
}


@pytest.fixture(params=list(SPECS.values()), ids=list(SPECS))
def spec(request: pytest.FixtureRequest) -> LogSpec:
    value: LogSpec = request.param
    return value


def checkpoint_rows(spec: LogSpec, table: Path) -> list[dict[str, Any]]:
    file = table / "_delta_log" / f"{spec.checkpoint_version:020d}.checkpoint.parquet"
    found: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return found


def commit(table: Path, version: int) -> list[dict[str, Any]]:
    lines = (table / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [json.loads(line) for line in lines]


def live_paths(spec: LogSpec, table: Path) -> set[str]:
    """The dumbest replay: forward, one action at a time."""
    live = {row["add"]["path"] for row in checkpoint_rows(spec, table) if row["add"]}
    for version in range(spec.checkpoint_version + 1, spec.head + 1):
        actions = commit(table, version)
        live -= {action["remove"]["path"] for action in actions if "remove" in action}
        live |= {action["add"]["path"] for action in actions if "add" in action}
    return live


@pytest.mark.slow
def test_live_files_are_those_of_the_spec_and_of_deltalake(spec: LogSpec, tmp_path: Path) -> None:
    write_log(spec, tmp_path)
    live = live_paths(spec, tmp_path)
    peer = DeltaTable(tmp_path)
    assert len(live) == spec.live_files
    assert peer.version() == spec.head
    assert {uri.removeprefix(f"{tmp_path}/") for uri in peer.file_uris()} == live


@pytest.mark.slow
def test_every_remove_hits_a_live_file(spec: LogSpec, tmp_path: Path) -> None:
    write_log(spec, tmp_path)
    known = {row["add"]["path"] for row in checkpoint_rows(spec, tmp_path) if row["add"]}
    removed: Counter[str] = Counter()
    for version in range(spec.checkpoint_version + 1, spec.head + 1):
        removed.update(a["remove"]["path"] for a in commit(tmp_path, version) if "remove" in a)
        assert set(removed) <= known
        known |= {a["add"]["path"] for a in commit(tmp_path, version) if "add" in a}
    assert set(removed.values()) <= {1}
    assert len(removed) == spec.files + spec.tail_commits * spec.adds_per_commit - spec.live_files


def test_the_checkpoint_has_its_row_groups_and_one_protocol(tmp_path: Path) -> None:
    spec = SPECS["json"]
    write_log(spec, tmp_path)
    found = checkpoint_rows(spec, tmp_path)
    file = pq.ParquetFile(tmp_path / "_delta_log" / f"{spec.checkpoint_version:020d}.checkpoint.parquet")
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [1_002, 1_000, 500]
    assert sum(row["protocol"] is not None for row in found) == 1
    assert sum(row["metaData"] is not None for row in found) == 1
    assert json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())["size"] == len(found)


def test_stats_text_and_typed_stats_agree() -> None:
    layout = layout_of(SPECS["both, crc, shuffled"])
    files = np.array([0, 1, 999, 1_000, 7_777, 9_999_999])
    typed = synthetic.stats_typed(layout, files).to_pylist()
    for text, row in zip(synthetic.stats_json(layout, files).to_pylist(), typed, strict=True):
        parsed = json.loads(text)
        for section in ("minValues", "maxValues"):
            row[section]["ts"] = row[section]["ts"].strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
        assert parsed == row
        assert len(parsed["minValues"]) == 20
        for name, low in parsed["minValues"].items():
            assert low <= parsed["maxValues"][name]


def test_bucket_path_and_time_bounds_agree() -> None:
    layout = layout_of(LogSpec(1))
    files = np.array([0, 999, 1_000, 54_321])
    paths, stats = synthetic.paths(layout, files).to_pylist(), synthetic.stats_json(layout, files).to_pylist()
    for number, path, text in zip(files, paths, stats, strict=True):
        hour = hour_text(int(number) // 1_000)
        bounds = json.loads(text)
        assert path.startswith(f"_event_hour={hour}/part-0000")
        for section in ("minValues", "maxValues"):
            assert bounds[section]["ts"][:13] == f"{hour[:4]}-{hour[4:6]}-{hour[6:8]}T{hour[8:]}"


def test_paths_are_unique_and_repeatable() -> None:
    layout = layout_of(LogSpec(1))
    whole = synthetic.paths(layout, np.arange(20_000)).to_pylist()
    assert len(set(whole)) == len(whole)
    assert [path for batch in batches(20_000, 3_333) for path in synthetic.paths(layout, batch).to_pylist()] == whole


def test_an_equality_on_m0_keeps_about_one_file_in_a_hundred(tmp_path: Path) -> None:
    write_log(LogSpec(10_000), tmp_path)
    peer = DeltaTable(tmp_path)
    assert 50 < len(peer.file_uris(file_pruning_predicate="m0 = 7")) < 200


def test_checksum_files_count_and_sum_the_live_files(tmp_path: Path) -> None:
    spec = LogSpec(2_500, crc=True)
    write_log(spec, tmp_path)
    crc = json.loads((tmp_path / "_delta_log" / f"{spec.head:020d}.crc").read_text())
    adds = DeltaTable(tmp_path).get_add_actions()
    assert crc["numFiles"] == spec.live_files
    assert crc["tableSizeBytes"] == sum(adds["size_bytes"].to_pylist())
    assert crc["metadata"]["partitionColumns"] == ["_event_hour"]


def test_a_single_commit_holds_all_adds(tmp_path: Path) -> None:
    write_single_commit(CommitSpec(2_500), tmp_path, batch_rows=1_000)
    assert Counter(next(iter(action)) for action in commit(tmp_path, 1)) == {"commitInfo": 1, "add": 2_500}
    assert len(DeltaTable(tmp_path).file_uris()) == 2_500


def test_rows_of_the_row_table(tmp_path: Path) -> None:
    spec = RowsSpec(files=5, rows_per_file=1_000)
    rows.write_table(spec, tmp_path)
    first, past = spec.clustered_range
    peer = DeltaTable(tmp_path)
    assert peer.to_pyarrow_table().num_rows == spec.rows
    assert peer.to_pyarrow_table(filters=[("id", ">=", first), ("id", "<", past)]).num_rows == spec.rows // 100
    assert len(peer.file_uris(file_pruning_predicate=f"id >= {first} AND id < {past}")) == 1
    assert len(peer.file_uris(file_pruning_predicate="bucket = 7")) == spec.files


def test_a_table_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DIR", str(tmp_path))
    spec = LogSpec(100, tail_commits=1, adds_per_commit=10)
    made = ensure(spec)
    stamp = (made / "_delta_log" / "_last_checkpoint").stat().st_mtime_ns
    assert ensure(spec) == made == table_dir(from_json(to_json(spec)))
    assert (made / "_delta_log" / "_last_checkpoint").stat().st_mtime_ns == stamp
    assert ensure(LogSpec(101, tail_commits=1, adds_per_commit=10)) != made
