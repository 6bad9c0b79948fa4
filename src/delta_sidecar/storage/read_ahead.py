"""How many bytes may be on their way ahead of who wants them: one budget for the process, shared by all tables."""

from __future__ import annotations

import threading

from delta_sidecar.storage.blocks import DEFAULT_BUDGET


class ReadAhead:
    """A budget of bytes. What is needed at once is always granted; what is merely ahead only while there is room."""

    def __init__(self, limit: int = DEFAULT_BUDGET) -> None:
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
