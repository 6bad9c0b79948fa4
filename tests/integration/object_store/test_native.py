"""The native reader on real object servers: the files of our reader, by as many requests; keys that are wrong, servers
that throttle and connections that are cut."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from delta_sidecar.storage import open_store
from delta_sidecar.storage.cache import shared_cache
from delta_sidecar.storage.store import Store
from delta_sidecar.testing.stores import CountingStore
from tests.costs.counted import opened
from tests.costs.hourly import bucket, hourly, indexed, moment, paths
from tests.integration.object_store.proxy import Cut, Throttle, proxied
from tests.integration.servers import ObjectServer
from tests.native import library
from tests.native.library import CREDENTIALS, NO_INDEX, NO_TABLE, OK, NativeError

pytestmark = library.needed()


@pytest.fixture(autouse=True)
def cold() -> Iterator[None]:
    """Our reader remembers nothing from before."""
    shared_cache.clear()
    yield
    shared_cache.clear()


def uploaded(store: Store, root: Path, versions: range) -> None:
    """Commits, where a server has them."""
    for name in (f"_delta_log/{version:020}.json" for version in versions):
        store.put_if_absent(name, (root / name).read_bytes())


def listed(store: CountingStore, predicate: str | None, limit: int | None) -> tuple[list[str], int]:
    """The paths of our reader, which remembers nothing, and how many requests it made."""
    shared_cache.clear()
    before = len(store.requests)
    with opened(store).scan_files(predicate=predicate, limit=limit) as scan:
        rows = scan.read_all().column("path").to_pylist()
    return rows, len(store.requests) - before


class NativeContract:
    """What holds on every server."""

    @pytest.fixture
    def store(self, server: ObjectServer, tmp_path: Path) -> CountingStore:
        """Ten hours in ten parts, at version 9; three commits after it."""
        store = open_store(server.uri(f"{uuid.uuid4().hex}/a table #1 100% é"), server.storage_options)
        hourly(tmp_path, head=12)
        uploaded(store, tmp_path, range(10))
        indexed(store)
        uploaded(store, tmp_path, range(10, 13))
        return CountingStore(store)

    @pytest.mark.parametrize(
        ("predicate", "limit", "hours"),
        [
            (None, None, range(13)),
            (f"_event_hour = '{bucket(9)}'", None, [9]),
            (f"ts >= '{moment(9)}' and ts < '{moment(10)}'", None, [9]),
            (f"_event_hour = '{bucket(12)}'", 1, [12]),
            ("m = 4", None, [4]),
        ],
    )
    def test_the_same_files(
        self, server: ObjectServer, store: CountingStore, predicate: str | None, limit: int | None, hours: list[int]
    ) -> None:
        rows, asked = listed(store, predicate, limit)
        request = {"storage_options": server.storage_options, "predicate": predicate, "limit": limit}
        found, requests = library.listing_and_requests(store.root_uri, **request)
        assert {file["path"] for file in found} <= paths(*hours)
        assert len(found) == len(rows)
        if limit is None:
            assert {file["path"] for file in found} == set(rows) == paths(*hours)
        if predicate != "m = 4":
            # On a busy machine the LIST may come before a thread has begun a guess, which is then never asked for.
            again = (listed(store, predicate, limit)[1] for _ in range(4))
            assert requests == asked or requests in again

    def test_the_uris_are_ours(self, server: ObjectServer, store: CountingStore) -> None:
        found = library.files(store.root_uri, storage_options=server.storage_options)
        assert sorted(file["uri"] for file in found) == sorted(opened(store).file_uris())

    def test_what_is_not_there(self, server: ObjectServer) -> None:
        code, _ = library.answered(server.uri(uuid.uuid4().hex), storage_options=server.storage_options)
        assert code == NO_TABLE

    def test_no_index(self, server: ObjectServer, tmp_path: Path) -> None:
        store = open_store(server.uri(uuid.uuid4().hex), server.storage_options)
        hourly(tmp_path, head=3)
        uploaded(store, tmp_path, range(4))
        code, _ = library.answered(store.root_uri, storage_options=server.storage_options)
        assert code == NO_INDEX
        found = library.files(store.root_uri, storage_options=server.storage_options, fallback="log")
        assert {file["path"] for file in found} == paths(*range(4))

    def test_throttling_and_cut_connections(self, server: ObjectServer, store: CountingStore) -> None:
        with proxied(server) as (slow, proxy):
            proxy.faults += [Throttle(), Cut(0), Throttle()]
            uri = store.root_uri.replace(server.base_uri, slow.base_uri)
            options = {**slow.storage_options, "backoff_config.init_backoff": "0.01"}
            found = library.files(uri, storage_options=options)
            assert {file["path"] for file in found} == paths(*range(13))
            assert not proxy.faults

    def test_a_callback_that_stalls_until_the_connection_is_gone(
        self, server: ObjectServer, store: CountingStore
    ) -> None:
        with proxied(server) as (slow, proxy):
            seen: list[str] = []

            def stall(file: dict[str, Any]) -> bool:
                if not seen:
                    time.sleep(0.5)
                    proxy.faults += [Cut(0)]
                seen.append(file["path"])
                return True

            storage = {**slow.storage_options, "backoff_config.init_backoff": "0.01"}
            options = {"storage_options": storage, "memory_budget": 1}
            uri = store.root_uri.replace(server.base_uri, slow.base_uri)
            assert library.lazily(uri, options, stall) == OK
            assert set(seen) == paths(*range(13))
            assert len(seen) == len(set(seen))
            assert not proxy.faults


class TestAzurite(NativeContract):
    @pytest.fixture
    def server(self, azurite: ObjectServer) -> ObjectServer:
        return azurite

    def test_a_wrong_key(self, server: ObjectServer, store: CountingStore) -> None:
        wrong = "d3Jvbmcga2V5IG9mIHRoZSBhY2NvdW50"
        options = {name: wrong if name.endswith("key") else text for name, text in server.storage_options.items()}
        with pytest.raises(NativeError) as raised:
            library.files(store.root_uri, storage_options=options)
        assert raised.value.code == CREDENTIALS
        assert "d3Jvbmc" not in raised.value.message


class TestS3(NativeContract):
    @pytest.fixture
    def server(self, s3: ObjectServer) -> ObjectServer:
        return s3

    def test_a_wrong_key(self, store: CountingStore, guarded_s3: ObjectServer) -> None:
        secret = "wrong-secret-of-nobody"
        options = {**guarded_s3.storage_options, "aws_secret_access_key": secret}
        with pytest.raises(NativeError) as raised:
            library.files(store.root_uri, storage_options=options)
        assert raised.value.code == CREDENTIALS
        assert secret not in raised.value.message
