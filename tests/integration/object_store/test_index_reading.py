"""Listings through an index on real object servers: the right files, by few requests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from delta_sidecar import DeltaTable
from delta_sidecar.index.format.index_names import SIDECAR_INDEX, SIDECARS
from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import Store
from delta_sidecar.testing.stores import CountingStore
from tests.costs.counted import opened
from tests.costs.hourly import bucket, hourly, indexed, moment, parts_asked, paths
from tests.index.models import manifest_at
from tests.integration.servers import ObjectServer


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Nothing is remembered from before."""
    shared_cache.clear()
    yield
    shared_cache.clear()


def uploaded(store: Store, root: Path, versions: range) -> None:
    """Commits, and checkpoints with what belongs to them, where a server has them."""
    log = root / "_delta_log"
    named = [log / "_last_checkpoint", *log.glob("_sidecars/*")] if versions[0] == 0 else []
    for file in [*named, *(file for version in versions for file in log.glob(f"{version:020}.*"))]:
        store.put_if_absent(file.relative_to(root).as_posix(), file.read_bytes())


class ReadingContract:
    """What holds on every server."""

    @pytest.fixture(params=[False, True], ids=["classic", "v2"])
    def store(self, server: ObjectServer, tmp_path: Path, request: pytest.FixtureRequest) -> CountingStore:
        """Ten hours in ten parts, at version 9, beside a checkpoint; three commits after it."""
        store = open_store(server.uri(f"{uuid.uuid4().hex}/a table #1 100% é"), server.storage_options)
        hourly(tmp_path, head=12, checkpoint=9, v2=request.param)
        uploaded(store, tmp_path, range(10))
        indexed(store)
        uploaded(store, tmp_path, range(10, 13))
        assert manifest_at(store, 9)[1] == (SIDECAR_INDEX if request.param else SIDECARS)
        return CountingStore(store)

    def test_all_files(self, store: CountingStore) -> None:
        with opened(store).scan_files() as scan:
            assert set(scan.read_all().column("path").to_pylist()) == paths(*range(13))
        assert (scan.metrics.tier, scan.metrics.fallback_reason) == ("index", None)
        assert (scan.metrics.parts_read, scan.metrics.commits_scanned) == (10, 3)
        assert len(parts_asked(store)) == len(set(parts_asked(store))) == 10
        assert len(store.requests) <= 3 + 1 + 8 + 3 + 10, "hints, listing, guesses, manifests, parts"
        assert not [path for path in store.paths() if ".checkpoint." in path]

    def test_the_first_file(self, store: CountingStore) -> None:
        with opened(store).scan_files(limit=1) as scan:
            assert set(scan.read_all().column("path").to_pylist()) < paths(12)
        assert parts_asked(store) == []
        assert len(store.requests) <= 3 + 1 + 8 + 3

    @pytest.mark.parametrize(
        "predicate", [f"_event_hour = '{bucket(9)}'", f"ts >= '{moment(9)}' and ts < '{moment(10)}'"]
    )
    def test_one_hour_is_one_part(self, store: CountingStore, predicate: str) -> None:
        with opened(store).scan_files(predicate=predicate) as scan:
            assert set(scan.read_all().column("path").to_pylist()) == paths(9)
        assert (scan.metrics.tier, scan.metrics.parts_read, scan.metrics.parts_total) == ("index", 1, 10)
        assert len(parts_asked(store)) == 1

    def test_a_stats_predicate(self, store: CountingStore) -> None:
        with opened(store).scan_files(predicate="m = 4") as scan:
            assert set(scan.read_all().column("path").to_pylist()) == paths(4)
        assert (scan.metrics.tier, scan.metrics.parts_read) == ("index", 1)
        assert sorted(name.rpartition(".")[0].rpartition(".")[2] for name in parts_asked(store)) == (
            ["core"] + ["stats"] * 10
        )

    def test_without_a_store_in_between(self, server: ObjectServer, store: CountingStore) -> None:
        table = DeltaTable(store.root_uri, storage_options=server.storage_options)
        with table.scan_files(predicate=f"_event_hour >= '{bucket(8)}'") as scan:
            assert set(scan.read_all().column("path").to_pylist()) == paths(8, 9, 10, 11, 12)
        assert (scan.metrics.tier, scan.metrics.parts_read) == ("index", 2)


class TestAzurite(ReadingContract):
    @pytest.fixture
    def server(self, azurite: ObjectServer) -> ObjectServer:
        return azurite


class TestS3(ReadingContract):
    @pytest.fixture
    def server(self, s3: ObjectServer) -> ObjectServer:
        return s3
