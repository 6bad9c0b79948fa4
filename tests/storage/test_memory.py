"""obstore's memory store: the object store code without a network."""

from __future__ import annotations

import uuid

import pytest

from delta_sidecar.storage import Store, open_store
from tests.storage.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_store(f"memory://{uuid.uuid4().hex}/a table/#1 100% é")


class TestMemoryRoot(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return open_store(f"memory://{uuid.uuid4().hex}")


def test_one_name_is_one_place() -> None:
    name = uuid.uuid4().hex
    open_store(f"memory://{name}/t").put_if_absent("a/b", b"x")
    assert bytes(open_store(f"memory://{name}/t/a").get("b")) == b"x"


def test_no_local_path() -> None:
    assert open_store("memory://x").local_path("a") is None
