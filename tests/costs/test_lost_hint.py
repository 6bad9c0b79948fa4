"""An index that no hint names is found with two requests more, and one that is there and unused is spoken of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.format.index_names import DIRECTORIES, SIDECAR_INDEX, SIDECARS
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import LIST_PAGE
from tests.costs.counted import counted, opened
from tests.costs.hourly import hourly, paths


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    shared_cache.clear()
    yield
    shared_cache.clear()


def tier_and_reason(table: DeltaTable) -> tuple[str, str]:
    with table.scan_files() as scan:
        found = {path for batch in scan for path in batch["path"].to_pylist()}
    assert found == paths(*range(table.version() + 1))
    reason = scan.metrics.fallback_reason or ""
    assert scan.explain().count(reason) == 1 if reason else "fallback" not in scan.explain()
    return scan.metrics.tier, reason


HINTS = {
    "lost": lambda hint: hint.unlink(),
    "broken": lambda hint: hint.write_text("{"),
    "of a manifest that is gone": lambda hint: hint.write_text('{"version":7}'),
    "of version 0, which is gone": lambda hint: hint.write_text('{"version":0}'),
    "of the future": lambda hint: hint.write_text('{"version":70}'),
}


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("v2", [False, True], ids=["plain", "V2"])
def test_an_index_without_a_checkpoint_is_found(tmp_path: Path, hint: str, v2: bool) -> None:
    hourly(tmp_path, head=9, index=5, v2=v2)
    HINTS[hint](tmp_path / (SIDECAR_INDEX if v2 else SIDECARS) / "_last_index")
    store = counted(tmp_path)
    table = opened(store)
    assert table._snapshot.segment.base_version == 5
    manifests = [path for path in store.paths() if "manifest" in path]
    assert store.counts()["list"] + len(manifests) <= 1 + 1 + 2, "two requests more than with a hint"
    assert tier_and_reason(table)[0] == "index"


def test_a_lost_hint_costs_one_trip(tmp_path: Path) -> None:
    """The names of manifests come with the listing; the manifest is one request, in a trip of its own."""
    hourly(tmp_path, head=9, index=5)
    (tmp_path / SIDECARS / "_last_index").unlink()
    store = counted(tmp_path, in_step=True)
    opened(store)
    assert store.counts()["list"] == 1
    assert [path for path in store.paths() if "manifest" in path] == [f"{SIDECARS}/v5.manifest.json"]


def test_more_files_than_a_page_lists(tmp_path: Path) -> None:
    """The rest of one build's parts is passed over: its manifest comes after them."""
    hourly(tmp_path, head=9, index=9)
    for number in range(LIST_PAGE):
        (tmp_path / SIDECARS / f"v9-{number:032}.core.parquet").touch()
    (tmp_path / SIDECARS / "_last_index").unlink()
    store = counted(tmp_path)
    table = opened(store)
    assert table._snapshot.segment.base_version == 9
    assert store.counts()["list"] <= 2


def test_a_table_without_an_index_pays_nothing(tmp_path: Path) -> None:
    hourly(tmp_path, head=9)
    costs = []
    for enabled in (True, False):
        store = counted(tmp_path)
        opened(store, options={"delta.sidecar.enabled": enabled})
        costs.append(store.counts()["list"])
    assert costs == [1, 1]
    assert tier_and_reason(DeltaTable(tmp_path)) == ("log", "")


# Why an index that is there is not used.


def test_it_is_newer_than_the_version(tmp_path: Path) -> None:
    hourly(tmp_path, head=9, index=5)
    tier, reason = tier_and_reason(DeltaTable(tmp_path, version=4))
    assert (tier, reason) == ("log", "the index of version 5 is newer than version 4")
    for directory in DIRECTORIES:
        (tmp_path / directory / "_last_index").unlink(missing_ok=True)
    assert tier_and_reason(DeltaTable(tmp_path, version=4)) == (tier, reason)


def test_it_is_switched_off(tmp_path: Path) -> None:
    hourly(tmp_path, head=9, index=5)
    table = DeltaTable(tmp_path, options={"delta.sidecar.enabled": False})
    assert tier_and_reason(table) == ("log", "")
    assert "note       delta.sidecar.enabled is false" in table.scan_files().explain()


def test_it_is_of_another_table(tmp_path: Path) -> None:
    hourly(tmp_path / "old", head=5, index=5)
    hourly(tmp_path / "new", head=9)
    log = tmp_path / "new" / "_delta_log"
    for commit in log.glob("*.json"):
        commit.write_text(commit.read_text().replace("5f0e1c8e", "00000000").replace('"size":', '"size" :'))
    shutil.copytree(tmp_path / "old" / SIDECARS, tmp_path / "new" / SIDECARS)
    (tmp_path / "new" / SIDECARS / "_last_index").unlink()
    tier, reason = tier_and_reason(DeltaTable(tmp_path / "new"))
    assert tier == "log"
    assert "different commit file" in reason


def test_a_checkpoint_serves_better(tmp_path: Path) -> None:
    hourly(tmp_path, head=9, checkpoint=8, index=1)
    checkpoint = next((tmp_path / "_delta_log").glob("*.checkpoint.parquet"))
    assert checkpoint.stat().st_size < 4 * sum(
        (tmp_path / "_delta_log" / f"{version:020}.json").stat().st_size for version in range(2, 9)
    )
    tier, reason = tier_and_reason(DeltaTable(tmp_path))
    assert tier == "checkpoint"
    assert "index 1" in reason


def test_a_broken_manifest_that_only_its_name_tells_of(tmp_path: Path) -> None:
    hourly(tmp_path, head=9, index=5)
    (tmp_path / SIDECARS / "_last_index").unlink()
    manifest = tmp_path / SIDECARS / "v5.manifest.json"
    manifest.write_text(json.dumps({"crc32": "00000000", "manifest": {}}))
    tier, reason = tier_and_reason(DeltaTable(tmp_path))
    assert tier == "log"
    assert "v5.manifest.json" in reason
