"""What a process remembers: the least recently used goes first, within a budget of bytes, from any thread."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_sidecar.storage.cache import Cache


def test_what_was_put_is_there() -> None:
    cache = Cache(100)
    cache.put(("a", 1), "value", 10)
    assert cache.get(("a", 1)) == "value"
    assert cache.get(("a", 2)) is None
    assert cache.size == 10


def test_the_least_recently_used_goes_first() -> None:
    cache = Cache(30)
    for key in "abc":
        cache.put(key, key, 10)
    assert cache.get("a") == "a"
    cache.put("d", "d", 10)
    assert [cache.get(key) for key in "abcd"] == ["a", None, "c", "d"]
    assert cache.size == 30


def test_as_many_go_as_need_be() -> None:
    cache = Cache(30)
    for key in "abc":
        cache.put(key, key, 10)
    cache.put("large", "large", 25)
    assert [cache.get(key) for key in "abc"] == [None, None, None]
    assert (cache.get("large"), cache.size) == ("large", 25)


def test_what_is_larger_than_the_budget_is_not_kept_and_drives_nothing_out() -> None:
    cache = Cache(30)
    cache.put("a", "a", 10)
    cache.put("huge", "huge", 31)
    assert (cache.get("huge"), cache.get("a"), cache.size) == (None, "a", 10)
    cache.put("a", "a new one, too large", 31)
    assert (cache.get("a"), cache.size) == (None, 0)


def test_a_value_is_replaced() -> None:
    cache = Cache(30)
    cache.put("a", "old", 20)
    cache.put("a", "new", 5)
    assert (cache.get("a"), cache.size) == ("new", 5)


def test_what_is_exactly_the_budget_is_kept() -> None:
    cache = Cache(30)
    cache.put("a", "a", 30)
    assert cache.get("a") == "a"


def test_forget_and_clear() -> None:
    cache = Cache(30)
    cache.put("a", "a", 10)
    cache.put("b", "b", 10)
    cache.forget("a")
    cache.forget("never there")
    assert (cache.get("a"), cache.get("b"), cache.size) == (None, "b", 10)
    cache.clear()
    assert (cache.get("b"), cache.size) == (None, 0)


def test_a_smaller_budget_drives_the_oldest_out() -> None:
    cache = Cache(30)
    for key in "abc":
        cache.put(key, key, 10)
    cache.resize(15)
    assert [cache.get(key) for key in "abc"] == [None, None, "c"]
    cache.resize(0)
    assert cache.size == 0
    cache.put("a", "a", 1)
    assert cache.get("a") is None


@pytest.mark.parametrize("limit", [50, 1_000])
def test_many_threads(limit: int) -> None:
    """Each key has one value and one size: whatever the order, a value is right and the sum is that of what is held."""
    cache = Cache(limit)

    def used(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(2_000):
            key = draw.randrange(40)
            match draw.randrange(8):
                case 0:
                    cache.forget(key)
                case 1 | 2 | 3:
                    cache.put(key, f"value {key}", key)
                case _:
                    assert cache.get(key) in (None, f"value {key}")
            assert 0 <= cache.size <= limit + 40

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(used, range(8)))
    held = [key for key in range(40) if cache.get(key) is not None]
    assert cache.size == sum(held) <= limit
