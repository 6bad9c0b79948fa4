"""The retry policy: how often, how long, and what is resumed."""

from __future__ import annotations

import uuid

import pytest

from delta_sidecar.errors import ObjectExistsError, ObjectNotFoundError, StoreUnavailableError
from delta_sidecar.storage import Store, open_store
from delta_sidecar.storage.options import RetryPolicy, StoreSettings
from delta_sidecar.storage.retrying import RetryingStore
from delta_sidecar.testing.stores import CountingStore, Faults, FaultyStore
from tests.storage.contract import listed, streamed

ALWAYS = Faults(unavailable=1.0)


@pytest.fixture
def inner() -> Store:
    return open_store(f"memory://{uuid.uuid4().hex}/t")


def retrying(
    inner: Store, faults: Faults, seed: int = 1, **policy: float
) -> tuple[RetryingStore, CountingStore, list[float]]:
    pauses: list[float] = []
    counting = CountingStore(FaultyStore(inner, seed, faults))
    settings = StoreSettings(RetryPolicy(**policy))  # type: ignore[arg-type]
    return RetryingStore(counting, settings, pauses.append), counting, pauses


def test_a_cap_on_attempts(inner: Store) -> None:
    store, counting, _ = retrying(inner, ALWAYS, max_retries=4)
    with pytest.raises(StoreUnavailableError, match=r"503 SlowDown.*after 5 attempts"):
        store.get("a")
    assert counting.counts() == {"get": 5}


def test_no_retries(inner: Store) -> None:
    store, counting, pauses = retrying(inner, ALWAYS, max_retries=0)
    with pytest.raises(StoreUnavailableError):
        store.get("a")
    assert len(counting.requests) == 1
    assert pauses == []


def test_pauses_grow_up_to_a_limit(inner: Store) -> None:
    store, _, pauses = retrying(inner, ALWAYS, max_retries=6, init_backoff=1.0, max_backoff=8.0)
    with pytest.raises(StoreUnavailableError):
        store.head("a")
    limits = [1, 2, 4, 8, 8, 8]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, limits, strict=True))


def test_no_attempt_after_the_timeout(inner: Store) -> None:
    store, counting, _ = retrying(inner, ALWAYS, max_retries=10, retry_timeout=-1.0)
    with pytest.raises(StoreUnavailableError):
        store.get("a")
    assert len(counting.requests) == 1


def test_what_trying_again_does_not_help_is_not_tried_again(inner: Store) -> None:
    store, counting, _ = retrying(inner, Faults())
    with pytest.raises(ObjectNotFoundError):
        store.get("none")
    assert len(counting.requests) == 1


def test_a_broken_stream_goes_on_where_it_broke(inner: Store) -> None:
    data = bytes(range(256)) * 400
    inner.put_if_absent("a", data)
    store, counting, _ = retrying(inner, Faults(reset=0.8), seed=2, max_retries=30)
    assert streamed(store, "a", 1000) == data
    starts = [r.start for r in counting.requests]
    assert len(set(starts)) > 1
    assert starts == sorted(starts)
    assert counting.bytes_read == len(data)


def test_a_stream_that_never_gets_on_is_given_up(inner: Store) -> None:
    inner.put_if_absent("a", b"x")
    store, counting, _ = retrying(inner, Faults(reset=1.0), max_retries=2)
    with pytest.raises(StoreUnavailableError, match="after 3 attempts"):
        streamed(store, "a")
    assert counting.counts() == {"stream": 3}


def test_a_broken_listing_goes_on_where_it_broke(inner: Store) -> None:
    names = [f"{i:04d}" for i in range(50)]
    for name in names:
        inner.put_if_absent(name, b"")
    store, _, _ = retrying(inner, Faults(reset=0.5), max_retries=20)
    assert listed(store) == names


def test_a_short_range_is_asked_for_again(inner: Store) -> None:
    inner.put_if_absent("a", b"0123456789")
    store, counting, _ = retrying(inner, Faults(truncated=1.0, most_in_a_row=2))
    assert bytes(store.get_range("a", 2, 6)) == b"234567"
    assert [r.bytes for r in counting.requests] == [3, 3, 6]


def test_a_put_whose_answer_was_lost_has_succeeded(inner: Store) -> None:
    store, counting, _ = retrying(inner, Faults(reset=1.0, most_in_a_row=1))
    assert store.put_if_absent("a", b"mine").size == 4
    assert counting.counts()["put"] == 2


def test_a_put_that_met_anothers_object_has_not(inner: Store) -> None:
    inner.put_if_absent("a", b"theirs")
    store, _, _ = retrying(inner, Faults(unavailable=1.0, most_in_a_row=1))
    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a", b"mine")
    assert bytes(inner.get("a")) == b"theirs"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_goes_wrong_the_bytes_are_right(inner: Store, seed: int) -> None:
    data = bytes(range(256)) * 40
    inner.put_if_absent("a", data)
    store, _, _ = retrying(inner, Faults(0.2, 0.2, 0.2, most_in_a_row=4), seed)
    assert bytes(store.get("a")) == data
    assert streamed(store, "a", 100) == data
    assert bytes(store.get_range("a", 5, 1000)) == data[5:1005]
    assert store.head("a").size == len(data)
    assert listed(store) == ["a"]
