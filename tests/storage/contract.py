"""What every store must do: subclasses give the fixture `store`, an empty one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest

from delta_sidecar.errors import InputError, ObjectChangedError, ObjectExistsError, ObjectNotFoundError, StorageError
from delta_sidecar.storage.store import ByteRange, ObjectMeta, Store

TEN = b"0123456789"
PREFIXES = ["", "_delta_log", "_delta_log/", "_delta_log/2", "_delta_log/2/", "_", "z"]
OFFSETS = ["", "_delta_log/1.json", "_delta_log/2", "_delta_log/2.a", "_delta_log/2/", "_delta_log/2/w", "_e"]
LOG = ["_delta_log/1.json", "_delta_log/2.json", "_delta_log/2/x", "_delta_log/2.a", "_delta_log/_last_checkpoint"]
AWKWARD = ["a b/c d.parquet", "a%20b/x", "p=100%/y", "p=#1/z#2", "é/ü ?&+=.txt", "ts=2026-01-01 00:00:00/f", "x~y/w@v"]


def listed(store: Store, prefix: str = "", offset: str = "") -> list[str]:
    return [meta.path for page in store.list_after(prefix, offset) for meta in page]


def streamed(store: Store, path: str, chunk_size: int = 4 << 20, start: int = 0) -> bytes:
    return b"".join(bytes(chunk) for chunk in store.get_stream(path, chunk_size, start))


class StoreContract:
    def test_what_was_put_is_got_back(self, store: Store) -> None:
        store.put_if_absent("a/b", TEN)
        assert bytes(store.get("a/b")) == TEN

    def test_an_empty_object(self, store: Store) -> None:
        store.put_if_absent("empty", b"")
        assert bytes(store.get("empty")) == b""
        assert streamed(store, "empty") == b""
        assert store.head("empty").size == 0

    def test_a_second_put_is_refused_and_changes_nothing(self, store: Store) -> None:
        store.put_if_absent("a", TEN)
        with pytest.raises(ObjectExistsError, match="a exists already"):
            store.put_if_absent("a", b"other")
        assert bytes(store.get("a")) == TEN

    def test_of_many_puts_at_once_one_wins(self, store: Store) -> None:
        ready = threading.Barrier(4)

        def put(index: int) -> int | None:
            ready.wait(10)
            try:
                store.put_if_absent("contested", bytes([index]) * 10)
            except ObjectExistsError:
                return None
            return index

        with ThreadPoolExecutor(4) as pool:
            winners = [index for index in pool.map(put, range(4)) if index is not None]
        assert [bytes([w]) * 10 for w in winners] == [bytes(store.get("contested"))]

    def test_replace_compares_first(self, store: Store) -> None:
        first = store.put_if_absent("a", TEN)
        second = store.replace("a", b"second", first.etag)
        assert second == store.head("a")
        with pytest.raises(ObjectChangedError, match="a"):
            store.replace("a", b"late", first.etag)
        assert bytes(store.get("a")) == b"second"

    def test_what_is_gone_is_not_replaced(self, store: Store) -> None:
        first = store.put_if_absent("a", TEN)
        store.delete("a")
        with pytest.raises(ObjectChangedError):
            store.replace("a", b"late", first.etag)
        assert listed(store) == []

    def test_replace_without_comparing(self, store: Store) -> None:
        store.replace("a/b", b"first", None)
        made = store.replace("a/b", b"second", None)
        assert (bytes(store.get("a/b")), made) == (b"second", store.head("a/b"))

    def test_of_many_replaces_at_once_one_wins(self, store: Store) -> None:
        before = store.put_if_absent("contested", TEN)
        ready = threading.Barrier(4)

        def swap(index: int) -> int | None:
            ready.wait(10)
            try:
                store.replace("contested", bytes([index]) * 10, before.etag)
            except ObjectChangedError:
                return None
            return index

        with ThreadPoolExecutor(4) as pool:
            winners = [index for index in pool.map(swap, range(4)) if index is not None]
        assert [bytes([w]) * 10 for w in winners] == [bytes(store.get("contested"))]

    @pytest.mark.parametrize(
        "read",
        [
            lambda store: store.get("none"),
            lambda store: list(store.get_stream("none")),
            lambda store: store.get_range("none", 0, 1),
            lambda store: store.get_ranges("none", [ByteRange(0, 1)]),
            lambda store: store.head("none"),
        ],
        ids=["get", "get_stream", "get_range", "get_ranges", "head"],
    )
    def test_what_is_absent_is_not_found(self, store: Store, read: Callable[[Store], object]) -> None:
        with pytest.raises(ObjectNotFoundError, match="none does not exist"):
            read(store)

    def test_a_directory_is_no_object(self, store: Store) -> None:
        store.put_if_absent("dir/x", TEN)
        with pytest.raises(ObjectNotFoundError):
            store.head("dir")
        with pytest.raises(ObjectNotFoundError):
            store.get("dir")

    @pytest.mark.parametrize("path", ["../x", "a/../../x", "/x"])
    def test_no_way_out_of_the_root(self, store: Store, path: str) -> None:
        with pytest.raises(InputError, match="not below"):
            store.get(path)

    def test_a_range(self, store: Store) -> None:
        store.put_if_absent("a", TEN)
        assert bytes(store.get_range("a", 3, 4)) == b"3456"
        assert bytes(store.get_range("a", 0, 10)) == TEN
        assert bytes(store.get_range("a", 4, 0)) == b""

    @pytest.mark.parametrize(("start", "length"), [(8, 3), (10, 1), (50, 5)])
    def test_a_range_beyond_the_end_is_an_error(self, store: Store, start: int, length: int) -> None:
        store.put_if_absent("a", TEN)
        with pytest.raises(StorageError, match=r"ends before byte|beyond its end"):
            store.get_range("a", start, length)

    def test_ranges_come_in_the_order_asked_for(self, store: Store) -> None:
        data = bytes(range(256)) * 4000
        store.put_if_absent("a", data)
        asked = [ByteRange(900_000, 5), ByteRange(0, 3), ByteRange(7, 0), ByteRange(2, 4), ByteRange(0, 3)]
        assert [bytes(b) for b in store.get_ranges("a", asked)] == [data[r.start : r.end] for r in asked]
        assert store.get_ranges("a", []) == []

    @pytest.mark.parametrize("start", [0, 1, 700_000, 999_999, 1_000_000])
    def test_a_stream_from_anywhere(self, store: Store, start: int) -> None:
        data = bytes(range(250)) * 4000
        store.put_if_absent("a", data)
        assert streamed(store, "a", 100_000, start) == data[start:]

    def test_a_stream_may_be_left(self, store: Store) -> None:
        store.put_if_absent("a", bytes(1_000_000))
        stream = store.get_stream("a", 1000)
        assert len(next(stream)) > 0
        stream.close()  # type: ignore[attr-defined]
        with pytest.raises(StopIteration):
            next(stream)

    def test_head_and_listing_agree(self, store: Store) -> None:
        before = (time.time() - 60) * 1000
        put = store.put_if_absent("a/b", TEN)
        head = store.head("a/b")
        assert head == ObjectMeta("a/b", 10, head.last_modified_ms, head.etag)
        assert put == head
        assert [meta for page in store.list_after("a/") for meta in page] == [head]
        assert before < head.last_modified_ms < before + 120_000
        assert head.etag

    def test_an_empty_place_lists_nothing(self, store: Store) -> None:
        assert listed(store) == []
        assert listed(store, "_delta_log/", "_delta_log/0") == []

    def test_the_listing_is_recursive_and_in_path_order(self, store: Store) -> None:
        for path in reversed([*LOG, "_delta_log.x", "other/1"]):
            store.put_if_absent(path, b"x")
        assert listed(store) == sorted([*LOG, "_delta_log.x", "other/1"])
        assert listed(store, "_delta_log/") == sorted(LOG)

    def test_the_listing_begins_after_its_offset(self, store: Store) -> None:
        paths = [*LOG, "_delta_log.x", "a"]
        for path in paths:
            store.put_if_absent(path, b"x")
        for prefix, offset in product(PREFIXES, OFFSETS):
            expected = sorted(path for path in paths if path.startswith(prefix) and path > offset)
            assert listed(store, prefix, offset) == expected, (prefix, offset)

    def test_awkward_names(self, store: Store) -> None:
        for path in AWKWARD:
            store.put_if_absent(path, path.encode())
        assert listed(store) == sorted(AWKWARD)
        assert [bytes(store.get(path)).decode() for path in AWKWARD] == AWKWARD
        assert listed(store, "p=") == ["p=#1/z#2", "p=100%/y"]

    def test_delete(self, store: Store) -> None:
        store.put_if_absent("a", TEN)
        store.delete("a")
        store.delete("a")
        store.delete("never/there")
        assert listed(store) == []

    def test_many_threads(self, store: Store) -> None:
        data = bytes(range(256)) * 100
        store.put_if_absent("a", data)
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda i: bytes(store.get_range("a", i * 7, 50)), range(64)))
        assert answers == [data[i * 7 : i * 7 + 50] for i in range(64)]
