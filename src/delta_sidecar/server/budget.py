"""How much many clients may hold together: streams at once and bytes. Who comes first is served first."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from delta_sidecar.errors import ServerBusyError

_LOOK_EVERY: Final = 0.25
"""Seconds between two looks whether a waiting client is still there."""


class GoneError(Exception):
    """The client went away while it waited."""


class Admission:
    """A place in the budget; it is given back once, however often it is asked to."""

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget = budget
        self._size = size
        self._lock = threading.Lock()
        self._is_held = True

    def give_back(self) -> None:
        with self._lock:
            is_held, self._is_held = self._is_held, False
        if is_held:
            self._budget._release(self._size)


class Budget:
    """Streams at once and bytes held by all of them."""

    def __init__(self, streams: int, held_bytes: int, waiting: int = 256) -> None:
        self._most_streams = streams
        self._most_bytes = held_bytes
        self._most_waiting = waiting
        self._streams = self._bytes = 0
        self._lock = threading.Lock()
        self._queue: deque[threading.Condition] = deque()
        """Who waits. Each is woken alone: a hundred that wake at every change would take the time of those served."""
        self._freed = threading.Condition(self._lock)

    @property
    def streams(self) -> int:
        return self._streams

    @property
    def held_bytes(self) -> int:
        return self._bytes

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def admit(self, size: int, patience: float, is_gone: Callable[[], bool] = lambda: False) -> Admission:
        """A place for `size` bytes, in the order of asking. `ServerBusyError` after `patience` seconds, or at once if
        too many wait; `GoneError` if the client went away meanwhile."""
        until, me = time.monotonic() + patience, threading.Condition(self._lock)
        with self._lock:
            if len(self._queue) >= self._most_waiting:
                raise ServerBusyError(f"the server is busy: {len(self._queue)} requests wait; try again later")
            self._queue.append(me)
            try:
                while not (self._queue[0] is me and self._fits(size)):
                    left = until - time.monotonic()
                    if left <= 0:
                        raise ServerBusyError(
                            f"the server is busy: {self._streams} streams are open; nothing was free for "
                            f"{patience:g} s; try again"
                        )
                    if is_gone():
                        raise GoneError
                    me.wait(min(left, _LOOK_EVERY))
                self._streams += 1
                self._bytes += size
            finally:
                self._queue.remove(me)
                self._wake_first()
        return Admission(self, size)

    def _wake_first(self) -> None:
        if self._queue:
            self._queue[0].notify()

    def _fits(self, size: int) -> bool:
        return self._streams < self._most_streams and (not self._streams or self._bytes + size <= self._most_bytes)

    def _release(self, size: int) -> None:
        with self._lock:
            self._streams -= 1
            self._bytes -= size
            self._wake_first()
            self._freed.notify_all()

    def wait_until_free(self, seconds: float) -> bool:
        """Whether nobody holds a place any more, within some seconds."""
        with self._lock:
            return self._freed.wait_for(lambda: not self._streams, seconds)
