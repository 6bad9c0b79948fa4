"""What a process remembers of tables: the least recently used goes first, and all of it fits a budget of bytes.

Keys begin with the identity of a store, so that tables of one place under other credentials or another endpoint never
meet. What is kept is immutable: who puts something in says with its key exactly what it is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

DEFAULT_CACHE = 32 << 20


class Cache:
    """Values by key, least recently used last, within a budget of bytes."""

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
        """What was kept under a key; None if nothing is."""
        with self._lock:
            entry = self._held.get(key)
            if entry is None:
                return None
            self._held.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value of about `size` bytes, unless it is larger than all there is room for."""
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
        """Another budget; what does not fit any more goes."""
        with self._lock:
            self._limit = limit
            while self._size > self._limit:
                self._drop(next(iter(self._held)))

    def _drop(self, key: Hashable) -> None:
        entry = self._held.pop(key, None)
        self._size -= 0 if entry is None else entry[1]


shared_cache = Cache()
