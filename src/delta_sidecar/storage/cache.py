"""The cache of a process for all tables, bounded in bytes; the least recently used entries are dropped first.

Keys begin with the identity of a store, so tables at one location with other credentials or another endpoint never
share an entry. Entries are immutable, and each key identifies its value exactly.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

DEFAULT_CACHE = 32 << 20


class Cache:
    """Values by key within a budget of bytes; the least recently used goes first."""

    def __init__(self, limit: int = DEFAULT_CACHE) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size = 0

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def size(self) -> int:
        return self._size

    def get(self, key: Hashable) -> Any:
        """The value of a key; None if there is none."""
        with self._lock:
            entry = self._held.get(key)
            if entry is None:
                return None
            self._held.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of about `size` bytes, unless it is larger than the whole budget."""
        with self._lock:
            self._drop(key)
            if size > self._limit:
                return
            self._held[key] = (value, size)
            self._size += size
            while self._size > self._limit:
                self._drop(next(iter(self._held)))

    def forget(self, key: Hashable) -> None:
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._size = 0

    def resize(self, limit: int) -> None:
        """Change the budget, and drop what no longer fits."""
        with self._lock:
            self._limit = limit
            while self._size > self._limit:
                self._drop(next(iter(self._held)))

    def _drop(self, key: Hashable) -> None:
        entry = self._held.pop(key, None)
        self._size -= 0 if entry is None else entry[1]


shared_cache = Cache()
