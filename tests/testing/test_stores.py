"""The counting, slow and faulty stores keep the contract, and do what they are for."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from delta_sidecar.errors import ObjectNotFoundError, StoreUnavailableError
from delta_sidecar.storage import ByteRange, Store, open_store
from delta_sidecar.storage.options import RetryPolicy, StoreSettings
from delta_sidecar.storage.retrying import RetryingStore
from delta_sidecar.testing.stores import CountingStore, Faults, FaultyStore, InStepStore, SlowStore
from tests.storage.contract import StoreContract, listed, streamed


def memory() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}/t")


class TestCountingContract(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return CountingStore(open_store(tmp_path))


class TestSlowContract(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return SlowStore(memory(), 0.0005)


class TestInStepContract(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return InStepStore(memory(), 0.0005)


class TestFaultyContract(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        faulty = FaultyStore(memory(), 7, Faults(0.2, 0.2, 0.2, most_in_a_row=3))
        return RetryingStore(faulty, StoreSettings(RetryPolicy(init_backoff=0.0)))


def test_every_request_is_recorded() -> None:
    store = CountingStore(memory())
    store.put_if_absent("a", b"0123456789")
    store.get("a")
    streamed(store, "a", start=4)
    store.get_range("a", 2, 3)
    store.head("a")
    listed(store)
    store.delete("a")
    with pytest.raises(ObjectNotFoundError):
        store.get("a")
    assert [(r.verb, r.start, r.length, r.bytes, r.failed) for r in store.requests] == [
        ("put", 0, None, 10, False),
        ("get", 0, None, 10, False),
        ("stream", 4, None, 6, False),
        ("range", 2, 3, 3, False),
        ("head", 0, None, 0, False),
        ("list", 0, None, 0, False),
        ("delete", 0, None, 0, False),
        ("get", 0, None, 0, True),
    ]
    assert store.bytes_read == 19
    assert store.counts()["get"] == 2
    assert store.paths("head") == ["a"]
    assert all(r.t_start <= r.t_end for r in store.requests)
    store.put_if_absent("b", b"0123456789")
    under_way = store.get_stream("b", chunk_size=4)
    next(under_way)
    store.reset()
    list(under_way)
    assert store.requests == []


def test_a_listing_counts_its_pages(tmp_path: Path) -> None:
    store = CountingStore(open_store(tmp_path))
    assert listed(store) == []
    assert store.counts() == {"list": 1}
    for index in range(2000):
        (tmp_path / f"{index:04d}").touch()
    store.reset()
    next(store.list_after(""))
    assert store.counts() == {"list": 1}
    assert len(listed(store)) == 2000
    assert store.counts() == {"list": 3}


def test_a_stream_left_early_is_no_failure() -> None:
    inner = memory()
    inner.put_if_absent("a", bytes(1000))
    store = CountingStore(inner)
    stream = store.get_stream("a", 10)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert [(r.verb, r.failed) for r in store.requests] == [("stream", False)]


def test_round_trips_count_parallel_requests_once() -> None:
    inner = memory()
    inner.put_if_absent("a", bytes(1_000_000))
    store = CountingStore(InStepStore(inner))
    store.get_ranges("a", [ByteRange(i * 200_000, 10) for i in range(4)])
    assert (store.counts()["range"], store.round_trips()) == (4, 1)
    store.get("a")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(store.head, ["a", "a"]))
    assert (len(store.requests), store.round_trips()) == (7, 3)


def test_requests_of_threads_that_start_late_are_answered_in_one_turn() -> None:
    """Each is busy before it asks, all together for longer than the store's idle time."""
    inner = memory()
    inner.put_if_absent("a", b"0")
    store = CountingStore(InStepStore(inner))

    def late(seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass
        store.head("a")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(late, [0.0, 0.1, 0.2, 0.3]))
    assert (len(store.requests), store.round_trips(), store.under_way) == (4, 1, 0)


def test_near_ranges_are_one_request_on_a_local_store_too(tmp_path: Path) -> None:
    store = CountingStore(open_store(tmp_path))
    store.put_if_absent("a", bytes(1_000_000))
    store.get_ranges("a", [ByteRange(0, 10), ByteRange(100, 10), ByteRange(900_000, 10)])
    assert [(r.start, r.length) for r in store.requests if r.verb == "range"] == [(0, 110), (900_000, 10)]


def test_nobody_gets_around_them(tmp_path: Path) -> None:
    inner = open_store(tmp_path)
    for store in (CountingStore(inner), SlowStore(inner, 0), FaultyStore(inner, 1)):
        assert store.local_path("a") is None
        assert store.root_uri == inner.root_uri


def test_a_slow_store_is_slow() -> None:
    store = SlowStore(memory(), 0.05)
    began = time.perf_counter()
    store.put_if_absent("a", b"x")
    store.get("a")
    assert time.perf_counter() - began >= 0.1


def outcome(seed: int) -> list[bool]:
    inner = memory()
    inner.put_if_absent("a", b"0123456789")
    store = FaultyStore(inner, seed, Faults(unavailable=0.5))
    found = []
    for _ in range(30):
        try:
            store.get("a")
            found.append(True)
        except StoreUnavailableError:
            found.append(False)
    return found


def test_faults_follow_the_seed() -> None:
    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)
    assert 5 < sum(outcome(1)) < 25


def test_kinds_of_faults() -> None:
    inner = memory()
    inner.put_if_absent("a", b"0123456789")
    truncated = FaultyStore(inner, 1, Faults(truncated=1.0))
    assert bytes(truncated.get_range("a", 0, 10)) == b"01234"
    with pytest.raises(StoreUnavailableError, match="broke off"):
        truncated.get("a")
    with pytest.raises(StoreUnavailableError, match="reset"):
        FaultyStore(inner, 1, Faults(reset=1.0)).head("a")
    stream = FaultyStore(inner, 1, Faults(reset=1.0)).get_stream("a")
    assert bytes(next(stream)) == b"01234"
    with pytest.raises(StoreUnavailableError):
        next(stream)
    assert truncated.failures == {"truncated": 2}
