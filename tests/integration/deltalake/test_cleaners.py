"""What deltalake's own cleaners leave of an index: all of it, or readers that are right and a build that mends."""

from __future__ import annotations

import os
import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.format.index_names import SIDECARS
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import open_store
from tests.index.models import index_rows_at, small_parts

DAY = 86_400


def write(root: Path, commits: int) -> None:
    for number in range(commits):
        rows = pa.table({"x": [number, number + 1], "p": ["a", "b"]})
        deltalake.write_deltalake(str(root), rows, mode="append", partition_by=["p"])


def age(root: Path, days: int) -> None:
    """Everything there becomes so much older."""
    then = time.time() - days * DAY
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def names(root: Path) -> set[str]:
    return {path.name for path in (root / SIDECARS).iterdir()}


@pytest.mark.parametrize("single", [True, False])
def test_vacuum_and_log_cleanup_leave_the_index_alone(tmp_path: Path, single: bool) -> None:
    write(tmp_path, 3)
    store = open_store(str(tmp_path))
    for version in range(3):
        build_index(store, version, BuildOptions(part_rows=2, limits=small_parts(single=100 if single else 0)))
    table = deltalake.DeltaTable(str(tmp_path))
    table.create_checkpoint()
    age(tmp_path, 90)
    before = names(tmp_path)
    write(tmp_path, 1)
    table = deltalake.DeltaTable(str(tmp_path))
    table.delete("x = 0")
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.cleanup_metadata()
    log = {path.name for path in (tmp_path / "_delta_log").iterdir()}
    assert f"{0:020}.json" not in log, "the cleanup did clean up"
    assert names(tmp_path) == before
    found = verify_index(store)
    assert (found.version, found.problems) == (2, ())
    table = deltalake.DeltaTable(str(tmp_path))
    assert build_index(store).version == table.version()
    assert verify_index(store).ok
    live = {os.path.basename(uri) for uri in table.file_uris()}
    assert {os.path.basename(row["path"]) for row in index_rows_at(store, table.version())} == live


def test_readers_of_others_see_nothing_new(tmp_path: Path) -> None:
    write(tmp_path, 2)
    plain = deltalake.DeltaTable(str(tmp_path))
    expected = (sorted(plain.file_uris()), plain.version(), sorted(plain.to_pyarrow_table()["x"].to_pylist()))
    build_index(open_store(str(tmp_path)))
    again = deltalake.DeltaTable(str(tmp_path))
    assert (sorted(again.file_uris()), again.version(), sorted(again.to_pyarrow_table()["x"].to_pylist())) == expected
    assert sorted(DeltaTable(str(tmp_path)).file_uris()) == expected[0]
