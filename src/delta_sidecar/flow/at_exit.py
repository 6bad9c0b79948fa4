"""Stop threads before the interpreter exits: a thread that is inside Arrow then would abort the process."""

from __future__ import annotations

import atexit
import weakref
from typing import Protocol


class Closable(Protocol):
    """Something with threads of its own."""

    def close(self) -> None: ...


_running: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(work: Closable) -> None:
    """Close it when the process ends, if it is still there."""
    _running.add(work)


@atexit.register
def _close_all() -> None:
    for work in list(_running):
        work.close()
