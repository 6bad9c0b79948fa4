"""Every golden table can be indexed, and its index verifies; damaged, it does not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from delta_sidecar.index.format.index_names import DIRECTORIES
from delta_sidecar.storage import open_store
from delta_sidecar.testing.model import read_commits, replay
from tests.cli.running import invoke
from tests.conformance.test_golden import GOOD
from tests.index.models import assert_index_is, index_rows_at


@pytest.fixture
def copied(golden: Path, table: str, tmp_path: Path) -> Path:
    """The log of a golden table, where it may be written to."""
    shutil.copytree(golden / table / "_delta_log", tmp_path / "_delta_log")
    return tmp_path


def index_files(root: Path) -> list[Path]:
    return sorted(path for name in DIRECTORIES for path in (root / name).glob("v*"))


@pytest.mark.parametrize("table", GOOD)
def test_an_index_of_every_table_verifies(copied: Path, table: str) -> None:
    (built,) = invoke("build", copied, "--json").objects
    assert invoke("verify", copied).code == 0
    live = replay(read_commits(copied)).files
    assert built["files"] == len(live)
    store = open_store(str(copied))
    if all("partitionValues" in body and "modificationTime" in body for body in live.values()):
        assert_index_is(store, built["version"], live.values())
    assert len(index_rows_at(store, built["version"])) == len(live)


@pytest.mark.parametrize("table", GOOD[::3])
def test_a_damaged_index_does_not_verify(copied: Path, table: str) -> None:
    assert invoke("build", copied).code == 0
    for path in index_files(copied):
        whole = path.read_bytes()
        for place in (0, len(whole) // 3, len(whole) - 1):
            damaged = bytearray(whole)
            damaged[place] ^= 4
            path.write_bytes(damaged)
            assert_problem(copied, path.name)
        path.unlink()
        assert_problem(copied, "missing" if path.suffix == ".parquet" else "no index")
        path.write_bytes(whole)
    assert invoke("verify", copied).code == 0
    manifest = next(path for path in index_files(copied) if path.suffix == ".json")
    shutil.copy(manifest, manifest.with_name("v99999.manifest.json"))
    done = invoke("verify", copied)
    assert done.code == 0
    assert "v99999.manifest.json belongs to an earlier table" in done.out


def assert_problem(root: Path, word: str) -> None:
    done = invoke("verify", root)
    assert done.code == 1
    assert word in done.out
