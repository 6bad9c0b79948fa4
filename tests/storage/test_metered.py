"""The store that says what a scan cost."""

from __future__ import annotations

import uuid

import pytest

from delta_sidecar.storage import ByteRange, Store, open_store
from delta_sidecar.storage.metered import Cost, MeteredStore
from tests.storage.contract import StoreContract, listed, streamed


class TestMeteredContract(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MeteredStore(open_store(f"memory://{uuid.uuid4().hex}/t"))


def test_requests_and_bytes() -> None:
    store = MeteredStore(open_store(f"memory://{uuid.uuid4().hex}/t"))
    assert listed(store) == []
    store.put_if_absent("a", bytes(1_000_000))
    before = store.cost
    assert before == Cost(2, 0)
    store.get("a")
    streamed(store, "a", start=999_990)
    store.get_range("a", 0, 7)
    store.get_ranges("a", [ByteRange(0, 10), ByteRange(20, 10), ByteRange(900_000, 5)])
    store.head("a")
    listed(store)
    assert store.cost - before == Cost(7, 1_000_000 + 10 + 7 + 30 + 5)
