"""A store that counts requests and bytes, so every scan can report its cost."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

from delta_sidecar.storage.ranges import coalesce
from delta_sidecar.storage.store import Buffer, ByteRange, HasPlace, ObjectMeta, Store


class Cost(Struct, frozen=True):
    """Requests made and bytes received."""

    requests: int = 0
    bytes_read: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.requests + other.requests, self.bytes_read + other.bytes_read)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.requests - other.requests, self.bytes_read - other.bytes_read)


class MeteredStore:
    """Counts requests and bytes on their way through."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._cost = Cost()

    @property
    def cost(self) -> Cost:
        """All requests and bytes so far."""
        return self._cost

    def charge(self, requests: int, size: int) -> None:
        """Count what was read without the store: a local file that pyarrow opened itself."""
        with self._lock:
            self._cost += Cost(requests, size)

    @property
    def root_uri(self) -> str:
        return self._inner.root_uri

    @property
    def identity(self) -> Hashable:
        return self._inner.identity

    @property
    def place(self) -> str | None:
        return self._inner.place if isinstance(self._inner, HasPlace) else None

    def local_path(self, path: str) -> str | None:
        return self._inner.local_path(path)

    def get(self, path: str) -> Buffer:
        self.charge(1, 0)
        data = self._inner.get(path)
        self.charge(0, len(data))
        return data

    def get_stream(self, path: str, chunk_size: int = 4 << 20, start: int = 0) -> Iterator[Buffer]:
        self.charge(1, 0)
        for chunk in self._inner.get_stream(path, chunk_size, start):
            self.charge(0, len(chunk))
            yield chunk

    def get_range(self, path: str, start: int, length: int) -> Buffer:
        self.charge(1, length)
        return self._inner.get_range(path, start, length)

    def get_ranges(self, path: str, ranges: Sequence[ByteRange]) -> list[Buffer]:
        requests = coalesce(ranges)
        self.charge(len(requests), sum(r.length for r in requests))
        return self._inner.get_ranges(path, ranges)

    def head(self, path: str) -> ObjectMeta:
        self.charge(1, 0)
        return self._inner.head(path)

    def list_after(self, prefix: str, offset: str = "", before: str = "") -> Iterator[list[ObjectMeta]]:
        self.charge(1, 0)
        for index, page in enumerate(self._inner.list_after(prefix, offset, before)):
            self.charge(1 if index else 0, 0)
            yield page

    def put_if_absent(self, path: str, data: Buffer) -> ObjectMeta:
        self.charge(1, 0)
        return self._inner.put_if_absent(path, data)

    def replace(self, path: str, data: Buffer, expected: str | None) -> ObjectMeta:
        self.charge(1, 0)
        return self._inner.replace(path, data, expected)

    def delete(self, path: str) -> None:
        self.charge(1, 0)
        self._inner.delete(path)
