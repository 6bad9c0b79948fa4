"""Indexes on real object servers: built, built upon, verified, cleaned up, by one builder and by several."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from delta_sidecar.index.build.build import BuildOptions, build_index
from delta_sidecar.index.build.garbage import collect_garbage
from delta_sidecar.index.read.manifests import listed_manifests
from delta_sidecar.index.verify.verify import verify_index
from delta_sidecar.storage import Store, open_store
from delta_sidecar.testing import LogBuilder, add, remove
from tests.index.models import assert_index_is, small_parts
from tests.integration.servers import ObjectServer

FINE = BuildOptions(part_rows=2, limits=small_parts(single=1, small=2, most=2, rows=3))


class IndexContract:
    """What holds on every server."""

    @pytest.fixture
    def store(self, server: ObjectServer) -> Store:
        return open_store(server.uri(f"{uuid.uuid4().hex}/a table"), server.storage_options)

    def test_an_index_grows_and_is_cleaned_up(self, store: Store, tmp_path: Path) -> None:
        log = LogBuilder(tmp_path)
        log.commit(*(add(f"f{n}", stats={"numRecords": n}) for n in range(7)))
        log.commit(remove("f1"), add("g")).commit(add("h")).checkpoint()
        for version in range(3):
            upload(store, log, f"{version:020}.json")
            report = build_index(store, options=FINE)
            assert report.mode == ("incremental" if version else "full")
            check(store, log, version)
        build_index(store, options=replace(FINE, full=True))
        check(store, log, 2)
        before = len(listed_manifests(store))
        done = collect_garbage(store, retain=1, retention=timedelta(0), grace=timedelta(0))
        assert (before, len(listed_manifests(store))) == (3, 1)
        assert done.files > 2
        check(store, log, 2)

    def test_builders_at_once(self, store: Store, tmp_path: Path) -> None:
        log = LogBuilder(tmp_path)
        log.commit(*(add(f"f{n}") for n in range(7)))
        upload(store, log, f"{0:020}.json")
        with ThreadPoolExecutor(4) as pool:
            reports = list(pool.map(lambda _: build_index(store, options=FINE), range(4)))
        assert {report.files for report in reports} == {7}
        check(store, log, 0)


def upload(store: Store, log: LogBuilder, name: str) -> None:
    store.put_if_absent(f"_delta_log/{name}", (log.log / name).read_bytes())


def check(store: Store, log: LogBuilder, version: int) -> None:
    found = verify_index(store)
    assert (found.version, found.problems, found.notes) == (version, (), ())
    assert_index_is(store, version, log.state(version).files.values())


class TestAzurite(IndexContract):
    @pytest.fixture
    def server(self, azurite: ObjectServer) -> ObjectServer:
        return azurite


class TestS3(IndexContract):
    @pytest.fixture
    def server(self, s3: ObjectServer) -> ObjectServer:
        return s3
