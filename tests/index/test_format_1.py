"""Indexes of format 1, as bytes in the repository, stay readable (`fixtures/make_format1.py` made them)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.read.manifests import commit_meta
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.log.discovery import list_log
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from tests.index.fixtures.make_format1 import EXPECTED, LISTED, TABLES
from tests.index.models import manifest_at

SAID: dict[str, dict[str, Any]] = json.loads(EXPECTED.read_text())
QUERIES = [(name, predicate) for name, said in SAID.items() for predicate in said["queries"]]


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Nothing is remembered from before."""
    shared_cache.clear()
    yield
    shared_cache.clear()


@pytest.fixture(params=SAID)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def table(tmp_path: Path, name: str) -> Path:
    return copied(name, tmp_path)


def copied(name: str, where: Path) -> Path:
    """A copy, with times of its own."""
    return shutil.copytree(TABLES / name, where / name, copy_function=shutil.copyfile)


def as_logged(row: dict[str, Any]) -> dict[str, Any]:
    """A listed file as its `add` has it."""
    renamed = {
        "modificationTime": row["modification_time"],
        "partitionValues": dict(row["partition_values"]),
        "deletionVector": row["deletion_vector"],
    }
    whole = {"path": row["path"], "size": row["size"], **renamed}
    return {key: whole[key] for key in LISTED if whole[key] is not None}


def test_every_file(table: Path, name: str) -> None:
    said = SAID[name]
    opened = DeltaTable(table)
    assert opened.version() == said["version"]
    with opened.scan_files() as scan:
        found = [as_logged(row) for row in scan.read_all().to_pylist()]
    assert sorted(found, key=lambda body: str(body["path"])) == said["files"]
    assert (scan.metrics.tier, scan.metrics.fallback_reason) == ("index", None)
    assert scan.metrics.parts_read == said["parts"]


def test_every_stat(table: Path) -> None:
    logged = {
        action["add"]["path"]: json.loads(action["add"].get("stats") or "{}")
        for commit in sorted((table / "_delta_log").glob("*.json"))
        for action in map(json.loads, commit.read_text().splitlines())
        if "add" in action
    }
    with DeltaTable(table).scan_files(columns=["path", "stats", "num_records"]) as scan:
        rows = scan.read_all().to_pylist()
    assert scan.metrics.tier == "index"
    for row in rows:
        assert json.loads(row["stats"] or "{}") == logged[row["path"]]
        assert row["num_records"] == logged[row["path"]].get("numRecords")


@pytest.mark.parametrize(("name", "predicate"), QUERIES)
def test_every_query(tmp_path: Path, name: str, predicate: str) -> None:
    with DeltaTable(copied(name, tmp_path)).scan_files(predicate=predicate) as scan:
        found = scan.read_all().column("path").to_pylist()
    assert sorted(found) == SAID[name]["queries"][predicate]
    assert (scan.metrics.tier, scan.metrics.fallback_reason) == ("index", None)


def test_a_copy_is_bound_by_the_id_of_its_table(table: Path, name: str) -> None:
    store = open_store(str(table))
    manifest, _ = manifest_at(store, SAID[name]["index"])
    commit = commit_meta(store, list_log(store, 0), manifest.version)
    assert commit is not None
    assert manifest.commit is not None
    assert not manifest.commit.is_of(commit), "a copied commit file is not the very one"
    first = table / "_delta_log" / f"{0:020}.json"
    first.write_text(first.read_text().replace(manifest.table_id, manifest.table_id[::-1]))
    with DeltaTable(table).scan_files() as scan:
        assert scan.read_all().num_rows == len(SAID[name]["files"])
    assert scan.metrics.tier == "log"
    reason = "another table" if manifest.version else "different commit file"
    assert reason in str(scan.metrics.fallback_reason)


def test_the_part_of_a_small_table_serves_without_its_manifest(tmp_path: Path) -> None:
    table = copied("types", tmp_path)
    (table / "_delta_log" / "_sidecars" / "v5.manifest.json").unlink()
    with DeltaTable(table).scan_files() as scan:
        found = [as_logged(row) for row in scan.read_all().to_pylist()]
    assert sorted(found, key=lambda body: str(body["path"])) == SAID["types"]["files"]
    assert scan.metrics.tier == "footer"


def test_they_verify(table: Path, name: str) -> None:
    found = verify_index(open_store(str(table)))
    assert (found.version, found.problems) == (SAID[name]["index"], ())


def test_they_are_of_every_kind() -> None:
    files = [path.relative_to(TABLES).as_posix() for path in TABLES.rglob("*") if path.is_file()]
    assert any(path.endswith("/_sidecar_index/v0.manifest.json") for path in files)
    assert any(path.endswith("/_sidecars/v5.parquet") for path in files)
    assert sum(path.endswith(".core.parquet") for path in files) > 5
    assert sum((TABLES / path).stat().st_size for path in files) < 64 << 10
