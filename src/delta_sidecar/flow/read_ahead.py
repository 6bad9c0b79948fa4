"""Send requests ahead of their consumer. The parts of indexes share one budget of bytes for all tables of the process.

Files that are read by ranges, such as checkpoints, have a budget each: `READ_AHEAD_BYTES`, or a share of it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
Item = TypeVar("Item")

READ_AHEAD_BYTES = 12 << 20
"""Bytes in flight and held: 8 to 12 MB fill a link of 30 ms."""


class ReadAhead:
    """A budget of bytes. What is needed at once is always granted; what is merely ahead only while there is room."""

    def __init__(self, limit: int = READ_AHEAD_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._taken = 0

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, size: int, needed: bool) -> bool:
        """Take bytes of the budget; False if there is no room and they are not needed at once."""
        with self._lock:
            if not needed and self._taken + size > self._limit:
                return False
            self._taken += size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size


shared_read_ahead = ReadAhead()


class Ahead(Generic[Item, T]):
    """Items with their answers, in order. Up to `most` requests run ahead, within the process's byte budget; the next
    one is always requested."""

    def __init__(
        self, items: Iterator[Item], send: Callable[[Item], Future[T]], size: Callable[[Item], int], most: int
    ) -> None:
        self._items = items
        self._send = send
        self._size = size
        self._most = most
        self._sent: deque[tuple[Item, int, Future[T]]] = deque()
        self._next: tuple[Item, int] | None = None
        self._taken = 0
        self._stopped = False

    def begin(self) -> None:
        """Start as many requests as there is room for, without waiting for answers."""
        self._fill(self._most)

    def _fill(self, most: int) -> None:
        while not self._stopped and len(self._sent) < most:
            if self._next is None and (following := next(self._items, None)) is not None:
                self._next = following, self._size(following)
            if self._next is None or not shared_read_ahead.take(self._next[1], needed=not self._sent):
                return
            (item, size), self._next = self._next, None
            self._taken += size
            self._sent.append((item, size, self._send(item)))

    def __iter__(self) -> Iterator[tuple[Item, T]]:
        try:
            while True:
                self._fill(max(1, self._most))
                if not self._sent:
                    return
                item, size, answer = self._sent[0]
                result = answer.result()
                self._sent.popleft()
                self.begin()
                yield item, result
                self._give_back(0 if self._stopped else size)
                del answer, result
        finally:
            self.close()

    def close(self) -> None:
        """Start no more requests, and cancel those that have not started. Gives the budget back."""
        self._stopped = True
        for _, _, answer in self._sent:
            answer.cancel()
        self._sent.clear()
        self._give_back(self._taken)

    def _give_back(self, size: int) -> None:
        self._taken -= size
        shared_read_ahead.give_back(size)
